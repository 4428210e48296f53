//! Bad arguments, made from the schema of each tool that is registered: one answer each, a failure that names the
//! field, and nothing changed.

use crate::support::{House, house};
use portreeve_test_harness::host::Host;
use serde_json::{Map, Value, json};
use std::path::Path;

/// A tool's valid arguments and its input schema.
struct Tool {
    name: String,
    fields: Map<String, Value>,
    required: Vec<String>,
    example: Map<String, Value>,
}

/// Every registered tool, with examples that fit this house.
fn tools(house: &House) -> Vec<Tool> {
    let registry = portreeve_domains::load().expect("a registry");
    let tools = registry.iter().map(|tool| {
        let schema = tool.input_schema();
        let mut example = tool.example();
        if let Some(root) = example.get_mut("workspaceRoot") {
            *root = json!(house.worktree.path());
        }
        let required = schema.get("required").and_then(Value::as_array);
        Tool {
            name: tool.name().to_owned(),
            fields: schema["properties"].as_object().expect("properties").clone(),
            required: required.into_iter().flatten().map(|r| r.as_str().expect("text").to_owned()).collect(),
            example,
        }
    });
    tools.collect()
}

impl Tool {
    fn with(&self, field: &str, value: Value) -> Value {
        let mut arguments = self.example.clone();
        // Both at once would be a fault of its own.
        if field == "exactPort" {
            arguments.remove("preferredPort");
        }
        arguments.insert(field.to_owned(), value);
        Value::Object(arguments)
    }
}

/// An array or object that is 100 deep.
fn deep(open: &str, inner: &str, close: &str) -> Value {
    let text = format!("{}{inner}{}", open.repeat(100), close.repeat(100));
    serde_json::from_str(&text).expect("JSON")
}

/// Values that a field of this schema must refuse.
fn bad_values(schema: &Value) -> Vec<Value> {
    let takes = |kind: &str| schema["type"] == kind;
    let mut bad = vec![
        deep("[", "1", "]"),
        deep("{\"a\":", "1", "}"),
        json!([]),
        json!({}),
        json!("x".repeat(1 << 20)),
        json!([schema["enum"][0]]),
    ];
    if !takes("string") {
        bad.extend([json!("1"), json!("\u{0}"), json!("true")]);
    }
    if !takes("integer") && !takes("number") {
        bad.extend([json!(0), json!(-1), json!(1.5), json!(u64::MAX)]);
    }
    if !takes("boolean") {
        bad.extend([json!(true), json!(false)]);
    }
    if takes("integer") {
        bad.extend([json!(1.5), json!(-1), json!(u64::MAX), json!(1e300), json!(i64::MIN)]);
        let bound = |name: &str| schema[name].as_i64();
        bad.extend(bound("minimum").map(|least| json!(least - 1)));
        bad.extend(bound("maximum").map(|most| json!(most + 1)));
    }
    if takes("string") {
        if schema["minLength"].as_u64().is_some_and(|least| least > 0) {
            bad.push(json!(""));
        }
        if let Some(most) = schema["maxLength"].as_u64() {
            bad.push(json!("x".repeat(most as usize + 1)));
        }
        if schema["enum"].is_array() || schema["format"].is_string() {
            bad.extend([json!("\u{0}"), json!("no such word"), json!("\u{202e}\u{1f600}")]);
        }
    }
    bad
}

/// Calls, and expects a failure that is the caller's and names the field.
fn refused(host: &mut Host, tool: &str, arguments: Value, field: &str, what: &str) -> Option<String> {
    let shown: String = arguments[field].to_string().chars().take(60).collect();
    match host.call(tool, arguments) {
        Ok(answer) => Some(format!("{tool} takes {field} {what} {shown}: {answer}")),
        Err(record) => {
            let class = record["class"].as_str().expect("a class");
            if (field, what, class) == ("receiptId", "missing", "policy.preview_required") {
                // What an execute lacks first of all is the preview, and it names that one.
                return None;
            }
            let ours = ["bridge.invalid_arguments", "daemon.invalid_input"].contains(&class);
            let named = record["message"].as_str().is_some_and(|text| text.contains(field))
                && record["details"]["issues"][0]["path"]
                    .as_array()
                    .is_some_and(|p| p.contains(&json!(field)));
            let fault = (!ours || !named || record["outcome"] != "not_started")
                .then(|| format!("{tool}: {field} {what} {shown}: {record}"));
            fault.map(|fault| fault.chars().take(600).collect())
        }
    }
}

#[test]
fn every_field_of_every_tool_refuses_what_its_schema_refuses_and_nothing_changes() {
    let house = house();
    let mut host = house.host();
    let before = house.tables();
    let mut faults = Vec::new();
    let mut cases = 0;
    for tool in tools(&house) {
        for (field, schema) in &tool.fields {
            for value in bad_values(schema) {
                cases += 1;
                faults.extend(refused(&mut host, &tool.name, tool.with(field, value), field, "as"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(cases > 300, "only {cases} cases");
    assert_eq!(house.tables(), before);
    host.done("diagnostics_health_get", json!({}));
}

#[test]
fn unknown_and_missing_fields_and_null_are_refused_by_name() {
    let house = house();
    let mut host = house.host();
    let before = house.tables();
    let mut faults = Vec::new();
    for tool in tools(&house) {
        for stranger in ["bogus", "force", "Port", "_meta", "receiptId", "leaseToken"] {
            faults.extend(refused(&mut host, &tool.name, tool.with(stranger, json!(1)), stranger, "unknown"));
        }
        let odd = "\u{202e}x\u{0}";
        faults.extend(refused(&mut host, &tool.name, tool.with(odd, json!(1)), odd, "unknown").filter(
            |fault| {
                // Such a name is shown escaped.
                !fault.contains("unrecognized_keys")
            },
        ));
        for field in &tool.required {
            let mut arguments = tool.example.clone();
            arguments.remove(field);
            faults.extend(refused(&mut host, &tool.name, Value::Object(arguments), field, "missing"));
            faults.extend(refused(&mut host, &tool.name, tool.with(field, Value::Null), field, "null"));
        }
        if !tool.required.is_empty() {
            let id = host.begin("tools/call", json!({"name": tool.name}));
            let record = host.end(id).expect_err("it has required fields");
            let executes = tool.name.ends_with("_execute");
            let class = if executes { "policy.preview_required" } else { "bridge.invalid_arguments" };
            assert_eq!(record["class"], class, "{record}");
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(house.tables(), before);
}

#[test]
fn null_leaves_an_optional_field_out() {
    let house = house();
    let mut host = house.host();
    for tool in tools(&house) {
        let optional = tool.fields.keys().filter(|field| !tool.required.contains(field));
        let mut arguments = tool.example.clone();
        arguments.extend(optional.map(|field| (field.clone(), Value::Null)));
        if let Err(record) = host.call(&tool.name, Value::Object(arguments)) {
            let class = record["class"].as_str().expect("a class");
            assert!(
                ["custody.handle_unknown", "resolve.not_found", "receipt.unknown"].contains(&class),
                "{}: {record}",
                tool.name
            );
        }
    }
}

#[test]
fn unusual_text_is_taken_as_it_is_or_refused_by_name() {
    let house = house();
    let mut host = house.host();
    for text in [
        "\u{202e}evil",
        "e\u{301}",
        "\u{1f469}\u{200d}\u{1f4bb}",
        "\u{10ffff}",
        "\u{feff}web",
        "a/b",
        "-rf",
        "'; DROP",
    ] {
        let mut arguments = house.claim(text);
        arguments["endpoint"] = text.into();
        let lease = host.done("leases_acquire", arguments.clone());
        let items = host.done("claims_list", json!({"component": text}))["items"].clone();
        assert_eq!(items[0]["component"], text.trim(), "{items}");
        assert_eq!(items[0]["claimId"], lease["claimId"]);
        let reason = json!({"credentialHandle": lease["credentialHandle"], "reason": "client-cancelled"});
        host.done("leases_abandon", reason);
    }
    let before = house.tables();
    for (text, field) in
        [("\u{0}", "component"), ("a\nb", "component"), ("   ", "project"), ("\u{7f}", "endpoint")]
    {
        let mut arguments = house.claim("web");
        arguments[field] = text.into();
        assert_eq!(refused(&mut host, "leases_acquire", arguments, field, "as"), None);
    }
    // Half a surrogate pair stands for no text at all.
    let (id, call) =
        host.request("tools/call", json!({"name": "claims_list", "arguments": {"project": "HALF"}}));
    host.write(format!("{call}\n").replace("HALF", "\\ud800").as_bytes());
    assert_eq!(host.message(id)["error"]["code"], -32600);
    host.done("ports_get", json!({"port": 3000}));
    assert_eq!(house.tables(), before);
}

#[test]
fn a_workspace_that_is_relative_missing_or_a_file_is_refused_by_name() {
    let house = house();
    let mut host = house.host();
    let before = house.tables();
    let root = house.worktree.path();
    let file = root.join("file");
    std::fs::write(&file, "").expect("a file");
    let dangling = root.join("dangling");
    std::os::unix::fs::symlink(root.join("nowhere"), &dangling).expect("a link");
    let looped = root.join("looped");
    std::os::unix::fs::symlink(&looped, &looped).expect("a link");
    let long = root.join("x".repeat(300));
    let missing = root.join("missing");
    let below = file.join("src");
    for path in [
        Path::new("src"),
        Path::new("."),
        Path::new("~/shop"),
        Path::new("file:///tmp"),
        &missing,
        &file,
        &dangling,
        &looped,
        &long,
        &below,
        Path::new("/tmp/\u{0}"),
    ] {
        let arguments = crate::support::claim(path, "web");
        assert_eq!(refused(&mut host, "leases_acquire", arguments, "workspaceRoot", "as"), None);
    }
    let mut both = house.claim("web");
    both["preferredPort"] = 20001.into();
    both["exactPort"] = 20001.into();
    let record = host.call("leases_acquire", both).expect_err("both at once");
    assert!(record["message"].as_str().is_some_and(|text| text.contains("exactPort")), "{record}");
    assert_eq!(house.tables(), before);
}
