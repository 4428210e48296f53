//! What every answer of every tool has to be, in success and in failure.

use portreeve_registry::FailureClass;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The bytes of structured content that an answer may have.
pub const LARGEST_ANSWER: usize = 64 * 1024;

/// Holds the answer to a call of `tool` against the rules: its structured content, or its failure's record.
///
/// # Errors
/// The record.
///
/// # Panics
/// If a rule is broken.
pub fn answer(tool: &str, message: &Value, tools: &BTreeMap<String, Value>) -> Result<Value, Value> {
    let result = &message["result"];
    assert!(result.is_object(), "{tool}: no result: {message}");
    let content = result["content"].as_array().unwrap_or_else(|| panic!("{tool}: no content: {message}"));
    let [only] = content.as_slice() else { panic!("{tool}: not one text: {message}") };
    let text = only["text"].as_str().unwrap_or_else(|| panic!("{tool}: no text: {message}"));
    if result["isError"] == json!(true) {
        assert_eq!(result.get("structuredContent"), None, "{tool}: a failure has structured content");
        let record = &result["_meta"]["portreeve/error"];
        failure(tool, text, record, tools);
        return Err(record.clone());
    }
    let structured = &result["structuredContent"];
    success(tool, text, structured, tools);
    Ok(structured.clone())
}

fn success(tool: &str, text: &str, structured: &Value, tools: &BTreeMap<String, Value>) {
    let bytes = structured.to_string().len();
    assert!(bytes <= LARGEST_ANSWER, "{tool}: {bytes} bytes");
    let summary =
        structured["summary"].as_str().unwrap_or_else(|| panic!("{tool}: no summary: {structured}"));
    assert!(!summary.trim().is_empty(), "{tool}: an empty summary");
    let json = text.strip_prefix(summary).and_then(|rest| rest.strip_prefix('\n'));
    let json = json.unwrap_or_else(|| panic!("{tool}: the text isn't the summary and the JSON: {text}"));
    assert_eq!(serde_json::from_str::<Value>(json).ok().as_ref(), Some(structured), "{tool}");
    let schema = tools.get(tool).unwrap_or_else(|| panic!("{tool} isn't advertised"));
    let faults: Vec<String> = validator(schema)
        .iter_errors(structured)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{tool} isn't as advertised: {faults:?}: {structured}");
}

fn failure(tool: &str, text: &str, record: &Value, tools: &BTreeMap<String, Value>) {
    let field = |name: &str| {
        record[name].as_str().unwrap_or_else(|| panic!("{tool}: no {name} in the record: {record}"))
    };
    let class = field("class");
    let known = FailureClass::parse(class).unwrap_or_else(|| panic!("{tool}: no such class: {class}"));
    assert_eq!(field("boundary"), known.boundary().as_str(), "{record}");
    assert_eq!(field("phase"), known.phase().as_str(), "{record}");
    assert_eq!(field("code"), known.code().as_str(), "{record}");
    assert!(record["details"].is_object(), "{record}");
    let (boundary, phase, request) = (field("boundary"), field("phase"), field("requestId"));
    assert_eq!(request.len(), 36, "no request id: {record}");
    let outcome = match field("outcome") {
        "not_started" => "nothing was begun (not_started)",
        "not_applied" => "nothing was changed (not_applied)",
        "applied" => "it was done (applied)",
        "unknown" => "it may have been done (unknown)",
        other => panic!("{tool}: no outcome: {other}"),
    };
    let retry = match field("retryable") {
        "yes" => "repeating can help",
        "no" => "repeating won't help",
        "after_action" => "repeat it after the next step",
        other => panic!("{tool}: not retryable or not: {other}"),
    };
    let next = &record["nextStep"];
    let step = next["text"].as_str().filter(|step| !step.is_empty());
    let step = step.unwrap_or_else(|| panic!("{tool}: no next step: {record}"));
    let by = next["tool"].as_str().or(next["command"].as_str());
    let step = by.map_or_else(|| step.to_owned(), |by| format!("{step} ({by})"));
    let message = field("message").trim_end_matches('.');
    let whole = format!(
        "{message}; {outcome}, {retry}; {} [{class}, {boundary}/{phase}, request {request}]",
        step.trim_end_matches('.')
    );
    assert_eq!(text, whole, "{tool}: the text isn't the record");
    for word in step.split(|c: char| !c.is_ascii_lowercase() && c != '_') {
        assert!(
            !registered().contains(&word.to_owned()) || tools.contains_key(word),
            "{tool}: the next step names {word}, which this bridge doesn't advertise: {text}"
        );
    }
}

/// The names of all tools that are linked in.
fn registered() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let registry = portreeve_domains::load().expect("a registry");
        registry.iter().map(|tool| tool.name().to_owned()).collect()
    })
}

/// A schema made ready; the same one is made ready once.
fn validator(schema: &Value) -> Arc<jsonschema::Validator> {
    static READY: OnceLock<Mutex<HashMap<String, Arc<jsonschema::Validator>>>> = OnceLock::new();
    let ready = READY.get_or_init(Mutex::default);
    let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
    let made = ready.entry(schema.to_string()).or_insert_with(|| {
        Arc::new(jsonschema::draft202012::new(schema).expect("an output schema is a schema"))
    });
    made.clone()
}
