//! Names and claims: what is kept as it is, and what contradicts what is there.

use crate::support::is_id;
use portreeve_test_harness::machine::{Daemon, Server, acquire, free_port, until, worktree};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn unusual_names_are_kept_as_they_are_and_found_again() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let longest = "\u{1F600}".repeat(128);
    let names = [
        "a/b?c#d&e=f%g",
        "\"quoted\" \\ back",
        "'; DROP TABLE claim; --",
        "{}",
        "null",
        "0",
        "true",
        "-1",
        "\u{202e}right to left",
        "zero\u{200b}width",
        "e\u{301}",
        "\u{e9}",
        "\u{5e97}\u{8217}",
        "\u{10ffff}",
        longest.as_str(),
    ];
    for name in names {
        let mut body = acquire(workspace.path(), name, json!({}));
        body["claim"]["project"] = format!("  {name}\u{3000}").into();
        body["claim"]["endpoint"] = name.into();
        let lease = daemon.post("/v1/leases/acquire", body);
        let encoded: String = name.bytes().map(|b| format!("%{b:02X}")).collect();
        let target = format!("/v1/claims?project={encoded}&component={encoded}&endpoint={encoded}");
        let found = daemon.get(&target);
        assert_eq!(found.as_array().map(Vec::len), Some(1), "{name}: {found}");
        assert_eq!(found[0]["id"], lease["claimId"]);
        for field in ["project", "component", "service", "endpoint"] {
            assert_eq!(found[0]["identity"][field], name);
        }
        assert_eq!(daemon.get(&format!("/v1/ports?component={encoded}"))[0]["port"], lease["port"]);
    }
}

#[test]
fn an_older_client_names_the_component_as_service() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let named = |field: &str| {
        let mut body = acquire(workspace.path(), "web", json!({"mode": "sticky"}));
        let claim = body["claim"].as_object_mut().expect("an object");
        let name = claim.remove("component").expect("it is there");
        claim.insert(field.to_owned(), name);
        body
    };
    let lease = daemon.post("/v1/leases/acquire", named("service"));
    let (status, error) = daemon.refused("POST", "/v1/leases/acquire", Some(named("component")));
    assert_eq!((status, &error["details"]["claimId"]), (409, &lease["claimId"]));
    assert_eq!(error["details"]["reason"], "claim_pending");
}

#[test]
fn an_expired_lease_is_refused_for_what_it_is() {
    let daemon = Daemon::start_with(&json!({"leaseTtlMilliseconds": 1000}));
    let workspace = worktree();
    let lease = daemon.acquire(workspace.path(), "web", json!({}));
    let id = lease["leaseId"].as_str().expect("an id");
    until("the lease expires", || {
        let page = daemon.get(&format!("/v1/history?eventType=lease.expired&entityId={id}"));
        (page["items"].as_array().map(Vec::len) == Some(1)).then_some(())
    });
    let before = daemon.tables();
    let server = Server::listen("127.0.0.1", free_port(), workspace.path());
    for (verb, field, value) in
        [("renew", "later", json!(1)), ("abandon", "reason", json!("client-cancelled"))]
    {
        let mut body = json!({"leaseToken": lease["leaseToken"]});
        body[field] = value;
        let (status, error) = daemon.refused("POST", &format!("/v1/leases/{id}/{verb}"), Some(body));
        let code = error["code"].as_str().unwrap_or_default();
        assert_eq!(status, 409, "{error}");
        assert_eq!(code, "lease_expired", "{error}");
        assert!(error["message"].as_str().is_some_and(|m| m.contains("expired")), "{error}");
        assert_eq!(error["retryable"], false);
    }
    let body = json!({"leaseToken": lease["leaseToken"], "rootPid": server.pid()});
    let (status, error) = daemon.refused("POST", &format!("/v1/leases/{id}/confirm"), Some(body));
    assert_eq!(status, 409, "{error}");
    assert_eq!(daemon.tables(), before);
    let again = daemon.acquire(workspace.path(), "web", json!({}));
    assert!(is_id(again["leaseId"].as_str().unwrap_or_default()) && again["leaseId"] != lease["leaseId"]);
}

#[test]
fn what_contradicts_a_claim_leaves_it_as_it_was() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let lease = daemon.acquire(workspace.path(), "web", json!({"mode": "sticky"}));
    let before = daemon.tables();
    let refused = |body: Value, status: u16, reason: (&str, Value)| {
        let (got, error) = daemon.refused("POST", "/v1/leases/acquire", Some(body));
        assert_eq!(got, status, "{error}");
        assert_eq!(error["details"][reason.0], reason.1, "{error}");
    };
    let of = |component: &str, allocation: Value| acquire(workspace.path(), component, allocation);
    refused(of("web", json!({"mode": "ephemeral"})), 409, ("mode", json!("sticky")));
    refused(of("web", json!({})), 409, ("reason", json!("claim_pending")));
    let port = lease["port"].clone();
    refused(
        of("api", json!({"exactPort": port})),
        409,
        ("insteadOf", taken_by(workspace.path(), &lease, &daemon)),
    );
    assert_eq!(daemon.tables(), before, "a refused exact port leaves no claim behind");
}

fn taken_by(workspace: &Path, lease: &Value, daemon: &Daemon) -> Value {
    let claim = daemon.get(&format!("/v1/claims/{}", lease["claimId"].as_str().expect("an id")));
    json!({
        "port": lease["port"],
        "reason": "leased",
        "holder": {
            "workspaceRoot": workspace.canonicalize().expect("it is there"),
            "component": "web",
            "since": claim["updatedAt"],
            "sameWorkspace": true,
        },
    })
}
