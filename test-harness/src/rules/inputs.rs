//! Inputs: closed at every level, described field by field, and refusing in fact what their schema refuses.

use super::{examples, walk};
use portreeve_registry::Registry;
use serde_json::{Map, Value, json};

/// Every object of an input names its fields and takes no others.
pub fn open(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        walk(&json!(tool.input_schema()), "", &mut |place, schema| {
            let object = schema.get("type") == Some(&json!("object")) || schema.get("properties").is_some();
            if object && schema.get("additionalProperties") != Some(&json!(false)) {
                faults.push(format!("{} input {place}: takes fields that it doesn't name", tool.name()));
            }
        });
    }
    faults
}

/// Every field of an input says what it is; the tag of an enum is its one word, and can't have a doc comment.
pub fn undescribed(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        walk(&json!(tool.input_schema()), "", &mut |place, schema| {
            for (field, sub) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let tag = sub.get("enum").and_then(Value::as_array).is_some_and(|words| words.len() == 1);
                if !tag && sub.get("description").and_then(Value::as_str).is_none_or(str::is_empty) {
                    faults.push(format!("{} input {place}.{field}: has no doc comment", tool.name()));
                }
            }
        });
    }
    faults
}

/// No type has a field of its own under a name that the registry gives its meaning.
pub fn shadowed(registry: &Registry) -> Vec<String> {
    let faults = registry.iter().flat_map(|tool| {
        let names = tool.shadowed().into_iter();
        names.map(|name| format!("{}: the name {name} is the registry's", tool.name()))
    });
    faults.collect()
}

/// An unknown field anywhere in an example is refused, not only by the schema.
///
/// serde loses strictness in enums that carry data: their content is read twice.
pub fn lax(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        for (place, arguments) in with_strangers(&tool.example()) {
            if examples::taken(tool, arguments).is_ok() {
                faults.push(format!("{} input {place}: takes an unknown field", tool.name()));
            }
        }
    }
    faults
}

/// The example once for each object in it, with a field too many there.
fn with_strangers(example: &Map<String, Value>) -> Vec<(String, Map<String, Value>)> {
    let whole = Value::Object(example.clone());
    let mut pointers = vec![String::new()];
    objects(&whole, "", &mut pointers);
    let strange = |pointer: String| {
        let mut changed = whole.clone();
        let place = changed.pointer_mut(&pointer).and_then(Value::as_object_mut);
        place.expect("an object was seen there").insert("zzStranger".into(), 1.into());
        let Value::Object(changed) = changed else { unreachable!("an object's copy") };
        (pointer, changed)
    };
    pointers.into_iter().map(strange).collect()
}

fn objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, sub)| (name.clone(), sub)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, sub)| (i.to_string(), sub)).collect(),
        _ => return,
    };
    for (step, sub) in children {
        let below = format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"));
        if sub.is_object() {
            found.push(below.clone());
        }
        objects(sub, &below, found);
    }
}
