//! The rules that every registered tool and every served operation keep.
//!
//! Each rule is a function that gives what breaks it, one line a fault, each naming the tool and the place.
//! None knows a tool by name: a new domain is under all of them the moment it is linked.
//! The lists of exceptions are files beside this crate's manifest; a line that no longer excuses anything is a
//! fault itself, so they only shrink.

pub mod bounds;
pub mod bridge;
pub mod dependencies;
pub mod examples;
pub mod fuzz;
pub mod inputs;
pub mod literals;
pub mod operations;
pub mod portable;
pub mod sizes;
pub mod surface;

use portreeve_registry::{Advertised, Registry};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A rule over the registry.
pub type Rule = fn(&Registry) -> Vec<String>;

/// The workspace's folder.
pub fn workspace() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.parent().expect("this crate's folder is in the workspace's").to_owned()
}

/// A checked-in list: what is excused, and why, by two spaces or more between them.
///
/// # Panics
/// If the file can't be read or a line gives no reason.
pub fn exceptions(file: &str) -> Vec<(String, String)> {
    let path = workspace().join("test-harness").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.map(|line| {
        let (what, why) = line.split_once("  ").unwrap_or_else(|| panic!("{file}: no reason: {line}"));
        (what.trim().to_owned(), why.trim().to_owned())
    });
    pairs.collect()
}

/// Takes the excused out of `faults`, and adds the excuses that excuse nothing.
pub fn excused(faults: Vec<String>, file: &str) -> Vec<String> {
    let mut left = faults;
    for (what, _) in exceptions(file) {
        let before = left.len();
        left.retain(|fault| *fault != what);
        if left.len() == before {
            left.push(format!("{file}: excuses nothing any more, take it out: {what}"));
        }
    }
    left
}

/// Both schemas of a tool, each with its name.
pub fn schemas(tool: &Advertised) -> [(&'static str, &Map<String, Value>); 2] {
    [("input", tool.input_schema()), ("output", tool.output_schema())]
}

/// Where a schema has one subschema, several by name, or a list of them (JSON Schema 2020-12, core and
/// applicators).
const ONE: [&str; 11] = [
    "items",
    "additionalProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
const NAMED: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
const MANY: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Shows `visit` a schema and everything in it, each with its place: `items[].payload`.
pub fn walk(schema: &Value, place: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(place, schema);
    let Some(object) = schema.as_object() else { return };
    for (key, sub) in object {
        match sub {
            Value::Object(subs) if NAMED.contains(&key.as_str()) => {
                let dot = if place.is_empty() { "" } else { "." };
                subs.iter().for_each(|(name, sub)| walk(sub, &format!("{place}{dot}{name}"), visit));
            }
            Value::Array(subs) if MANY.contains(&key.as_str()) => {
                subs.iter().enumerate().for_each(|(i, sub)| walk(sub, &format!("{place}<{key} {i}>"), visit));
            }
            sub if ONE.contains(&key.as_str()) => {
                let step = match key.as_str() {
                    "items" => "[]".to_owned(),
                    "additionalProperties" => ".*".to_owned(),
                    other => format!("<{other}>"),
                };
                walk(sub, &format!("{place}{step}"), visit);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_walk_sees_every_place_once_and_takes_no_field_for_a_keyword() {
        let schema = json!({
            "properties": {
                "items": {"type": "array", "items": {"properties": {"payload": {"additionalProperties": {}}}}},
                "choice": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            },
            "additionalProperties": false,
        });
        let mut places = Vec::new();
        walk(&schema, "", &mut |place, _| places.push(place.to_owned()));
        places.sort();
        let expected = [
            "",
            ".*",
            "choice",
            "choice<oneOf 0>",
            "choice<oneOf 1>",
            "items",
            "items[]",
            "items[].payload",
            "items[].payload.*",
        ];
        assert_eq!(places, expected);
    }
}
