//! Every tool's input, spoilt in every place by every odd value there is: the fuzzer that a new tool gets unasked.
//!
//! The cases are made from the schema and the example, and are the same in every run: what fails once fails again.

use super::examples;
use portreeve_registry::{Advertised, FailureClass, Registry};
use serde_json::{Map, Value, json};

/// One spoilt input: what was done, and the arguments.
pub type Case = (String, Map<String, Value>);

/// Values that some field, somewhere, does not expect.
fn odd() -> Vec<Value> {
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let mut odd = vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(65_535),
        json!(65_536),
        json!(4_294_967_296_u64),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!([]),
        json!([null]),
        json!({}),
        json!({"a": {"b": null}}),
        nested,
    ];
    let texts = [
        "",
        " ",
        "x",
        "true",
        "3000",
        "/",
        "/../..",
        "\u{0}",
        "a\u{0}b",
        "\u{1b}[31m",
        "\u{202e}gnp",
        "\u{fffd}",
        "'; DROP TABLE claim; --",
        "%00%2e%2e%2f",
        "${HOME}",
        "0198c0de-0000-7000-8000-000000000000",
        "0198C0DE000070008000000000000000",
        "2026-02-30T25:61:61Z",
    ];
    odd.extend(texts.map(|text| json!(text)));
    odd.extend([json!("é".repeat(129)), json!("x".repeat(128)), json!("/x".repeat(3000))]);
    odd
}

/// Every case of a tool.
pub fn cases(tool: &Advertised) -> Vec<Case> {
    let example = Value::Object(tool.example());
    let mut places = Vec::new();
    find(&json!(tool.input_schema()), &mut Vec::new(), &mut places);
    let mut cases = Vec::new();
    let mut add = |what: String, changed: Value| {
        if let Value::Object(arguments) = changed {
            cases.push((what, arguments));
        }
    };
    for place in places {
        for value in odd() {
            let mut changed = example.clone();
            *at(&mut changed, &place) = value.clone();
            let shown: String = value.to_string().chars().take(60).collect();
            add(format!("{} = {shown}", place.join(".")), changed);
        }
        if let Some((last, above)) = place.split_last() {
            let mut changed = example.clone();
            if let Some(fields) = at(&mut changed, above).as_object_mut() {
                fields.remove(last);
            }
            add(format!("without {}", place.join(".")), changed);
        }
    }
    let mut stranger = example;
    at(&mut stranger, &["zzStranger".to_owned()]);
    add("with a stranger".to_owned(), stranger);
    cases
}

/// The place of every field that the schema names; an item of an array is its first.
fn find(schema: &Value, place: &mut Vec<String>, places: &mut Vec<Vec<String>>) {
    for (name, sub) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        place.push(name.clone());
        places.push(place.clone());
        find(sub, place, places);
        place.pop();
    }
    for arm in ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten() {
        find(arm, place, places);
    }
    if let Some(items) = schema.get("items") {
        place.push("0".to_owned());
        places.push(place.clone());
        find(items, place, places);
        place.pop();
    }
}

/// The value at a place, made if it isn't there.
fn at<'a>(value: &'a mut Value, place: &[String]) -> &'a mut Value {
    let Some((step, below)) = place.split_first() else { return value };
    if step == "0" {
        if !value.is_array() {
            *value = json!([null]);
        }
        let items = value.as_array_mut().expect("made an array above");
        if items.is_empty() {
            items.push(Value::Null);
        }
        return at(&mut items[0], below);
    }
    if !value.is_object() {
        *value = json!({});
    }
    at(value.as_object_mut().expect("made an object above").entry(step.clone()).or_insert(Value::Null), below)
}

/// Leaves out every null: how some hosts leave a field out, and taken as that.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}

/// Inputs that are taken though their schema refuses them, and refusals that aren't the caller's to mend.
pub fn faults(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        let schema = jsonschema::draft202012::new(&json!(tool.input_schema())).expect("another rule says so");
        for (what, arguments) in cases(tool) {
            let valid = schema.is_valid(&without_nulls(Value::Object(arguments.clone())));
            match examples::taken(tool, arguments) {
                Ok(_) if !valid => {
                    faults.push(format!("{}: {what}: taken, but not by its schema", tool.name()))
                }
                Err(failure) if failure.class != FailureClass::BridgeInvalidArguments => {
                    faults.push(format!("{}: {what}: {}: {failure}", tool.name(), failure.class));
                }
                _ => {}
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_spoilt_whether_the_example_has_it_or_not() {
        let registry = portreeve_domains::load().expect("a registry");
        for tool in registry.iter() {
            let cases = cases(tool);
            for field in tool.input_schema()["properties"].as_object().expect("an object").keys() {
                let of_it = cases.iter().filter(|(what, _)| what.starts_with(&format!("{field} = "))).count();
                assert_eq!(of_it, odd().len(), "{} {field}", tool.name());
            }
        }
    }
}
