//! Outputs: everything in them has a type, and every array an end.

use super::{excused, walk};
use portreeve_registry::Registry;
use serde_json::{Value, json};

/// The list of places that may hold anything.
pub const UNTYPED: &str = "untyped.txt";

/// No place takes anything at all, but for those on [`UNTYPED`].
///
/// Through an untyped place a raw credential could reach an agent with nobody to stop it.
pub fn untyped(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        for (which, schema) in super::schemas(tool) {
            walk(&json!(schema), "", &mut |place, node| {
                if is_hole(node) {
                    faults.push(format!("{} {which} {place}", tool.name()));
                }
            });
        }
    }
    excused(faults, UNTYPED)
}

fn is_hole(node: &Value) -> bool {
    let Some(object) = node.as_object() else { return false };
    let typed = ["type", "enum"].iter().any(|key| object.contains_key(*key));
    let arms = ["anyOf", "oneOf", "allOf"].iter().any(|key| object.contains_key(*key));
    // An object without named fields, or an array without a type of item, takes anything too.
    let loose = match object.get("type").and_then(Value::as_str) {
        Some("object") => !object.contains_key("properties") && !object.contains_key("additionalProperties"),
        Some("array") => !object.contains_key("items") && !object.contains_key("prefixItems"),
        _ => false,
    };
    !typed && !arms || loose
}

/// Every array in what a tool answers says how long it may be.
pub fn endless(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        walk(&json!(tool.output_schema()), "", &mut |place, node| {
            if node.get("type") == Some(&json!("array")) && node.get("maxItems").is_none() {
                faults.push(format!(
                    "{} output {place}: an array without an end; say #[schemars(length(max = …))], or make it a collection",
                    tool.name()
                ));
            }
        });
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_anything_is_a_hole() {
        for hole in [
            json!({}),
            json!({"description": "anything"}),
            json!({"type": "object"}),
            json!({"type": "array"}),
        ] {
            assert!(is_hole(&hole), "{hole}");
        }
        for typed in [
            json!({"type": "string"}),
            json!({"enum": ["a"]}),
            json!({"anyOf": [{"type": "string"}]}),
            json!({"type": "object", "properties": {}}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!(false),
        ] {
            assert!(!is_hole(&typed), "{typed}");
        }
    }
}
