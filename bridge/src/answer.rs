//! How a result looks on the wire, in the one shape that every host understands.
//!
//! Some hosts hand the model only the structured content, some only the text; of an error they hand on only
//! the text, and some refuse an error whose structured content doesn't fit the output schema. So both are complete
//! on their own, and an error has no structured content: its record travels in `_meta`.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::Value;

/// The key of an error's record in the result's `_meta`.
pub const ERROR_RECORD: &str = "portreeve/error";

/// A success: the structured content, and as text its `summary` followed by the same content as compact JSON.
///
/// Content without a `summary` gives the JSON alone; the registry's rules don't let such a tool exist.
pub fn success(structured: JsonObject) -> CallToolResult {
    let json = Value::Object(structured);
    let text = match json.get("summary").and_then(Value::as_str) {
        Some(summary) => format!("{summary}\n{json}"),
        None => json.to_string(),
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json);
    result
}

/// An error: the complete text, and the machine-readable record beside it.
pub fn failure(text: impl Into<String>, record: Value) -> CallToolResult {
    let mut meta = MetaObject::default();
    meta.0.insert(ERROR_RECORD.to_owned(), record);
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.meta = Some(meta);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn a_success_stands_on_its_own_in_both_forms() {
        let result = success(object(json!({"summary": "port 3000 is yours", "port": 3000})));
        assert_eq!(
            serde_json::to_value(&result).unwrap(),
            json!({
                "resultType": "complete",
                "content": [{
                    "type": "text",
                    "text": "port 3000 is yours\n{\"port\":3000,\"summary\":\"port 3000 is yours\"}"
                }],
                "structuredContent": {"summary": "port 3000 is yours", "port": 3000},
                "isError": false
            })
        );
    }

    #[test]
    fn an_error_has_no_structured_content() {
        let result = failure("nothing listens", json!({"class": "daemon.not_listening"}));
        assert_eq!(
            serde_json::to_value(&result).unwrap(),
            json!({
                "resultType": "complete",
                "content": [{"type": "text", "text": "nothing listens"}],
                "isError": true,
                "_meta": {"portreeve/error": {"class": "daemon.not_listening"}}
            })
        );
    }
}
