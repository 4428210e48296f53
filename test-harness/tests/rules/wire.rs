//! What the real bridge shows.

use crate::{none, registry};
use portreeve_registry::FailureClass;
use portreeve_test_harness::machine::{Daemon, worktree};
use portreeve_test_harness::rules::bridge::Bridge;
use portreeve_test_harness::rules::{fuzz, sizes, surface};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

fn listed(tools: &str) -> Vec<Value> {
    Bridge::start(Path::new("/nonexistent/portreeve.sock"), tools).tools()
}

/// In any order of fields: only what a host reads counts.
fn by_name(tools: Vec<Value>) -> BTreeMap<String, Value> {
    tools.into_iter().map(|tool| (tool["name"].as_str().expect("a name").to_owned(), tool)).collect()
}

#[test]
fn the_bridge_shows_every_registered_tool_as_it_is_declared() {
    let (shown, declared) = (by_name(listed("all")), by_name(surface::listed(&registry())));
    let names = |tools: &BTreeMap<String, Value>| tools.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&shown), names(&declared), "is the portreeve under test of this build?");
    for (name, tool) in shown {
        assert_eq!(tool, declared[&name]);
    }
}

/// Faults of the plumbing: nothing that an agent says or that is on the machine excuses them.
const PLUMBING: [FailureClass; 10] = [
    FailureClass::BridgeInvalidArguments,
    FailureClass::BridgeUnknownTool,
    FailureClass::BridgeHandlerPanicked,
    FailureClass::SocketReplyMalformed,
    FailureClass::SocketReplyMismatched,
    FailureClass::DaemonRequestMalformed,
    FailureClass::DaemonInvalidInput,
    FailureClass::DaemonUnknownOperation,
    FailureClass::DaemonInternal,
    FailureClass::ProtocolIncompatible,
];

/// The paths in an example are on nobody's machine: here they are a directory that is there.
fn here(example: Value, directory: &Path) -> Value {
    match example {
        Value::String(path) if path.starts_with('/') => json!(directory),
        Value::Array(items) => items.into_iter().map(|item| here(item, directory)).collect(),
        Value::Object(fields) => {
            let moved = fields.into_iter().map(|(name, value)| (name, here(value, directory)));
            Value::Object(moved.collect())
        }
        other => other,
    }
}

#[test]
fn every_example_comes_through_to_an_answer_of_its_schema_or_a_failure_of_its_own() {
    let daemon = Daemon::start();
    let worktree = worktree();
    let mut bridge = Bridge::start(daemon.socket(), "all");
    let mut faults = Vec::new();
    for tool in registry().iter() {
        let name = tool.name();
        let result = bridge.call(name, here(Value::Object(tool.example()), worktree.path()));
        if result["isError"] == true {
            let told = &result["_meta"]["portreeve/error"];
            let class = told["class"].as_str().and_then(FailureClass::parse);
            if class.is_none_or(|class| PLUMBING.contains(&class)) {
                faults.push(format!("{name}: {told}"));
            }
            continue;
        }
        let schema = jsonschema::draft202012::new(&json!(tool.output_schema())).expect("a schema");
        let content = &result["structuredContent"];
        let errors = schema.iter_errors(content);
        faults
            .extend(errors.map(|error| format!("{name}: its answer at {}: {error}", error.instance_path())));
        if content["summary"].as_str().is_none_or(str::is_empty) {
            faults.push(format!("{name}: its answer has no summary"));
        }
    }
    none(&faults);
}

#[test]
fn every_spoilt_input_is_answered_and_breaks_nothing() {
    let daemon = Daemon::start();
    let mut bridge = Bridge::start(daemon.socket(), "all");
    let mut faults = Vec::new();
    for tool in registry().iter() {
        for (what, arguments) in fuzz::cases(tool) {
            let result = bridge.call(tool.name(), Value::Object(arguments));
            let told = &result["_meta"]["portreeve/error"];
            let class = told["class"].as_str().and_then(FailureClass::parse);
            let callers =
                [Some(FailureClass::BridgeInvalidArguments), Some(FailureClass::DaemonInvalidInput)]
                    .contains(&class);
            let broken = class.is_none_or(|class| PLUMBING.contains(&class)) && !callers;
            if result["isError"] == true && broken {
                faults.push(format!("{}: {what}: {told}", tool.name()));
            }
        }
    }
    none(&faults);
    bridge.done("diagnostics_health_get", json!({}));
}

#[test]
fn the_tools_cost_a_conversation_no_more_than_their_budget() {
    let (all, core) = (listed("all"), listed("core"));
    #[expect(clippy::print_stdout, reason = "cargo test … -- cost --nocapture shows what each tool costs")]
    {
        println!("{}\ncore\n{}", sizes::table(&all), sizes::table(&core));
    }
    none(&sizes::over(&all, &core));
}
