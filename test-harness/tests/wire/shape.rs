//! The shape of a reply: every key path with its type, null, enum value and array length.
//!
//! Ids, times, pids, ports, hashes, tokens, paths and message texts become what they are; everything else is
//! kept as it is, so two shapes are equal when a client can't tell the replies apart.

use crate::support::{is_id, is_stamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// By key path (`data.listeners[0].pid`), what is there.
pub(crate) type Shape = BTreeMap<String, String>;

/// The shape of a value that lies at `path`.
pub(crate) fn shape(path: &str, value: &Value) -> Shape {
    let mut shape = Shape::new();
    add(&mut shape, path, "", value);
    shape
}

fn add(shape: &mut Shape, path: &str, key: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            shape.insert(path.to_owned(), "an object".into());
            for (key, value) in fields {
                add(shape, &format!("{path}.{key}"), key, value);
            }
        }
        Value::Array(items) => {
            shape.insert(path.to_owned(), format!("an array of {}", items.len()));
            for (i, item) in items.iter().enumerate() {
                add(shape, &format!("{path}[{i}]"), key, item);
            }
        }
        leaf => {
            shape.insert(path.to_owned(), describe(key, leaf));
        }
    }
}

/// Numbers that differ from run to run, by the field they are in.
pub(crate) fn is_port_key(key: &str) -> bool {
    matches!(key, "port" | "assignedPort" | "preferredPort" | "exactPort")
}

/// Process ids, by the field they are in.
pub(crate) fn is_pid_key(key: &str) -> bool {
    matches!(key, "pid" | "rootPid" | "parentPid" | "lineage")
}

fn describe(key: &str, leaf: &Value) -> String {
    match leaf {
        Value::Number(_) if is_port_key(key) => "a port".into(),
        Value::Number(_) if is_pid_key(key) => "a pid".into(),
        Value::Number(_) if key == "uid" => "a uid".into(),
        Value::String(text) => match key {
            _ if is_id(text) => "an id".into(),
            _ if is_stamp(text) => "a time".into(),
            "leaseToken" | "credential" if text.len() == 43 => "a token".into(),
            "message" | "error" | "pathname" | "executable" | "command" | "softwareVersion" => {
                "a text".into()
            }
            "workspaceRoot" | "workingDirectory" if text.starts_with('/') => "a path".into(),
            "nextCursor" | "pollCursor" => "a cursor".into(),
            "names" => {
                text.rsplit_once(':').map_or_else(|| leaf.to_string(), |(host, _)| format!("{host}:PORT"))
            }
            _ => leaf.to_string(),
        },
        other => other.to_string(),
    }
}

/// Where two shapes differ: path, what was recorded, what came.
pub(crate) fn differences(recorded: &Shape, came: &Shape) -> Vec<(String, Option<String>, Option<String>)> {
    let mut paths: Vec<&String> = recorded.keys().chain(came.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
        .into_iter()
        .filter(|path| recorded.get(*path) != came.get(*path))
        .map(|path| (path.clone(), recorded.get(path).cloned(), came.get(path).cloned()))
        .collect()
}

/// Whether `path` is `pattern`, in which `[]` is any index and `.**` at the end anything below or nothing.
pub(crate) fn fits(pattern: &str, path: &str) -> bool {
    let mut plain = String::new();
    let mut in_index = false;
    for c in path.chars() {
        match c {
            '[' => (in_index, plain) = (true, plain + "["),
            ']' => (in_index, plain) = (false, plain + "]"),
            _ if in_index => {}
            c => plain.push(c),
        }
    }
    match pattern.strip_suffix(".**") {
        Some(above) => plain == above || plain.strip_prefix(above).is_some_and(|r| r.starts_with(['.', '['])),
        None => plain == pattern,
    }
}

#[test]
fn a_shape_keeps_what_a_client_reads_and_drops_what_differs_from_run_to_run() {
    let recorded =
        serde_json::json!({"port": 3000, "state": "pending", "names": ["127.0.0.1:3000"], "run": null});
    let same = serde_json::json!({"port": 4000, "state": "pending", "names": ["127.0.0.1:9"], "run": null});
    let other = serde_json::json!({"port": "3000", "state": "idle", "names": [], "more": 1});
    assert!(differences(&shape("data", &recorded), &shape("data", &same)).is_empty());
    let paths: Vec<String> = differences(&shape("data", &recorded), &shape("data", &other))
        .into_iter()
        .map(|(path, ..)| path)
        .collect();
    assert_eq!(paths, ["data.more", "data.names", "data.names[0]", "data.port", "data.run", "data.state"]);
    assert!(fits("data.names[]", "data.names[12]") && !fits("data.names[]", "data.names"));
    assert!(fits("error.failure.**", "error.failure") && fits("error.failure.**", "error.failure.class"));
    assert!(!fits("error.failure.**", "error.failures"));
}
