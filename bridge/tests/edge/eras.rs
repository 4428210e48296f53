//! Both eras of the protocol over the same server.

use serde_json::json;

use crate::host::{Host, initialize, meta};

#[test]
fn every_version_with_a_handshake_is_served() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut host = Host::start();
        host.request("a", "initialize", initialize(version));
        let answer = host.answer();
        assert_eq!(answer["id"], "a");
        assert_eq!(answer["result"]["protocolVersion"], version);
        assert_eq!(answer["result"]["capabilities"], json!({"tools": {}}));
        assert_eq!(answer["result"]["serverInfo"]["name"], "portreeve");
        host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        host.request(1, "tools/list", json!({}));
        assert_eq!(host.answer()["result"]["tools"][0]["name"], "echo");
        host.call(2, "echo");
        assert_eq!(host.answer()["result"]["structuredContent"]["summary"], "echoed");
        host.hang_up();
        host.exits();
    }
}

#[test]
fn an_unknown_version_is_offered_one_with_a_handshake() {
    let mut host = Host::start();
    host.request(1, "initialize", initialize("2099-01-01"));
    assert_eq!(host.answer()["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn discover_and_self_describing_requests_are_served() {
    let mut host = Host::start();
    host.request(1, "server/discover", json!({"_meta": meta()}));
    let discovered = host.answer();
    let result = &discovered["result"];
    assert_eq!(result["ttlMs"], 3_600_000);
    assert_eq!(result["cacheScope"], "public");
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2024-11-05")));

    host.request(2, "tools/list", json!({"_meta": meta()}));
    let listed = host.answer();
    assert_eq!(listed["result"]["ttlMs"], 3_600_000);
    assert_eq!(listed["result"]["cacheScope"], "public");
    assert_eq!(listed["result"]["resultType"], "complete");
}

#[test]
fn a_call_may_be_the_very_first_message() {
    let mut host = Host::start();
    host.request(1, "tools/call", json!({"name": "echo", "arguments": {"a": 1}, "_meta": meta()}));
    assert_eq!(host.answer()["result"]["structuredContent"]["arguments"], json!({"a": 1}));
}

#[test]
fn a_handshake_may_follow_discover() {
    let mut host = Host::start();
    host.request(1, "server/discover", json!({"_meta": meta()}));
    host.answer();
    host.initialize();
    host.call(2, "echo");
    assert_eq!(host.answer()["id"], 2);
}

#[test]
fn only_tools_are_served() {
    let mut host = Host::ready();
    for (id, method) in [(1, "resources/list"), (2, "prompts/list"), (3, "logging/setLevel"), (4, "no/such")]
    {
        host.request(id, method, json!({"level": "info"}));
        assert_eq!(host.answer()["error"]["code"], -32601, "{method}");
    }
}
