//! The bounds that a schema states, kept: a `#[schemars(length(max = 32))]` on a field is a promise to whoever reads
//! the schema, and serde knows nothing of it.

use super::shapes::shape;
use crate::Issue;
use schemars::JsonSchema;
use serde_json::Value;

/// Checks an input that a type has taken against the bounds in its schema.
///
/// # Errors
/// The first bound that is broken: `too_small` or `too_big`, and where.
pub(crate) fn check<T: JsonSchema + 'static>(value: &Value) -> Result<(), Issue> {
    walk(value, &shape::<T>(false))
}

fn walk(value: &Value, schema: &Value) -> Result<(), Issue> {
    match value {
        Value::String(text) => {
            let length = text.chars().count() as f64;
            between(length, schema, ["minLength", "maxLength"], " characters")?;
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            between(number, schema, ["minimum", "maximum"], "")?;
        }
        Value::Array(items) => {
            between(items.len() as f64, schema, ["minItems", "maxItems"], " items")?;
            if let Some(sub) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    walk(item, sub).map_err(|issue| issue.within(index.into()))?;
                }
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let named = schema.get("properties").and_then(|subs| subs.get(name));
                if let Some(sub) = named.or_else(|| schema.get("additionalProperties")) {
                    walk(field, sub).map_err(|issue| issue.within(name.as_str().into()))?;
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(arms) = schema.get(key).and_then(Value::as_array) {
            let mut broken = None;
            if !arms.iter().any(|arm| walk(value, arm).map_err(|issue| broken = Some(issue)).is_ok()) {
                return broken.map_or(Ok(()), Err);
            }
        }
    }
    Ok(())
}

fn between(found: f64, schema: &Value, keys: [&str; 2], what: &str) -> Result<(), Issue> {
    let [least, most] = keys.map(|key| schema.get(key).and_then(Value::as_f64));
    let code = match (least, most) {
        (Some(least), _) if found < least => "too_small",
        (_, Some(most)) if found > most => "too_big",
        _ => return Ok(()),
    };
    let message = match (least, most) {
        (Some(least), Some(most)) => format!("expected {least} to {most}{what}"),
        (Some(least), None) => format!("expected {least}{what} or more"),
        (None, most) => format!("expected {}{what} or less", most.unwrap_or_default()),
    };
    Err(Issue { code, message, path: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::walk;
    use serde_json::{Value, json};

    #[test]
    fn each_bound_is_kept_where_it_is() {
        let schema = json!({"properties": {
            "text": {"minLength": 1, "maxLength": 2},
            "number": {"minimum": 1, "maximum": 2},
            "list": {"maxItems": 1, "items": {"maxLength": 1}},
            "either": {"anyOf": [{"maxLength": 1}, {"minLength": 3}]},
        }, "additionalProperties": {"maximum": 5}});
        let issue = |value: Value| walk(&value, &schema).map_err(|issue| (issue.place(), issue.code));
        for taken in [
            json!({"text": "é", "number": 1, "list": ["a"], "either": "a", "other": 5}),
            json!({"text": "éé", "number": 2, "list": [], "either": "aaa", "other": "text"}),
            json!({"text": null, "number": "3"}),
            json!("not an object"),
        ] {
            assert_eq!(issue(taken.clone()), Ok(()), "{taken}");
        }
        for (refused, place, code) in [
            (json!({"text": ""}), "text", "too_small"),
            (json!({"text": "ééé"}), "text", "too_big"),
            (json!({"number": 0.5}), "number", "too_small"),
            (json!({"number": 3}), "number", "too_big"),
            (json!({"list": ["a", "b"]}), "list", "too_big"),
            (json!({"list": ["aa"]}), "list.0", "too_big"),
            (json!({"either": "aa"}), "either", "too_small"),
            (json!({"other": 6}), "other", "too_big"),
        ] {
            assert_eq!(issue(refused.clone()), Err((place.to_owned(), code)), "{refused}");
        }
    }
}
