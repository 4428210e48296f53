//! The difference between two plans, fact by fact.

use serde::Serialize;
use serde_json::Value;

/// How many differences are told.
const MOST: usize = 32;
/// How long a value may be, as JSON, to be told whole.
const LONGEST: usize = 400;

/// One fact that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// Which one: the names of the fields on the way, with dots.
    pub(crate) path: String,
    /// What the preview saw; null where it wasn't there.
    pub(crate) before: Value,
    /// What is seen now; null where it is there no more.
    pub(crate) after: Value,
}

/// Every fact that differs, at most [`MOST`] of them.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    if before == after || found.len() >= MOST {
        return;
    }
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if let (Value::Object(old), Value::Object(new)) = (before, after) {
        for (name, value) in old {
            compare(&below(name), value, new.get(name).unwrap_or(&Value::Null), found);
        }
        for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            compare(&below(name), &Value::Null, value, found);
        }
        return;
    }
    let path = if path.is_empty() { "plan" } else { path };
    found.push(Difference { path: path.to_owned(), before: short(before), after: short(after) });
}

fn short(value: &Value) -> Value {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Value::String(format!("{}…", &text[..end])),
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_fact_that_changed_is_named_and_no_other() {
        let before = json!({"port": 3000, "run": "a", "holders": {"7": {"10": 5}}, "same": [1, 2]});
        let after = json!({"port": 3000, "run": null, "holders": {"7": {"10": 6}, "8": {}}, "same": [1, 2]});
        let found = differences(&before, &after);
        let paths: Vec<&str> = found.iter().map(|d| d.path.as_str()).collect();
        assert_eq!(paths, ["holders.7.10", "holders.8", "run"]);
        assert_eq!((&found[0].before, &found[0].after), (&json!(5), &json!(6)));
        assert_eq!(found[1].before, Value::Null);
        assert!(differences(&before, &before).is_empty());
    }

    #[test]
    fn what_is_told_is_bounded() {
        let many: serde_json::Map<String, Value> = (0..1000).map(|n| (n.to_string(), n.into())).collect();
        assert_eq!(differences(&json!({}), &Value::Object(many)).len(), MOST);
        let long = differences(&json!({"a": "x".repeat(10_000)}), &json!({}));
        assert!(long[0].before.to_string().len() < 500);
    }
}
