//! Bad input, for every operation that is served: refused with its type and field, and nothing changes.

use crate::support::{check_envelope, token};
use portreeve_test_harness::machine::{Daemon, Server, acquire, ask, free_port, worktree};
use serde_json::{Value, json};

/// An id of the right form that nobody has.
const NOBODY: &str = "0c2ac85d-ce3d-4fbb-9ab9-648eb8430b68";

/// Asks and checks that it is refused as `invalid_input` naming `path`.
fn refused_at(daemon: &Daemon, method: &str, target: &str, body: Option<Value>, path: &Value) {
    let (status, reply) = ask(daemon.socket(), method, target, body.clone());
    let asked = format!("{method} {target} {}", body.map(|b| b.to_string()).unwrap_or_default());
    let asked: String = asked.chars().take(300).collect();
    assert_eq!(status, 400, "{asked}: {reply}");
    check_envelope(status, &reply);
    let error = &reply["error"];
    assert_eq!(error["code"], "invalid_input", "{asked}: {reply}");
    assert_eq!(error["retryable"], false, "{asked}: {reply}");
    assert_eq!(&error["details"]["issues"][0]["path"], path, "{asked}: {reply}");
    let place: Vec<&str> = path.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains(&place.join(".")), "{asked}: {message}");
    assert!(message.len() < 600, "{asked}: a message of {} bytes", message.len());
}

/// What no port may be.
fn bad_ports() -> Vec<Value> {
    let not =
        [json!(0), json!(65536), json!(-1), json!(1.5), json!("80"), json!(true), json!([80]), json!({})];
    not.into_iter().chain([json!(1e300), json!(u64::MAX), json!(i64::MIN), json!("")]).collect()
}

/// What no name may be.
fn bad_names() -> Vec<Value> {
    let texts = ["", " ", "\t\n", "a\u{0}b", "line\nbreak", "\u{7}bell", "escape\u{1b}[31m"];
    let long = ["x".repeat(129), "x".repeat(10_000), "\u{1F600}".repeat(129)];
    texts
        .iter()
        .map(|t| json!(t))
        .chain(long.iter().map(|t| json!(t)))
        .chain([
            json!(1),
            json!(null),
            json!(true),
            json!(["web"]),
            json!({"name": "web"}),
            json!("a\u{85}b"),
        ])
        .collect()
}

#[test]
fn every_field_of_an_acquire_is_checked_by_name() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let before = daemon.tables();
    let good = acquire(workspace.path(), "web", json!({}));
    let check = |path: &[&str], value: Value| {
        let mut body = good.clone();
        let (last, above) = path.split_last().expect("a path");
        let place = above.iter().fold(&mut body, |at, step| &mut at[*step]);
        place[*last] = value;
        refused_at(&daemon, "POST", "/v1/leases/acquire", Some(body), &json!(path));
    };
    for name in bad_names() {
        for field in ["project", "component", "endpoint"] {
            // Null is absence where a field has a default or an alias.
            if name.is_null() && field != "project" {
                continue;
            }
            check(&["claim", field], name.clone());
        }
    }
    for root in [
        json!(""),
        json!("relative/path"),
        json!("."),
        json!("~"),
        json!("/nul\u{0}"),
        json!(1),
        json!(null),
        json!(["/"]),
        json!(format!("/{}", "x".repeat(4096))),
        json!("C:\\shop"),
    ] {
        check(&["claim", "workspaceRoot"], root);
    }
    for transport in [json!("udp"), json!("TCP"), json!(6), json!(null), json!("")] {
        check(&["claim", "transport"], transport);
    }
    for port in bad_ports() {
        check(&["allocation", "preferredPort"], port.clone());
        check(&["allocation", "exactPort"], port);
    }
    for mode in [json!("forever"), json!(1), json!(""), json!("Sticky"), json!(["sticky"])] {
        check(&["allocation", "mode"], mode.clone());
        check(&["allocation", "replacementPolicy"], mode);
    }
    for claim in [json!(null), json!([]), json!("web"), json!(5)] {
        check(&["claim"], claim.clone());
        check(&["allocation"], claim);
    }
    for answer in [json!("yes"), json!(1), json!([])] {
        check(&["answerRunning"], answer);
    }
    for bad in bad_tokens() {
        check(&["leaseToken"], bad);
    }
    for missing in ["claim", "allocation"] {
        let mut body = good.clone();
        body.as_object_mut().expect("an object").remove(missing);
        refused_at(&daemon, "POST", "/v1/leases/acquire", Some(body), &json!([missing]));
    }
    for missing in ["project", "workspaceRoot", "component", "transport"] {
        let mut body = good.clone();
        body["claim"].as_object_mut().expect("an object").remove(missing);
        refused_at(&daemon, "POST", "/v1/leases/acquire", Some(body), &json!(["claim", missing]));
    }
    let both = acquire(workspace.path(), "web", json!({"preferredPort": 20001, "exactPort": 20001}));
    let path = json!(["allocation", "exactPort"]);
    refused_at(&daemon, "POST", "/v1/leases/acquire", Some(both), &path);
    let mut two = good.clone();
    two["claim"]["service"] = "api".into();
    refused_at(&daemon, "POST", "/v1/leases/acquire", Some(two), &json!(["claim"]));
    assert_eq!(daemon.tables(), before);
}

fn bad_tokens() -> Vec<Value> {
    let text = |text: String| Value::String(text);
    vec![
        text(String::new()),
        text("A".repeat(42)),
        text("A".repeat(129)),
        text("A".repeat(10_000)),
        text(format!("{}=", "A".repeat(43))),
        text(format!("{}+", "A".repeat(42))),
        text(format!("{}/", "A".repeat(42))),
        text(format!("{} ", "A".repeat(43))),
        text(format!("{}\u{e9}", "A".repeat(42))),
        text(format!("{}\u{0}", "A".repeat(43))),
        json!(43),
        json!(["A".repeat(43)]),
    ]
}

#[test]
fn every_field_of_what_settles_a_lease_is_checked_by_name() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let lease = daemon.acquire(workspace.path(), "web", json!({}));
    let (id, token) = (lease["leaseId"].as_str().expect("an id"), lease["leaseToken"].clone());
    let before = daemon.tables();
    let good = |verb: &str| {
        let mut body = json!({"leaseToken": token});
        match verb {
            "confirm" => body["rootPid"] = std::process::id().into(),
            "abandon" => body["reason"] = "client-cancelled".into(),
            _ => {}
        }
        body
    };
    for verb in ["renew", "confirm", "abandon"] {
        let target = format!("/v1/leases/{id}/{verb}");
        let check = |field: &str, value: Value| {
            let mut body = good(verb);
            body[field] = value;
            refused_at(&daemon, "POST", &target, Some(body), &json!([field]));
        };
        bad_tokens().into_iter().chain([json!(null)]).for_each(|bad| check("leaseToken", bad));
        let mut missing = good(verb);
        missing.as_object_mut().expect("an object").remove("leaseToken");
        refused_at(&daemon, "POST", &target, Some(missing), &json!(["leaseToken"]));
        if verb == "confirm" {
            let beyond =
                [json!(2_147_483_648_u64), json!(u64::MAX), json!("1"), json!(1.5), json!(-1), json!(0)];
            beyond.into_iter().chain([json!(null), json!([1])]).for_each(|bad| check("rootPid", bad));
        }
        if verb == "abandon" {
            for reason in [json!("bored"), json!(""), json!(null), json!(1), json!("Client-Cancelled")] {
                check("reason", reason);
            }
        }
        if verb != "renew" {
            check("answerSettled", json!("yes"));
        }
        for malformed in malformed_ids() {
            let target = format!("/v1/leases/{malformed}/{verb}");
            refused_at(&daemon, "POST", &target, Some(good(verb)), &json!(["leaseId"]));
        }
        let (status, error) =
            daemon.refused("POST", &format!("/v1/leases/{NOBODY}/{verb}"), Some(good(verb)));
        assert_eq!((status, error["code"].as_str()), (404, Some("not_found")), "{error}");
    }
    assert_eq!(daemon.tables(), before);
}

fn malformed_ids() -> [String; 7] {
    [
        "abc".into(),
        NOBODY.replace('-', ""),
        format!("%7B{NOBODY}%7D"),
        format!("{NOBODY}0"),
        NOBODY.replace("4fbb", "0fbb"),
        "00000000-0000-0000-0000-000000000000".into(),
        "x".repeat(10_000),
    ]
}

#[test]
fn a_wrong_token_opens_nothing_and_an_unknown_id_is_not_found() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let port = free_port();
    let lease = daemon.acquire(workspace.path(), "web", json!({"preferredPort": port}));
    let other = daemon.acquire(workspace.path(), "api", json!({}));
    let server = Server::listen("127.0.0.1", port, workspace.path());
    let id = lease["leaseId"].as_str().expect("an id");
    let before = daemon.tables();
    for wrong in [json!("A".repeat(43)), json!(token()), other["leaseToken"].clone()] {
        for (verb, field, value) in [
            ("renew", "later", json!(1)),
            ("confirm", "rootPid", json!(server.pid())),
            ("abandon", "reason", json!("startup-error")),
        ] {
            for settled in [None, Some(true)] {
                let mut body = json!({"leaseToken": wrong, "answerSettled": settled});
                body[field] = value.clone();
                let (status, error) = daemon.refused("POST", &format!("/v1/leases/{id}/{verb}"), Some(body));
                assert_eq!((status, error["code"].as_str()), (400, Some("invalid_lease_token")), "{error}");
                assert_eq!(error["failure"]["outcome"], "not_applied");
                assert_eq!(error["details"], json!({}), "nothing is said of the lease");
            }
        }
    }
    assert_eq!(daemon.tables(), before);
    let (status, error) = daemon.refused("GET", &format!("/v1/claims/{NOBODY}"), None);
    assert_eq!((status, error["code"].as_str(), &error["details"]), (404, Some("not_found"), &json!({})));
    let released = daemon.post(&format!("/v1/runs/{NOBODY}/release"), json!({}));
    assert_eq!(released["changed"], false);
    for malformed in malformed_ids() {
        let (claim, run) = (format!("/v1/claims/{malformed}"), format!("/v1/runs/{malformed}/release"));
        refused_at(&daemon, "GET", &claim, None, &json!(["claimId"]));
        refused_at(&daemon, "POST", &run, Some(json!({})), &json!(["runId"]));
    }
    let run = format!("/v1/runs/{NOBODY}/release");
    refused_at(&daemon, "POST", &run, Some(json!({"ifStopped": "yes"})), &json!(["ifStopped"]));
    assert_eq!(daemon.tables(), before);
}

#[test]
fn every_query_parameter_is_checked_by_name() {
    let daemon = Daemon::start();
    let before = daemon.tables();
    let long = "x".repeat(10_000);
    let cases: Vec<(&str, &str, Vec<&str>)> = vec![
        ("/v1/ports", "classification", vec!["", "free", "Idle", "docker_managed", "1"]),
        ("/v1/ports", "claimed", vec!["", "yes", "1", "TRUE", "null"]),
        ("/v1/ports", "listening", vec!["", "no", "0"]),
        ("/v1/ports", "port", vec!["", "0", "65536", "-1", "1.5", "abc", "1e99", "99999999999999999999999"]),
        ("/v1/ports", "project", vec!["", "%20", "a%00b", "%0a", &long]),
        ("/v1/ports", "component", vec!["", &long]),
        ("/v1/ports", "service", vec!["", &long]),
        ("/v1/ports", "endpoint", vec!["", "%07"]),
        ("/v1/claims", "project", vec!["", "%20", "a%00b", &long]),
        ("/v1/claims", "component", vec!["", &long]),
        ("/v1/claims", "endpoint", vec!["", &long]),
        ("/v1/history", "order", vec!["", "up", "ASC", "1"]),
        ("/v1/history", "since", vec!["", "yesterday", "2026-01-31", "2026-13-01T00:00:00Z", "1", &long]),
    ];
    for (path, name, values) in cases {
        for value in values {
            refused_at(&daemon, "GET", &format!("{path}?{name}={value}"), None, &json!([name]));
        }
    }
    for path in ["/v1/ports", "/v1/claims", "/v1/history", "/v1/logs"] {
        for limit in ["", "0", "-1", "abc", "1.5", "true", "null", "18446744073709551616"] {
            refused_at(&daemon, "GET", &format!("{path}?limit={limit}"), None, &json!(["limit"]));
        }
        refused_at(&daemon, "GET", &format!("{path}?afterCursor=&limit=201"), None, &json!(["limit"]));
        daemon.get(&format!("{path}?afterCursor=&limit=200"));
    }
    for path in ["/v1/ports", "/v1/claims", "/v1/history"] {
        refused_at(&daemon, "GET", &format!("{path}?limit=201"), None, &json!(["limit"]));
    }
    daemon.get("/v1/logs?limit=10000");
    refused_at(&daemon, "GET", "/v1/logs?limit=10001", None, &json!(["limit"]));
    for port in ["0", "65536", "99999999999999999999999", "00"] {
        refused_at(&daemon, "GET", &format!("/v1/ports/{port}"), None, &json!(["port"]));
    }
    assert_eq!(daemon.tables(), before);
}
