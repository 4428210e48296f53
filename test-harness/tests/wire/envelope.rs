//! What a request says of its sender, and what every reply says of itself.

use crate::support::{Reply, ask_head, check_envelope, exchange, is_id, is_stamp, keys, lives};
use portreeve_test_harness::machine::{Daemon, Server, acquire, ask, client, free_port, raw, worktree};
use serde_json::{Value, json};

/// A release of a run that nobody has: the cheapest POST that only needs its envelope to be right.
const RELEASE: &str = "/v1/runs/0aaea852-e351-4a27-9ee9-f6707b7e4100/release";

fn release(daemon: &Daemon, client: Value) -> (u16, Value) {
    let (status, reply) = ask(daemon.socket(), "POST", RELEASE, Some(json!({"client": client})));
    check_envelope(status, &reply);
    (status, reply)
}

fn with(field: &str, value: Value) -> Value {
    let mut client = client();
    client[field] = value;
    client
}

fn without(field: &str) -> Value {
    let mut client = client();
    client.as_object_mut().expect("an object").remove(field);
    client
}

#[test]
fn a_sender_must_say_who_it_is_and_each_fault_is_named() {
    let daemon = Daemon::start();
    let protocol = |value: Value| with("protocol", value);
    let id = "4e54cf40-f95c-44ae-8bc5-e1b16101633a";
    let origin = |value: Value| with("origin", value);
    let long = "x".repeat(129);
    for (client, path) in [
        (Value::Null, json!(["client"])),
        (json!("me"), json!(["client"])),
        (json!([]), json!(["client"])),
        (without("softwareVersion"), json!(["client", "softwareVersion"])),
        (with("softwareVersion", json!(1)), json!(["client", "softwareVersion"])),
        (without("protocol"), json!(["client", "protocol"])),
        (protocol(json!(1)), json!(["client", "protocol"])),
        (protocol(json!({"minimum": 1})), json!(["client", "protocol", "maximum"])),
        (protocol(json!({"minimum": "1", "maximum": 1})), json!(["client", "protocol", "minimum"])),
        (protocol(json!({"minimum": -1, "maximum": 1})), json!(["client", "protocol", "minimum"])),
        (protocol(json!({"minimum": 1.5, "maximum": 1})), json!(["client", "protocol", "minimum"])),
        (with("requiredCapabilities", json!("claims-v1")), json!(["client", "requiredCapabilities"])),
        (with("requiredCapabilities", json!(["claims-v1", 2])), json!(["client", "requiredCapabilities", 1])),
        (origin(json!({})), json!(["client", "origin", "kind"])),
        (origin(json!({"kind": "browser"})), json!(["client", "origin", "kind"])),
        (origin(json!({"kind": "mcp", "runId": "abc"})), json!(["client", "origin", "runId"])),
        (origin(json!({"kind": "mcp", "label": ""})), json!(["client", "origin", "label"])),
        (origin(json!({"kind": "mcp", "label": long})), json!(["client", "origin", "label"])),
        (origin(json!({"kind": "mcp", "runId": id, "more": 1})), json!(["client", "origin", "more"])),
    ] {
        let (status, reply) = release(&daemon, client.clone());
        let error = &reply["error"];
        assert_eq!((status, error["code"].as_str()), (400, Some("invalid_input")), "{client}: {reply}");
        let issue = &error["details"]["issues"][0];
        assert_eq!(issue["path"], path, "{client}: {reply}");
        assert_eq!(keys(issue), ["code", "message", "path"], "{reply}");
    }
    let (status, body) =
        raw(daemon.socket(), "POST", RELEASE, Some(b"{\"claim\":{}}")).expect("the daemon answers");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    check_envelope(status, &body);
    assert_eq!((status, &body["error"]["details"]["issues"][0]["path"]), (400, &json!(["client"])));
}

#[test]
fn what_a_sender_may_leave_out_or_add_does_no_harm() {
    let daemon = Daemon::start();
    for client in [
        without("requiredCapabilities"),
        without("origin"),
        with("origin", Value::Null),
        with("later", json!({"deep": [1, 2]})),
        with("protocol", json!({"minimum": 1, "maximum": 7, "more": true})),
        with("protocol", json!({"minimum": 0, "maximum": 1})),
        with("origin", json!({"kind": "desktop", "label": "two agents"})),
    ] {
        let (status, reply) = release(&daemon, client.clone());
        assert_eq!(status, 200, "{client}: {reply}");
        assert_eq!(reply["data"]["changed"], false);
    }
}

#[test]
fn an_incompatible_sender_reads_exactly_what_is_missing() {
    let daemon = Daemon::start();
    let of = |client: Value| {
        let (status, reply) = release(&daemon, client);
        assert_eq!(status, 426, "{reply}");
        assert_eq!(reply["error"]["code"], "incompatible_protocol", "{reply}");
        assert_eq!(reply["error"]["retryable"], false, "{reply}");
        reply["error"]["details"].clone()
    };
    let range =
        |minimum: u64, maximum: u64| with("protocol", json!({"minimum": minimum, "maximum": maximum}));
    let apart = json!({"compatible": false, "negotiatedProtocol": null, "missingCapabilities": []});
    assert_eq!(of(range(2, 2)), apart);
    assert_eq!(of(range(0, 0)), apart);
    assert_eq!(of(range(3, 0)), apart);
    assert_eq!(of(range(2, u64::from(u32::MAX))), apart);
    let needs = json!(["claims-v1", "teleport-v9", "docker-evidence-v1"]);
    assert_eq!(
        of(with("requiredCapabilities", needs)),
        json!({
            "compatible": false,
            "negotiatedProtocol": 1,
            "missingCapabilities": ["teleport-v9", "docker-evidence-v1"],
        })
    );
    let mut both = range(2, 2);
    both["requiredCapabilities"] = json!(["teleport-v9"]);
    assert_eq!(of(both)["missingCapabilities"], json!(["teleport-v9"]));
}

#[test]
fn an_announced_capability_can_be_required_and_each_is_known_to_protocol_1_or_ours() {
    let daemon = Daemon::start();
    let health = daemon.get("/v1/health");
    assert_eq!(release(&daemon, with("requiredCapabilities", health["capabilities"].clone())).0, 200);
    let known = [
        "claims-v1",
        "two-phase-allocation-v1",
        "listener-evidence-v1",
        "reclamation-v1",
        "administration-v1",
        "observability-v1",
        "lifecycle-control-v1",
        "stack-definitions-v1",
        "stack-activations-v1",
        "stack-discovery-v1",
        "launcher-operations-v1",
        "mcp-foundations-v1",
        "docker-evidence-v1",
        "paged-lists-v1",
        "failure-ledger-v1",
        "caller-tokens-v1",
    ];
    for capability in health["capabilities"].as_array().expect("a list") {
        assert!(known.contains(&capability.as_str().expect("a name")), "{capability}");
    }
}

#[test]
fn a_request_id_is_taken_over_if_it_is_a_uuid_and_made_otherwise() {
    let daemon = Daemon::start();
    let ask = |id: &str| {
        let head = format!("GET /v1/health HTTP/1.1\r\nhost: x\r\nx-portreeve-request-id: {id}");
        let reply = ask_head(daemon.socket(), &head, b"").envelope();
        reply["requestId"].as_str().expect("an id").to_owned()
    };
    for id in ["4e54cf40-f95c-44ae-8bc5-e1b16101633a", "01939c2e-7b3a-7c1d-9a55-0242ac120002"] {
        assert_eq!(ask(id), id);
    }
    let strange = [
        "",
        "abc",
        "4e54cf40f95c44ae8bc5e1b16101633a",
        "{4e54cf40-f95c-44ae-8bc5-e1b16101633a}",
        "00000000-0000-0000-0000-000000000000",
        "4e54cf40-f95c-f4ae-8bc5-e1b16101633a",
        "4e54cf40-f95c-44ae-8bc5-e1b16101633a, 4e54cf40-f95c-44ae-8bc5-e1b16101633a",
        "\u{e9}",
    ];
    let mut made: Vec<String> = strange.iter().map(|id| ask(id)).collect();
    assert!(made.iter().all(|id| is_id(id) && !strange.contains(&id.as_str())), "{made:?}");
    made.sort_unstable();
    made.dedup();
    assert_eq!(made.len(), strange.len(), "an id was given twice");
}

#[test]
fn errors_carry_the_request_id_too_and_so_does_the_log() {
    let daemon = Daemon::start();
    let id = "4e54cf40-f95c-44ae-8bc5-e1b16101633a";
    let head = format!("GET /v1/ports/0 HTTP/1.1\r\nhost: x\r\nx-portreeve-request-id: {id}");
    let reply = ask_head(daemon.socket(), &head, b"");
    assert_eq!((reply.status, reply.envelope()["requestId"].as_str()), (400, Some(id)));
    let logs = daemon.get("/v1/logs?limit=1");
    assert_eq!(logs[0]["details"]["requestId"], id);
    assert_eq!(logs[0]["details"]["pathname"], "/v1/ports/0");
}

#[test]
fn an_unknown_path_or_method_is_404_in_protocol_1s_words() {
    let daemon = Daemon::start();
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("GET", "/v1/nope"),
        ("GET", "/v1/claims/"),
        ("GET", "//v1/health"),
        ("GET", "/v1/health/"),
        ("GET", "/V1/health"),
        ("GET", "/v1/ports/-1"),
        ("GET", "/v1/ports/1.5"),
        ("GET", "/v1/ports/%38%30x"),
        ("GET", "/v1/claims/%ff"),
        ("GET", "/v1/leases/acquire"),
        ("POST", "/v1/health"),
        ("PUT", "/v1/config"),
        ("DELETE", "/v1/claims/4e54cf40-f95c-44ae-8bc5-e1b16101633a"),
        ("PATCH", "/v1/claims"),
        ("OPTIONS", "/v1/health"),
        ("BREW", "/v1/health"),
    ] {
        let head = format!("{method} {target} HTTP/1.1\r\nhost: x");
        let reply = ask_head(daemon.socket(), &head, b"");
        let body = reply.envelope();
        assert_eq!(reply.status, 404, "{method} {target}: {body}");
        assert_eq!(body["error"]["failure"]["class"], "daemon.unknown_operation");
        assert_eq!(body["error"]["message"], format!("No PortReeve endpoint matches {method} {target}."));
        assert_eq!(body["error"]["details"], json!({}));
    }
    // A HEAD has no body; its head is the one of the 404.
    let bytes = b"HEAD /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let all = exchange(daemon.socket(), bytes).expect("the daemon answers");
    let reply = Reply::parse(&all).expect("HTTP");
    assert_eq!((reply.status, reply.body.len()), (404, 0));
    lives(&daemon);
}

#[test]
fn unknown_query_keys_and_body_fields_are_ignored_and_a_path_wins_over_the_body() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let mut body = acquire(workspace.path(), "web", json!({"later": 1}));
    body["claim"]["colour"] = "green".into();
    body["claim"]["service"] = "web".into();
    body["later"] = json!([]);
    let lease = daemon.post("/v1/leases/acquire", body);
    let id = lease["leaseId"].as_str().expect("an id");
    let other = "4e54cf40-f95c-44ae-8bc5-e1b16101633a";
    let renewed = daemon.post(
        &format!("/v1/leases/{id}/renew"),
        json!({"leaseToken": lease["leaseToken"], "leaseId": other, "later": null}),
    );
    assert_eq!(renewed["leaseId"], id);
    for target in [
        "/v1/health?later=1",
        "/v1/config?x",
        "/v1/claims?later=1&project=shop",
        "/v1/ports?later&claimed=true",
        "/v1/ports/80?verbose=true",
        "/v1/history?later=2&limit=1",
        "/v1/logs?later=2&limit=1",
    ] {
        daemon.get(target);
    }
    assert_eq!(daemon.get("/v1/claims?later=1&project=shop").as_array().map(Vec::len), Some(1));
}

#[test]
fn every_time_has_exactly_three_decimals_and_a_z() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let port = free_port();
    let lease = daemon.acquire(workspace.path(), "web", json!({"preferredPort": port, "mode": "ephemeral"}));
    let server = Server::listen("127.0.0.1", port, workspace.path());
    let id = lease["leaseId"].as_str().expect("an id");
    let run = daemon.post(
        &format!("/v1/leases/{id}/confirm"),
        json!({"leaseToken": lease["leaseToken"], "rootPid": server.pid()}),
    );
    daemon.refused("GET", "/v1/ports/0", None);
    let mut seen = 0;
    let replies = [
        lease,
        run,
        daemon.get("/v1/claims"),
        daemon.get(&format!("/v1/ports/{port}")),
        daemon.get("/v1/history"),
        daemon.get("/v1/logs"),
        daemon.post("/v1/server/stop", json!({})),
    ];
    for reply in &replies {
        check_times("", reply, &mut seen);
    }
    assert!(seen > 20, "only {seen} times were seen");
}

fn check_times(key: &str, value: &Value, seen: &mut usize) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| check_times(key, value, seen)),
        Value::Array(items) => items.iter().for_each(|value| check_times(key, value, seen)),
        Value::String(text) if key.ends_with("At") || matches!(key, "at" | "timestamp" | "startTime") => {
            assert!(is_stamp(text), "{key}: {text}");
            *seen += 1;
        }
        _ => {}
    }
}
