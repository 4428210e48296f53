//! Schemas that every host takes: what one host or another refuses, asserted for every schema.
//!
//! The facts behind each line are in ARCHITECTURE.md ("What hosts take").

use super::{schemas, walk};
use portreeve_registry::{Advertised, Registry};
use serde_json::{Value, json};

/// Formats that the standard defines; others give a flood of warnings in some hosts.
const FORMATS: [&str; 13] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "uuid",
    "json-pointer",
    "regex",
];
/// Keywords that mean something: all others, annotations too, cost every conversation and say nothing.
const KEYWORDS: [&str; 26] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "anyOf",
    "oneOf",
    "allOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "description",
    "default",
    "propertyNames",
];

/// Everything in any schema that some host refuses.
pub fn faults(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        names(tool, &mut faults);
        for (which, schema) in schemas(tool) {
            let schema = json!(schema);
            let mut fault = |text: String| faults.push(format!("{} {which} {text}", tool.name()));
            if schema["type"] != "object" || !schema["properties"].is_object() {
                fault("is no object with properties".to_owned());
            }
            for key in ["oneOf", "anyOf", "allOf"] {
                if schema.get(key).is_some() {
                    fault(format!("has {key} at its root"));
                }
            }
            walk(&schema, "", &mut |place, node| {
                for text in of_node(place, node) {
                    fault(format!("{place}: {text}"));
                }
            });
            if let Err(error) = jsonschema::draft202012::meta::validate(&schema) {
                fault(format!("is no JSON Schema at {}: {error}", error.instance_path()));
            }
        }
    }
    faults
}

fn names(tool: &Advertised, faults: &mut Vec<String>) {
    let name = tool.name();
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if name.len() > 40 || !name.bytes().all(plain) {
        faults.push(format!("{name}: a name is of a-z, 0-9 and _, at most 40"));
    }
    if !name.strip_prefix(tool.domain()).is_some_and(|rest| rest.starts_with('_')) {
        faults.push(format!("{name}: a name starts with its domain"));
    }
    let length = tool.description().chars().count();
    if length == 0 || length > 1024 {
        faults.push(format!("{name}: a description has 1 to 1,024 characters, not {length}"));
    }
}

/// What is wrong with one node, without what is below it.
fn of_node(place: &str, node: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(object) = node.as_object() else {
        if *node != json!(false) || !place.ends_with(".*") {
            faults.push(format!("is the boolean {node}"));
        }
        return faults;
    };
    for (key, value) in object {
        if !KEYWORDS.contains(&key.as_str()) {
            faults.push(format!("has {key}"));
        }
        match (key.as_str(), value) {
            ("type", Value::String(word)) if word == "null" => faults.push("is null".to_owned()),
            ("type", Value::Array(words)) if words.iter().any(|w| w == "null") => {
                faults.push("may be null".to_owned());
            }
            ("type", Value::Array(_)) => faults.push("has several types: Gemini takes one".to_owned()),
            ("enum", Value::Array(values)) if values.iter().any(Value::is_null) => {
                faults.push("has null among its words".to_owned());
            }
            ("default", Value::Null) => faults.push("has null as its default".to_owned()),
            ("format", format) if !FORMATS.iter().any(|known| format == known) => {
                faults.push(format!("has the format {format}"));
            }
            ("required", Value::Array(names)) => {
                let known = object.get("properties");
                for name in names.iter().filter_map(Value::as_str) {
                    if known.and_then(|k| k.get(name)).is_none() {
                        faults.push(format!("requires {name}, which it doesn't name"));
                    }
                }
            }
            _ => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_a_host_refuses_is_seen() {
        for (node, fault) in [
            (json!(true), "is the boolean true"),
            (json!(false), "is the boolean false"),
            (json!({"$ref": "#/$defs/A"}), "has $ref"),
            (json!({"$defs": {}}), "has $defs"),
            (json!({"const": 1}), "has const"),
            (json!({"title": "A"}), "has title"),
            (json!({"type": "null"}), "is null"),
            (json!({"type": ["string", "null"]}), "may be null"),
            (json!({"type": ["string", "integer"]}), "has several types: Gemini takes one"),
            (json!({"enum": ["a", null]}), "has null among its words"),
            (json!({"default": null}), "has null as its default"),
            (json!({"format": "uint32"}), "has the format \"uint32\""),
            (json!({"required": ["a"], "properties": {}}), "requires a, which it doesn't name"),
        ] {
            assert_eq!(of_node("field", &node), [fault], "{node}");
        }
        assert_eq!(of_node("field.*", &json!(false)), [""; 0]);
        assert_eq!(of_node("field", &json!({"type": "string", "format": "uuid"})), [""; 0]);
    }
}
