//! How long the texts and lists in a tool's arguments may be, as its input schema says.
//!
//! Types and values are the input type's doing; lengths stand in the schema only, so here every tool keeps what
//! it advertises, before anything is sent.

use portreeve_registry::{Failure, FailureClass, Issue};
use serde_json::{Map, Value};

/// The characters of a text to which its schema gives no bound, such as a cursor: what a request line holds.
const LONGEST: u64 = 48 * 1024;

/// Holds `arguments` against the lengths in `schema`. What it doesn't know it leaves to the input type.
///
/// # Errors
/// `bridge.invalid_arguments`, naming the field.
pub(crate) fn check(schema: &Map<String, Value>, arguments: &Map<String, Value>) -> Result<(), Failure> {
    match fields(schema, arguments) {
        None => Ok(()),
        Some(mut issue) => {
            issue.path.reverse();
            Err(issue.failure(FailureClass::BridgeInvalidArguments))
        }
    }
}

/// The first issue; its path begins with the innermost step.
fn fields(schema: &Map<String, Value>, fields: &Map<String, Value>) -> Option<Issue> {
    let properties = schema.get("properties")?.as_object()?;
    fields.iter().find_map(|(name, value)| {
        let mut issue = one(properties.get(name)?.as_object()?, value)?;
        issue.path.push(name.as_str().into());
        Some(issue)
    })
}

fn one(schema: &Map<String, Value>, value: &Value) -> Option<Issue> {
    // What has another type than the schema's is the input type's to refuse.
    let takes = |kind: &str| schema.get("type").is_none_or(|takes| takes == kind);
    match value {
        Value::String(text) if takes("string") => {
            let length = text.chars().count() as u64;
            outside(schema, ["minLength", "maxLength"], "characters", length, LONGEST)
        }
        Value::Array(items) if takes("array") => {
            let length = items.len() as u64;
            outside(schema, ["minItems", "maxItems"], "items", length, u64::MAX).or_else(|| {
                let schema = schema.get("items")?.as_object()?;
                items.iter().enumerate().find_map(|(index, item)| {
                    let mut issue = one(schema, item)?;
                    issue.path.push(index.into());
                    Some(issue)
                })
            })
        }
        Value::Object(inner) if takes("object") => fields(schema, inner),
        _ => None,
    }
}

fn outside(
    schema: &Map<String, Value>,
    [least, most]: [&str; 2],
    what: &str,
    length: u64,
    longest: u64,
) -> Option<Issue> {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let (least, most) = (bound(least).unwrap_or(0), bound(most).unwrap_or(longest));
    let code = match length {
        length if length < least => "too_small",
        length if length > most => "too_big",
        _ => return None,
    };
    let message = format!("expected {least} to {most} {what}, got {length}");
    Some(Issue { code, message, path: Vec::new() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(arguments: Value) -> Option<(String, Value)> {
        let schema = json!({"properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 3},
            "cursor": {"type": "string"},
            "port": {"type": "integer"},
            "list": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {
                "word": {"type": "string", "minLength": 2}}}},
        }});
        let (Value::Object(schema), Value::Object(arguments)) = (schema, arguments) else {
            unreachable!("both are objects")
        };
        let failure = check(&schema, &arguments).err()?;
        assert_eq!(failure.class, FailureClass::BridgeInvalidArguments);
        Some((failure.message, failure.details["issues"][0]["code"].clone()))
    }

    #[test]
    fn lengths_outside_of_the_schema_are_refused_with_their_place() {
        let told = |arguments| told(arguments).expect("refused");
        assert_eq!(
            told(json!({"name": ""})),
            ("name: expected 1 to 3 characters, got 0".into(), json!("too_small"))
        );
        assert_eq!(told(json!({"name": "üüüü"})).1, "too_big");
        assert_eq!(told(json!({"cursor": "x".repeat(1 << 20)})).1, "too_big");
        assert_eq!(told(json!({"list": [{}, {}, {}]})).1, "too_big");
        let (message, code) = told(json!({"list": [{"word": "yes"}, {"word": "n"}]}));
        assert!(message.starts_with("list.1.word: "), "{message}");
        assert_eq!(code, "too_small");
    }

    #[test]
    fn what_fits_and_what_is_no_matter_of_length_passes() {
        for arguments in [
            json!({}),
            json!({"name": "üüü", "cursor": "", "list": [{"word": "yes"}]}),
            json!({"name": null, "port": "x".repeat(1 << 20), "other": "x".repeat(1 << 20), "list": {}}),
        ] {
            assert_eq!(told(arguments), None);
        }
    }
}
