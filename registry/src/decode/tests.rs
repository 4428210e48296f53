//! What reading says of values of all kinds.

use super::*;
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize, PartialEq)]
struct Inner {
    small: u8,
}
#[derive(Debug, Deserialize, PartialEq)]
struct Outer {
    name: String,
    #[serde(default)]
    many: Vec<Inner>,
    flag: Option<bool>,
}

fn issue(value: Value, manner: Manner) -> (String, &'static str) {
    let issue = decode::<Outer>(value, manner).unwrap_err();
    (issue.place(), issue.code)
}

#[test]
fn says_what_is_wrong_where() {
    let lax = Manner::default();
    assert_eq!(issue(json!({}), lax), ("name".into(), "invalid_type"));
    assert_eq!(issue(json!({"name": 1}), lax), ("name".into(), "invalid_type"));
    assert_eq!(
        issue(json!({"name": "a", "many": [{"small": 1}, {"small": 256}]}), lax),
        ("many.1.small".into(), "too_big")
    );
    assert_eq!(
        issue(json!({"name": "a", "many": [{"small": -1}]}), lax),
        ("many.0.small".into(), "too_small")
    );
    assert_eq!(issue(json!({"name": "a", "flag": "true"}), lax), ("flag".into(), "invalid_type"));
    assert_eq!(issue(json!([]), lax), ("input".into(), "invalid_type"));
    assert_eq!(issue(json!({"name": "a", "many": [["1"]]}), lax), ("many.0".into(), "invalid_type"));
}

#[test]
fn strict_refuses_strangers_and_lax_does_not() {
    let value = json!({"name": "a", "other": 1});
    assert_eq!(
        issue(value.clone(), Manner { strict: true, text: false }),
        ("other".into(), "unrecognized_keys")
    );
    assert!(decode::<Outer>(value, Manner::default()).is_ok());
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Choice {
    Plain,
    Struct { small: u8 },
    Newtype(Inner),
    Tuple(u8, u8),
}

#[test]
fn enums_that_carry_data_are_read_like_everything_else() {
    let strict = Manner { strict: true, text: false };
    let read = |value: Value| decode::<Choice>(value, strict);
    assert_eq!(read(json!("plain")), Ok(Choice::Plain));
    assert_eq!(read(json!({"plain": null})), Ok(Choice::Plain));
    assert_eq!(read(json!({"struct": {"small": 1}})), Ok(Choice::Struct { small: 1 }));
    assert_eq!(read(json!({"newtype": {"small": 1}})), Ok(Choice::Newtype(Inner { small: 1 })));
    assert_eq!(read(json!({"tuple": [1, 2]})), Ok(Choice::Tuple(1, 2)));
    for (value, place, code) in [
        (json!({"struct": {"small": 256}}), "struct.small", "too_big"),
        (json!({"struct": {"small": 1, "other": 1}}), "struct.other", "unrecognized_keys"),
        (json!({"newtype": {"small": 1, "other": 1}}), "newtype.other", "unrecognized_keys"),
        (json!({"tuple": [1, 256]}), "tuple.1", "too_big"),
        (json!({"plain": 1}), "plain", "invalid_type"),
        (json!({"other": 1}), "input", "invalid_value"),
        (json!("struct"), "input", "invalid_type"),
        (json!({}), "input", "invalid_type"),
        (json!({"plain": null, "struct": null}), "input", "invalid_type"),
        (json!(1), "input", "invalid_type"),
    ] {
        let issue = read(value.clone()).unwrap_err();
        assert_eq!((issue.place().as_str(), issue.code), (place, code), "{value}: {issue}");
    }
}

#[test]
fn text_spells_numbers_and_booleans_where_the_type_asks() {
    let text = Manner { strict: false, text: true };
    let read: Outer = decode(json!({"name": "7", "flag": "false", "many": [{"small": "3"}]}), text).unwrap();
    assert_eq!(read, Outer { name: "7".into(), flag: Some(false), many: vec![Inner { small: 3 }] });
    assert_eq!(issue(json!({"name": "a", "flag": "yes"}), text), ("flag".into(), "invalid_type"));
}
