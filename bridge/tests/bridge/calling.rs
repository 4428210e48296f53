//! Calls that go well, and calls that are refused before the daemon hears of them.

use serde_json::{Value, json};

use crate::daemon::{Daemon, Fault, entry};
use crate::host::Host;

fn call(host: &mut Host, tool: &str, arguments: Value) -> Value {
    host.request(7, "tools/call", json!({"name": tool, "arguments": arguments}));
    host.answer()["result"].clone()
}

fn record(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result.get("structuredContent"), None);
    &result["_meta"]["portreeve/error"]
}

#[test]
fn a_call_says_who_asks_and_answers_in_both_forms() {
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    host.request(
        7,
        "tools/call",
        json!({"name": "ports_get", "arguments": {"port": 3000}, "_meta": {"traceparent": trace}}),
    );
    let result = host.answer()["result"].clone();
    let content = &result["structuredContent"];
    assert_eq!(content["port"], 3000);
    let text = result["content"][0]["text"].as_str().expect("a text");
    let (summary, rest) = text.split_once('\n').expect("a summary, then JSON");
    assert_eq!(content["summary"], summary);
    assert_eq!(&serde_json::from_str::<Value>(rest).expect("JSON"), content);

    let asked = daemon.asked("GET /v1/ports/3000");
    assert_eq!(asked.headers["x-portreeve-label"], "a-host");
    assert_eq!(asked.headers["x-portreeve-tool"], "ports_get");
    assert_eq!(asked.headers["traceparent"], trace);
    assert_eq!(asked.headers["x-portreeve-run-id"].len(), 36);
}

#[test]
fn the_failures_id_is_the_one_that_the_daemon_heard() {
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    let result = call(&mut host, "claims_get", json!({"claimId": crate::daemon::id(5)}));
    let asked = daemon.asked("GET /v1/claims/");
    let record = record(&result);
    assert_eq!(record["class"], "resolve.not_found");
    assert_eq!(record["requestId"], asked.id());
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(text.starts_with("nothing there; "), "{text}");
    assert!(
        text.ends_with(&format!("[resolve.not_found, daemon/resolve, request {}]", asked.id())),
        "{text}"
    );
}

#[test]
fn bad_arguments_name_the_field_and_reach_nobody() {
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    for (tool, arguments, field) in [
        ("ports_get", json!({}), "port"),
        ("ports_get", json!({"port": 0}), "port"),
        ("ports_get", json!({"port": 3000, "extra": 1}), "extra"),
        ("ports_list", json!({"limit": 201}), "limit"),
        (
            "leases_acquire",
            json!({"project": "p", "workspaceRoot": "src", "component": "c"}),
            "workspaceRoot",
        ),
        ("leases_confirm", json!({"credentialHandle": "cred_x"}), "rootPid"),
    ] {
        let result = call(&mut host, tool, arguments);
        let record = record(&result);
        assert_eq!(record["class"], "bridge.invalid_arguments", "{tool}: {record}");
        let message = record["message"].as_str().expect("a message");
        assert!(message.starts_with(field), "{tool}: {message}");
    }
    assert!(daemon.all("").is_empty());
}

/// The first pair that some domain declares: the execute's name and a valid input of it.
pub(crate) fn execute() -> Option<(String, Value)> {
    let registry = portreeve_domains::load().expect("a registry");
    let face = registry.iter().find(|tool| tool.face().suffix == "_execute")?;
    Some((face.name().to_owned(), Value::Object(face.example())))
}

#[test]
fn no_execute_without_a_preview() {
    // Nothing to refuse as long as no domain declares a change.
    let Some((name, mut arguments)) = execute() else { return };
    arguments.as_object_mut().expect("an object").remove("receiptId");
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    let result = call(&mut host, &name, arguments);
    let record = record(&result);
    assert_eq!(record["class"], "policy.preview_required");
    assert_eq!(record["nextStep"]["tool"], name.replace("_execute", "_preview"));
    assert!(daemon.all("").is_empty());
}

/// A daemon with that many ports, whose cursor is the last port of a page.
fn with_ports(count: u16, extra: usize) -> Daemon {
    Daemon::breaking(move |asked| {
        if asked.what != "GET /v1/ports" {
            return None;
        }
        let after: u16 = asked.query.get("afterCursor").and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let limit: u16 = asked.query["limit"].parse().expect("a limit");
        let last = count.min(after + limit);
        let items: Vec<Value> = (after + 1..=last)
            .map(|port| {
                let mut item = entry(port);
                item["listeners"] = json!([{
                    "pid": 4000 + u32::from(port), "port": port, "command": "x".repeat(extra), "names": [],
                    "process": null,
                    "ownership": {"verified": false, "reason": "no-confirmed-run-evidence", "lineage": []}
                }]);
                item
            })
            .collect();
        let next = (last < count).then(|| last.to_string());
        Some(Fault::Data(json!({"items": items, "page": {"nextCursor": next}})))
    })
}

fn walk(host: &mut Host, limit: Option<u16>) -> (Vec<u64>, usize) {
    let (mut seen, mut largest, mut cursor) = (Vec::new(), 0, None::<String>);
    loop {
        let mut arguments = json!({});
        if let Some(limit) = limit {
            arguments["limit"] = limit.into();
        }
        if let Some(cursor) = &cursor {
            arguments["afterCursor"] = cursor.as_str().into();
        }
        let result = call(host, "ports_list", arguments);
        let content = &result["structuredContent"];
        largest = largest.max(content["items"].to_string().len());
        seen.extend(
            content["items"].as_array().expect("items").iter().map(|item| item["port"].as_u64().unwrap()),
        );
        match content["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return (seen, largest),
        }
    }
}

#[test]
fn a_walk_sees_each_row_once_in_pages_that_fit() {
    let daemon = with_ports(400, 70);
    let mut host = daemon.bridge();
    let (seen, largest) = walk(&mut host, None);
    assert_eq!(seen, (1..=400).collect::<Vec<u64>>());
    assert!(largest <= 8 * 1024 + 2, "{largest} bytes without a limit");
    let (seen, largest) = walk(&mut host, Some(200));
    assert_eq!(seen, (1..=400).collect::<Vec<u64>>());
    assert!(largest > 16 * 1024 && largest <= 48 * 1024 + 2, "{largest} bytes with one");
    let (seen, _) = walk(&mut host, Some(3));
    assert_eq!(seen, (1..=400).collect::<Vec<u64>>());
}

#[test]
fn an_answer_that_is_too_large_is_a_failure_of_its_own() {
    let daemon = Daemon::breaking(|asked| {
        (asked.what == "GET /v1/ports/3000").then(|| {
            let mut entry = entry(3000);
            entry["listeners"] = (1..=2000)
                .map(|pid| {
                    json!({"pid": pid, "port": 3000, "command": "a command", "names": [], "process": null,
                        "ownership": {"verified": false, "reason": "no-confirmed-run-evidence", "lineage": []}})
                })
                .collect();
            Fault::Data(entry)
        })
    });
    let mut host = daemon.bridge();
    let result = call(&mut host, "ports_get", json!({"port": 3000}));
    let record = record(&result);
    assert_eq!(record["class"], "serialize.result_too_large");
    assert_eq!(record["outcome"], "not_applied");
    assert!(result.to_string().len() < 4096);
}
