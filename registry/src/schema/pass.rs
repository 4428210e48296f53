//! The pass over what schemars wrote: it removes what some host or other refuses, and closes inputs.

use super::Object;
use serde_json::{Value, json};

/// Formats that the JSON Schema standard defines; all others are dropped.
const FORMATS: &[&str] = &[
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

/// Where a schema has a subschema.
const ONE: [&str; 5] = ["items", "additionalProperties", "propertyNames", "contains", "not"];
/// Where it has several by name.
const NAMED: [&str; 2] = ["properties", "patternProperties"];
/// Where it has a list of them.
const MANY: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Does something to each direct subschema. A field that is called `items` is no such place.
fn each_subschema(object: &mut Object, mut act: impl FnMut(&mut Value)) {
    for (key, sub) in object.iter_mut() {
        match sub {
            Value::Object(subs) if NAMED.contains(&key.as_str()) => {
                subs.iter_mut().for_each(|(_, sub)| act(sub));
            }
            Value::Array(subs) if MANY.contains(&key.as_str()) => subs.iter_mut().for_each(&mut act),
            sub if ONE.contains(&key.as_str()) => act(sub),
            _ => {}
        }
    }
}

/// Refuses unknown fields in every object that names its own.
pub(super) fn close(schema: &mut Value) {
    if let Value::Object(object) = schema {
        if object.contains_key("properties") || object.get("type") == Some(&json!("object")) {
            object.entry("additionalProperties").or_insert_with(|| false.into());
        }
        each_subschema(object, close);
    }
}

/// The portability pass. Idempotent.
pub fn portable(schema: Value) -> Value {
    let mut object = match schema {
        Value::Object(object) => object,
        // `true` takes anything, and so does the empty schema; some hosts drop a list with a boolean in it.
        _ => return json!({}),
    };
    for key in ["$schema", "title", "$defs", "definitions", "deprecated", "examples", "writeOnly", "readOnly"]
    {
        object.remove(key);
    }
    words_into_enum(&mut object);
    unwrap_nullable(&mut object);
    if let Some(one) = object.remove("const") {
        object.insert("enum".into(), json!([one]));
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|v| !v.is_null());
        if !object.contains_key("type") && values_are_text(&object) {
            object.insert("type".into(), "string".into());
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if object.get("format").and_then(Value::as_str).is_some_and(|f| !FORMATS.contains(&f)) {
        object.remove("format");
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    let nullable: Vec<String> = object
        .get("properties")
        .and_then(Value::as_object)
        .map(|p| p.iter().filter(|(_, sub)| is_nullable(sub)).map(|(name, _)| name.clone()).collect())
        .unwrap_or_default();
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.retain(|r| !nullable.iter().any(|n| r == n));
        if required.is_empty() {
            object.remove("required");
        }
    }
    let closed = object.get("additionalProperties") == Some(&json!(false));
    each_subschema(&mut object, |sub| *sub = portable(sub.take()));
    if closed {
        object.insert("additionalProperties".into(), false.into());
    }
    Value::Object(object)
}

fn values_are_text(object: &Object) -> bool {
    object.get("enum").and_then(Value::as_array).is_some_and(|v| v.iter().all(Value::is_string))
}

fn is_null_type(schema: &Value) -> bool {
    schema.get("type") == Some(&json!("null")) || schema.get("const") == Some(&Value::Null)
}

/// Whether the schema, as schemars wrote it, takes null.
fn is_nullable(schema: &Value) -> bool {
    let types = schema.get("type").and_then(Value::as_array).is_some_and(|t| t.iter().any(|t| t == "null"));
    let arms = ["anyOf", "oneOf"]
        .iter()
        .any(|k| schema.get(k).and_then(Value::as_array).is_some_and(|a| a.iter().any(is_null_type)));
    let words = schema.get("enum").and_then(Value::as_array).is_some_and(|v| v.iter().any(Value::is_null));
    types || arms || words
}

/// `anyOf: [X, null]` becomes X, and so does an `allOf` of one.
fn unwrap_nullable(object: &mut Object) {
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(arms)) = object.get_mut(key) else {
            continue;
        };
        if key != "allOf" {
            arms.retain(|arm| !is_null_type(arm));
        }
        if let [Value::Object(only)] = arms.as_mut_slice() {
            let mut only = std::mem::take(only);
            object.remove(key);
            if object.contains_key("description") {
                only.remove("description");
            }
            object.extend(only);
            words_into_enum(object);
        }
    }
}

/// A `oneOf` of words becomes one enum of text, with the words' docs merged into the description.
fn words_into_enum(object: &mut Object) {
    let key = if object.contains_key("oneOf") { "oneOf" } else { "anyOf" };
    let Some(Value::Array(arms)) = object.get(key) else {
        return;
    };
    let mut words = Vec::new();
    let mut docs = Vec::new();
    for arm in arms {
        let values = match (arm.get("const"), arm.get("enum").and_then(Value::as_array)) {
            (Some(word), _) => vec![word.clone()],
            (None, Some(words)) => words.clone(),
            (None, None) if is_null_type(arm) => continue,
            (None, None) => return,
        };
        if !values.iter().all(Value::is_string) {
            return;
        }
        if let (Some(doc), [Value::String(word)]) =
            (arm.get("description").and_then(Value::as_str), values.as_slice())
        {
            docs.push(format!("{word}: {}", doc.trim_end_matches('.')));
        }
        words.extend(values);
    }
    object.remove(key);
    if !docs.is_empty() {
        let own =
            object.get("description").and_then(Value::as_str).map(|d| format!("{d} ")).unwrap_or_default();
        object.insert("description".into(), format!("{own}{}.", docs.join("; ")).into());
    }
    object.insert("type".into(), "string".into());
    object.insert("enum".into(), words.into());
}
