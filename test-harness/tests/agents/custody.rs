//! Handles and what they stand for: renewed, bounded, and good in their own bridge only.

use crate::support::{abandon, confirm, house, house_with, port};
use portreeve_test_harness::machine::{Server, until};
use rustix::process::Signal;
use serde_json::{Value, json};

#[test]
fn a_pending_lease_outlives_its_lease_time_under_renewal() {
    let house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    let target = format!("/v1/ports/{}", lease["port"]);
    let mut ends = vec![lease["expiresAt"].as_str().expect("a time").to_owned()];
    until("the lease was renewed eight times", || {
        let entry = house.get(&target);
        assert_eq!(entry["lease"]["id"], lease["leaseId"], "it never lapses: {entry}");
        let end = entry["lease"]["expiresAt"].as_str().expect("a time");
        if ends.last().is_some_and(|last| last != end) {
            ends.push(end.to_owned());
        }
        (ends.len() > 8).then_some(())
    });
    assert!(ends.is_sorted());
    let server = Server::listen("127.0.0.1", port(&lease), house.worktree.path());
    let run = host.done("leases_confirm", confirm(&lease, server.pid()));
    assert_eq!(run["leaseId"], lease["leaseId"]);
    assert!(house.events("lease.expired", &lease["leaseId"]).is_empty());
}

#[test]
fn a_bridge_that_slept_past_the_lease_time_finds_its_lease_or_says_that_it_is_gone() {
    let house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    host.signal(Signal::STOP);
    until("the lease ran out", || {
        (!house.events("lease.expired", &lease["leaseId"]).is_empty()).then_some(())
    });
    host.signal(Signal::CONT);
    let gone = host.call("leases_confirm", confirm(&lease, std::process::id())).expect_err("it is over");
    let class = gone["class"].as_str().expect("a class");
    assert!(["custody.renewal_failed", "lease.expired", "lease.not_pending"].contains(&class), "{gone}");
    let again = host.done("leases_acquire", house.claim("web"));
    assert_eq!((&again["port"], &again["changed"]), (&lease["port"], &json!(true)));
    assert_ne!(again["credentialHandle"], lease["credentialHandle"]);
}

#[test]
fn custody_is_extended_within_its_bounds_and_never_shortened() {
    let house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    let arguments =
        |minutes: Value| json!({"credentialHandle": lease["credentialHandle"], "custodyMinutes": minutes});
    for (minutes, code) in [(json!(9), "too_small"), (json!(61), "too_big"), (json!(-1), "too_small")] {
        let refused = host.fails("bridge.invalid_arguments", "leases_custody_extend", arguments(minutes));
        assert_eq!(refused["details"]["issues"][0]["code"], code);
        assert_eq!(refused["details"]["issues"][0]["path"], json!(["custodyMinutes"]));
    }
    let ends = |answer: &Value| answer["custodyEndsAt"].as_str().expect("a time").to_owned();
    let same = host.done("leases_custody_extend", arguments(json!(10)));
    assert_eq!((&same["changed"], &same["custodyEndsAt"]), (&json!(false), &lease["custodyEndsAt"]));
    let longer = host.done("leases_custody_extend", arguments(json!(60)));
    assert_eq!(longer["changed"], true);
    assert!(ends(&longer) > ends(&lease));
    let shorter = host.done("leases_custody_extend", arguments(json!(20)));
    assert_eq!((&shorter["changed"], ends(&shorter)), (&json!(false), ends(&longer)));
    let again = host.done("leases_acquire", house.claim("web"));
    assert_eq!(ends(&again), ends(&longer), "a repeated acquire keeps the extension");
}

#[test]
fn another_bridges_handle_means_nothing() {
    let house = house();
    let (mut own, mut other) = (house.host(), house.host());
    let lease = own.done("leases_acquire", house.claim("web"));
    for (tool, arguments) in [
        ("leases_confirm", confirm(&lease, std::process::id())),
        ("leases_abandon", abandon(&lease, "client-cancelled")),
        (
            "leases_custody_extend",
            json!({"credentialHandle": lease["credentialHandle"], "custodyMinutes": 20}),
        ),
    ] {
        let refused = other.fails("custody.handle_unknown", tool, arguments);
        assert_eq!((&refused["outcome"], &refused["retryable"]), (&json!("not_started"), &json!("no")));
    }
    let entry = house.get(&format!("/v1/ports/{}", lease["port"]));
    assert_eq!(entry["lease"]["id"], lease["leaseId"], "nothing happened to it");
    own.done("leases_abandon", abandon(&lease, "client-cancelled"));
}

#[test]
fn a_handle_dies_with_its_bridge() {
    let house = house();
    let mut first = house.host();
    let lease = first.done("leases_acquire", house.claim("web"));
    first.hang_up();
    first.exits();
    let mut second = house.host();
    second.fails("custody.handle_unknown", "leases_confirm", confirm(&lease, std::process::id()));
}

#[test]
fn a_lease_that_was_ended_behind_the_bridges_back_is_told_as_gone() {
    let house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    let path = house.home().join(portreeve_daemon::store::FILE_NAME);
    let conn = rusqlite::Connection::open(path).expect("the store can be opened");
    conn.busy_timeout(std::time::Duration::from_secs(5)).expect("a timeout");
    conn.execute("UPDATE lease SET state = 'abandoned'", ()).expect("it can be changed");
    drop(conn);
    let gone = host.call("leases_confirm", confirm(&lease, std::process::id())).expect_err("it is over");
    assert_eq!(gone["class"], "lease.not_pending", "{gone}");
    assert_eq!(host.done("diagnostics_get", json!({}))["bridge"]["credentialsHeld"], 0);
    let later = host.fails("custody.renewal_failed", "leases_confirm", confirm(&lease, std::process::id()));
    assert_eq!(later["details"]["cause"], "lease.not_pending");
}
