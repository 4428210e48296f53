//! What is no tool's failure but the envelope's: JSON-RPC errors, one to a request, and the bridge lives.

use crate::support::house;
use portreeve_test_harness::host::{ERAS, Era, Host};
use serde_json::{Value, json};

/// The code of the JSON-RPC error that answers a request.
fn code(host: &mut Host, method: &str, params: Value) -> Value {
    let id = host.begin(method, params);
    let message = host.message(id);
    assert_eq!(message.get("result"), None, "{message}");
    assert!(message["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{message}");
    message["error"]["code"].clone()
}

#[test]
fn an_unknown_tool_is_invalid_params_in_each_era() {
    let house = house();
    for era in ERAS {
        let mut host = Host::run(Host::command(house.socket()), era);
        for name in ["ports_kill", "", "Ports_get", "ports_get ", "mcp__portreeve__ports_get", "\u{0}"] {
            assert_eq!(
                code(&mut host, "tools/call", json!({"name": name, "arguments": {}})),
                -32602,
                "{name:?}"
            );
        }
        let long = "x".repeat(1 << 20);
        let id = host.begin("tools/call", json!({"name": long, "arguments": {}}));
        assert!(host.message(id).to_string().len() < 1000, "a long name isn't sent back");
        host.done("ports_get", json!({"port": 3000}));
    }
}

#[test]
fn a_tool_outside_of_the_toolset_is_unknown() {
    let house = house();
    let mut host = Host::with(house.socket(), &["--tools", "history"]);
    assert_eq!(host.tools.keys().collect::<Vec<_>>(), ["history_list"]);
    assert_eq!(code(&mut host, "tools/call", json!({"name": "ports_get", "arguments": {"port": 1}})), -32602);
}

#[test]
fn malformed_params_are_invalid_params_in_each_era() {
    let house = house();
    for era in ERAS {
        let mut host = Host::run(Host::command(house.socket()), era);
        for params in [
            json!({}),
            json!({"arguments": {}}),
            json!({"name": 7, "arguments": {}}),
            json!({"name": null, "arguments": {}}),
            json!({"name": ["ports_get"], "arguments": {}}),
            json!({"name": "ports_get", "arguments": []}),
            json!({"name": "ports_get", "arguments": "port"}),
            json!({"name": "ports_get", "arguments": 3000}),
        ] {
            assert_eq!(code(&mut host, "tools/call", params.clone()), -32602, "{era:?}: {params}");
        }
        if let Era::Initialize(_) = era {
            for params in [json!([]), json!("ports_get")] {
                let id = host.begin("tools/call", params.clone());
                let error = host.message(id)["error"]["code"].clone();
                assert!([json!(-32602), json!(-32600)].contains(&error), "{params}: {error}");
            }
        }
        host.done("ports_get", json!({"port": 3000}));
    }
}

#[test]
fn lines_that_are_no_messages_are_noted_and_the_bridge_goes_on() {
    let house = house();
    let mut host = house.host();
    host.write(b"\n\n   \n{\"jsonrpc\": \"2.0\", \"id\": \n\xff\xfe\nnull\n42\n\"x\"\n[]\n{}\n");
    host.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/what\"}\n");
    host.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    host.write(b"Content-Length: 20\r\n\r\n");
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!(host.refusals.len(), 5, "JSON that is no message is refused: {:?}", host.refusals);
    assert!(host.refusals.iter().all(|refusal| refusal["error"]["code"] == -32600));
    let classes: Vec<&Value> =
        told["recentFailures"].as_array().expect("a list").iter().map(|failure| &failure["class"]).collect();
    assert!(classes.contains(&&json!("stdio.malformed_message")), "{classes:?}");
    // 17 MiB on one line: dropped as it streams by.
    host.write(&vec![b'x'; 17 << 20]);
    host.write(b"\n");
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!(told["recentFailures"][0]["class"], "stdio.message_too_large", "{told}");
    // Windows' line ends.
    let (id, call) = host.request("tools/call", json!({"name": "ports_get", "arguments": {"port": 3000}}));
    host.write(format!("{call}\r\n").as_bytes());
    host.end(id).expect("a line is a line");
}

#[test]
fn a_method_that_is_not_there_is_method_not_found() {
    let house = house();
    let mut host = house.host();
    for method in ["resources/list", "prompts/list", "completion/complete", "tools/run", ""] {
        assert_eq!(code(&mut host, method, json!({})), -32601, "{method}");
    }
    let id = host.begin(&"x".repeat(1 << 20), json!({}));
    assert!(host.message(id).to_string().len() < 1000, "a long name isn't sent back");
    assert_eq!(host.ask("ping", json!({})), json!({}));
}

#[test]
fn a_request_id_that_is_in_flight_is_not_answered_twice() {
    let house = house();
    let mut host = house.host();
    let stopped = house.stopped();
    let (id, call) = host.request("tools/call", json!({"name": "ports_get", "arguments": {"port": 3000}}));
    host.send(&call);
    host.send(&call);
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!(told["recentFailures"][0]["class"], "stdio.duplicate_request_id", "{told}");
    drop(stopped);
    host.end(id).expect("the first one is answered");
    host.hang_up();
    assert!(host.rest().is_empty());
}
