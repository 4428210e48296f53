//! Replies that get lost and daemons that stand still: the same call again finds out, and does nothing twice.

use crate::support::{abandon, confirm, house, port};
use portreeve_test_harness::host::Host;
use portreeve_test_harness::machine::{Server, until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Calls until the daemon answers; it may be met dead or half started.
fn at_last(host: &mut Host, tool: &str, arguments: &Value) -> Value {
    until("the daemon answers again", || host.call(tool, arguments.clone()).ok())
}

#[test]
fn a_daemon_killed_between_the_calls_costs_nothing() {
    let mut house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    house.replace();
    let again = at_last(&mut host, "leases_acquire", &house.claim("web"));
    for field in ["leaseId", "credentialHandle", "port"] {
        assert_eq!(again[field], lease[field], "{field}");
    }
    assert_eq!(again["changed"], false);
    let mut server = Server::listen("127.0.0.1", port(&lease), house.worktree.path());
    house.replace();
    let run = at_last(&mut host, "leases_confirm", &confirm(&lease, server.pid()));
    assert_eq!(run["leaseId"], lease["leaseId"]);
    house.replace();
    let seen = at_last(&mut host, "ports_get", &json!({"port": lease["port"]}));
    assert_eq!((&seen["classification"], &seen["run"]["id"]), (&json!("verified"), &run["runId"]));
    server.kill();
    house.replace();
    let released = at_last(&mut host, "leases_release", &json!({"runId": run["runId"]}));
    assert!(released["changed"].is_boolean());
    assert_eq!(house.events("run.released", &run["runId"]).len(), 1);
    for (kind, id) in [("lease.acquired", &lease["leaseId"]), ("lease.confirmed", &lease["leaseId"])] {
        assert_eq!(house.events(kind, id).len(), 1, "{kind}");
    }
}

#[test]
fn an_abandon_whose_daemon_is_killed_can_be_repeated() {
    let mut house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    house.daemon.kill();
    let away = host.call("leases_abandon", abandon(&lease, "startup-error")).expect_err("nobody is there");
    assert_ne!(away["retryable"], "no", "{away}");
    house.start_again();
    let given = at_last(&mut host, "leases_abandon", &abandon(&lease, "startup-error"));
    assert_eq!(given["changed"], true);
    assert_eq!(house.events("lease.abandoned", &lease["leaseId"]).len(), 1);
}

#[test]
fn a_lost_acquire_gives_its_lease_when_it_is_repeated() {
    let mut house = house();
    let mut host = house.host();
    host.done("diagnostics_health_get", json!({}));
    let stopped = house.stopped();
    let call = host.begin_call("leases_acquire", house.claim("web"));
    // Whatever of it has come to the daemon is lost with the daemon.
    drop(stopped);
    house.daemon.kill();
    let first = host.end(call);
    house.start_again();
    let lease = at_last(&mut host, "leases_acquire", &house.claim("web"));
    assert_eq!(house.events("lease.acquired", &lease["leaseId"]).len(), 1);
    let leases = house.tables()["lease"].as_array().map(Vec::len);
    assert_eq!(leases, Some(1), "one lease whatever became of the first call: {first:?}");
}

#[test]
fn a_stopped_daemon_is_answered_for_at_the_deadline_and_the_next_call_works() {
    let house = house();
    let mut host = house.host();
    host.done("diagnostics_health_get", json!({}));
    let stopped = house.stopped();
    let begun = Instant::now();
    let calls = [
        host.begin_call("ports_get", json!({"port": 3000})),
        host.begin_call("leases_acquire", house.claim("web")),
        host.begin_call("claims_list", json!({})),
    ];
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!((&told["daemon"]["reachable"], &told["daemon"]["reason"]), (&json!(false), &json!("timeout")));
    assert!(begun.elapsed() < Duration::from_secs(5), "diagnosing waits for a short while only");
    for call in calls {
        let record = host.end(call).expect_err("the daemon stands still");
        assert_eq!(record["class"], "socket.deadline", "{record}");
        assert!(record["outcome"] == "unknown" || record["outcome"] == "not_started", "{record}");
        assert_eq!(record["retryable"], "yes");
    }
    let waited = begun.elapsed();
    assert!((Duration::from_secs(19)..Duration::from_secs(30)).contains(&waited), "{waited:?}");
    drop(stopped);
    let lease = host.done("leases_acquire", house.claim("web"));
    assert_eq!(house.events("lease.acquired", &lease["leaseId"]).len(), 1);
    host.done("leases_abandon", abandon(&lease, "client-cancelled"));
}

#[test]
fn a_call_to_a_stopped_daemon_ends_well_once_it_goes_on() {
    let house = house();
    let mut host = house.host();
    let stopped = house.stopped();
    let call = host.begin_call("leases_acquire", house.claim("web"));
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!(told["daemon"]["reachable"], false);
    drop(stopped);
    let lease = host.end(call).expect("it was only late");
    assert_eq!(lease["changed"], true);
}

#[test]
fn a_cancelled_call_is_not_answered_and_frees_what_it_held() {
    let house = house();
    let mut host = house.host();
    let stopped = house.stopped();
    let call = host.begin_call("ports_get", json!({"port": 3000}));
    host.cancel(call);
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!(told["recentFailures"][0]["class"], "stdio.request_cancelled", "{told}");
    drop(stopped);
    host.done("ports_get", json!({"port": 3000}));
    host.hang_up();
    assert!(host.rest().is_empty(), "what was taken back is not answered");
}
