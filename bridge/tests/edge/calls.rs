//! One call at a time: refused, answered, broken or taken back.

use serde_json::{Value, json};

use crate::host::{Host, meta};

#[test]
fn malformed_calls_and_unknown_tools_are_invalid_params() {
    let mut host = Host::ready();
    let cases = [
        (json!({"name": "no_such_tool"}), "unknown tool"),
        (json!({}), "params.name is missing"),
        (json!({"name": 7}), "params.name has to be a string"),
        (json!({"name": "echo", "arguments": [1]}), "params.arguments has to be an object"),
    ];
    for (params, expected) in cases {
        host.request(1, "tools/call", params.clone());
        let answer = host.answer();
        assert_eq!(answer["id"], 1);
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{params}: {message}");
        host.hears("refused: ");
    }
    host.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call"}));
    assert_eq!(host.answer()["error"]["code"], -32602);
    for params in [json!("echo"), json!(["echo"]), json!(null)] {
        host.request(3, "tools/call", params.clone());
        let answer = host.answer();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32602), &json!(3)), "{params}");
    }
}

#[test]
fn the_later_era_refuses_alike() {
    let mut host = Host::start();
    for params in
        [json!({"name": "no_such_tool", "_meta": meta()}), json!({"arguments": {}, "_meta": meta()})]
    {
        host.request(1, "tools/call", params);
        assert_eq!(host.answer()["error"]["code"], -32602);
    }
    host.request(2, "tools/call", json!({"name": "echo", "arguments": {}}));
    assert_eq!(host.answer()["error"]["code"], -32602, "without metadata");
}

#[test]
fn a_panic_is_answered_and_the_next_call_works() {
    let mut host = Host::ready();
    host.call(1, "panic");
    let answer = host.answer();
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["result"]["isError"], true);
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("Panicked"));
    assert_eq!(answer["result"].get("structuredContent"), None);
    assert_eq!(answer["result"]["_meta"]["portreeve/error"]["outcome"], "not_started");
    host.call(2, "echo");
    assert_eq!(host.answer()["id"], 2);
}

#[test]
fn printing_never_reaches_the_host() {
    let mut host = Host::ready();
    host.call(1, "print");
    assert_eq!(host.answer()["result"]["structuredContent"]["summary"], "printed");
    host.hears("a stray line");
}

#[test]
fn a_call_that_hangs_holds_nobody_up() {
    let mut host = Host::ready();
    host.call(1, "hang");
    host.hears("hanging");
    for id in 2..20 {
        host.call(id, "echo");
        assert_eq!(host.answer()["id"], id);
    }
}

#[test]
fn an_id_in_use_is_dropped_and_the_first_call_answered_once() {
    let mut host = Host::ready();
    host.call("twice", "slow");
    host.call("twice", "echo");
    host.hears("DuplicateId { id: \"\\\"twice\\\"\" }");
    let answer = host.answer();
    assert_eq!(answer["result"]["structuredContent"]["summary"], "at last");
    host.call("twice", "echo");
    assert_eq!(host.answer()["result"]["structuredContent"]["summary"], "echoed");
    host.hang_up();
    assert_eq!(host.remaining_answers(), Vec::<Value>::new());
    host.exits();
}

#[test]
fn a_cancelled_call_is_accounted_for_and_not_answered() {
    let mut host = Host::ready();
    host.call(1, "hang");
    host.hears("hanging");
    host.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    host.hears("cut: Cancelled hang");
    host.call(1, "echo");
    assert_eq!(host.answer()["result"]["structuredContent"]["summary"], "echoed");
    host.hang_up();
    assert_eq!(host.remaining_answers(), Vec::<Value>::new());
    host.exits();
}

#[test]
fn cancelled_calls_leave_room_for_others() {
    let mut host = Host::ready();
    for id in 1..=200 {
        host.call(id, "hang");
        host.hears("hanging");
        host.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
        );
        host.hears("cut: Cancelled");
    }
    host.call(201, "echo");
    assert_eq!(host.answer()["id"], 201);
}
