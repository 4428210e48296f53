//! Both passes over types of all kinds.

use super::*;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "one variant is written, the schema shows both")]
enum Word {
    /// The first.
    First,
    /// The second.
    TheSecond,
}
#[derive(Serialize, JsonSchema)]
struct Inner {
    kept: Option<u16>,
    free: Value,
}
#[derive(Serialize, JsonSchema)]
struct Outer {
    /// How many.
    many: u64,
    word: Option<Word>,
    inner: Option<Inner>,
    list: Vec<Inner>,
}

#[test]
fn the_pass_leaves_nothing_that_a_host_refuses() {
    let schema = Value::Object(output::<Outer>(Envelope::Changed));
    assert_eq!(
        schema,
        json!({"type": "object", "properties": {
            "many": {"type": "integer", "minimum": 0, "description": "How many."},
            "word": {"type": "string", "enum": ["first", "the-second"],
                "description": "first: The first; the-second: The second."},
            "inner": {"type": "object", "properties": {
                "kept": {"type": "integer", "minimum": 0, "maximum": 65535}, "free": {}}, "required": ["free"]},
            "list": {"type": "array", "items": {"type": "object", "properties": {
                "kept": {"type": "integer", "minimum": 0, "maximum": 65535}, "free": {}}, "required": ["free"]}},
            "changed": {"type": "boolean"}, "summary": {"type": "string"}},
            "required": ["many", "list", "changed", "summary"]})
    );
    assert_eq!(portable(schema.clone()), schema);
}

#[test]
fn typed_nulls_go_and_free_ones_stay() {
    let outer = Outer {
        many: 1,
        word: None,
        inner: Some(Inner { kept: None, free: json!({"a": null}) }),
        list: vec![Inner { kept: Some(1), free: Value::Null }],
    };
    let mut fields = crate::decode::to_object(&outer).unwrap();
    drop_nulls::<Outer>(&mut fields);
    assert_eq!(
        Value::Object(fields),
        json!({"many": 1, "inner": {"free": {"a": null}}, "list": [{"kept": 1, "free": null}]})
    );
}

#[test]
fn inputs_are_closed_at_every_level() {
    let schema = Value::Object(page_input::<Outer>());
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(schema["properties"]["inner"]["additionalProperties"], json!(false));
    assert_eq!(schema["properties"]["limit"]["maximum"], json!(200));
}
