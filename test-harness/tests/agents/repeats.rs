//! What is repeated does nothing twice, and what another bridge holds or left behind is told and given out.

use crate::support::{abandon, confirm, house, house_with, port};
use portreeve_test_harness::host::Host;
use portreeve_test_harness::machine::{Server, until};
use rustix::process::Signal;
use serde_json::{Value, json};

#[test]
fn an_acquire_again_gives_the_same_lease_and_handle() {
    let house = house();
    let mut host = house.host();
    let first = host.done("leases_acquire", house.claim("web"));
    for _ in 0..3 {
        let again = host.done("leases_acquire", house.claim("web"));
        assert_eq!(again["changed"], false);
        for field in ["state", "leaseId", "credentialHandle", "claimId", "port", "custodyEndsAt"] {
            assert_eq!(again[field], first[field], "{field}");
        }
    }
    let mut exact = house.claim("web");
    exact["exactPort"] = (port(&first) - 1).into();
    let refused = host.fails("resolve.conflict", "leases_acquire", exact);
    assert_eq!(refused["outcome"], "not_applied");
    assert_eq!(host.done("diagnostics_get", json!({}))["bridge"]["credentialsHeld"], 1);
    assert_eq!(house.events("lease.acquired", &first["leaseId"]).len(), 1, "one lease was made");
}

#[test]
fn the_same_directory_by_another_name_is_the_same_claim() {
    let house = house();
    let mut host = house.host();
    let first = host.done("leases_acquire", house.claim("web"));
    let link = house.worktree.path().join("link");
    std::os::unix::fs::symlink(house.worktree.path(), &link).expect("a link can be made");
    let by_link = host.call("leases_acquire", crate::support::claim(&link, "web"));
    let by_link = by_link.unwrap_or_else(|record| panic!("refused: {record}"));
    assert_eq!((&by_link["leaseId"], &by_link["changed"]), (&first["leaseId"], &json!(false)));
}

#[test]
fn a_confirm_again_gives_the_recorded_run_and_another_transition_says_what_it_became() {
    let house = house();
    let mut host = house.host();
    let served = house.serve(&mut host, "web");
    let again = host.done("leases_confirm", confirm(&served.lease, served.server.pid()));
    assert_eq!(again["changed"], false);
    for field in ["runId", "port", "confirmedAt", "addresses", "leaseId"] {
        assert_eq!(again[field], served.run[field], "{field}");
    }
    let run = served.run["runId"].as_str().expect("an id");
    for (tool, arguments) in [
        ("leases_abandon", abandon(&served.lease, "client-cancelled")),
        ("leases_confirm", confirm(&served.lease, std::process::id())),
        (
            "leases_custody_extend",
            json!({"credentialHandle": served.lease["credentialHandle"], "custodyMinutes": 30}),
        ),
    ] {
        let refused = host.fails("custody.handle_settled", tool, arguments);
        assert_eq!(refused["details"]["settledBy"], "leases_confirm", "{tool}");
        assert!(refused["message"].as_str().expect("text").contains(run), "{tool}: {refused}");
        assert_eq!(refused["outcome"], "not_applied");
    }
    assert_eq!(house.events("lease.confirmed", &served.lease["leaseId"]).len(), 1);
    let running = host.done("leases_acquire", house.claim("web"));
    assert_eq!((&running["state"], &running["runId"]), (&json!("running"), &served.run["runId"]));
    assert_eq!((running.get("credentialHandle"), &running["listening"]), (None, &json!(true)));
    assert_eq!((&running["rootPid"], &running["changed"]), (&json!(served.server.pid()), &json!(false)));
}

#[test]
fn an_abandon_again_gives_the_recorded_result() {
    let house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    let first = host.done("leases_abandon", abandon(&lease, "startup-error"));
    assert_eq!(first["changed"], true);
    let again = host.done("leases_abandon", abandon(&lease, "startup-error"));
    assert_eq!((&again["changed"], &again["at"]), (&json!(false), &first["at"]));
    let other = host.fails("custody.handle_settled", "leases_confirm", confirm(&lease, std::process::id()));
    assert_eq!(other["details"]["settledBy"], "leases_abandon");
    assert_eq!(house.events("lease.abandoned", &lease["leaseId"]).len(), 1);
}

#[test]
fn a_release_again_changes_nothing() {
    let house = house();
    let mut host = house.host();
    let mut served = house.serve(&mut host, "web");
    served.server.kill();
    until("the daemon notices", || {
        (!house.events("run.released", &served.run["runId"]).is_empty()).then_some(())
    });
    for _ in 0..2 {
        let released = host.done("leases_release", json!({"runId": served.run["runId"]}));
        assert_eq!(released["changed"], false);
    }
    assert_eq!(house.events("run.released", &served.run["runId"]).len(), 1);
}

#[test]
fn a_failed_confirm_keeps_handle_and_lease_and_says_who_listens() {
    let house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    let early = host.fails("resolve.conflict", "leases_confirm", confirm(&lease, std::process::id()));
    assert_eq!(early["outcome"], "not_applied");
    let server = Server::listen("127.0.0.1", port(&lease), house.worktree.path());
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
    let wrong = host.call("leases_confirm", confirm(&lease, sleeper.id()));
    sleeper.kill().expect("it can be killed");
    sleeper.wait().expect("it ends");
    let wrong = wrong.expect_err("another process serves it");
    assert!(wrong.to_string().contains(&server.pid().to_string()), "{wrong}");
    let run = host.done("leases_confirm", confirm(&lease, server.pid()));
    assert_eq!(run["leaseId"], lease["leaseId"]);
}

/// A bridge that waits for a lease which another one holds; the conflict that it meets.
fn refused(host: &mut Host, arguments: &Value) -> Value {
    host.fails("resolve.conflict", "leases_acquire", arguments.clone())
}

#[test]
fn a_second_bridge_is_told_until_when_and_gets_the_port_of_a_killed_one_once_the_lease_is_over() {
    let house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let mut first = Host::with(house.socket(), &["--label", "first"]);
    let mut second = Host::with(house.socket(), &["--label", "second"]);
    let lease = first.done("leases_acquire", house.claim("web"));
    let conflict = refused(&mut second, &house.claim("web"));
    let until_when = conflict["details"]["expiresAt"].as_str().expect("a time").to_owned();
    assert_eq!((&conflict["retryable"], &conflict["outcome"]), (&json!("yes"), &json!("not_applied")));
    assert_eq!(conflict["details"]["port"], lease["port"]);
    let next = conflict["nextStep"]["text"].as_str().expect("text");
    assert!(next.contains(&until_when) && next.contains("wait"), "{next}");

    first.signal(Signal::KILL);
    first.exits();
    let got = until("the lease is over", || second.call("leases_acquire", house.claim("web")).ok());
    assert_eq!((&got["port"], &got["claimId"]), (&lease["port"], &lease["claimId"]));
    assert_ne!(got["leaseId"], lease["leaseId"]);
    let expired = house.events("lease.expired", &lease["leaseId"]);
    assert_eq!(expired.len(), 1, "history says that it ran out");
    assert!(house.events("lease.abandoned", &lease["leaseId"]).is_empty());
}

#[test]
fn a_bridge_that_ends_cleanly_frees_its_ports_at_once_and_history_says_whose_they_were() {
    let house = house();
    let mut first = Host::with(house.socket(), &["--label", "first"]);
    let mut second = Host::with(house.socket(), &["--label", "second"]);
    let run_id = first.done("diagnostics_get", json!({}))["bridge"]["runId"].clone();
    let lease = first.done("leases_acquire", house.claim("web"));
    let kept = house.serve(&mut first, "api");
    refused(&mut second, &house.claim("web"));
    first.hang_up();
    assert_eq!(first.exits().code(), Some(0));
    let got = second.done("leases_acquire", house.claim("web"));
    assert_eq!((&got["port"], &got["changed"]), (&lease["port"], &json!(true)));
    let given_back = house.events("lease.abandoned", &lease["leaseId"]);
    let [event] = given_back.as_slice() else { panic!("{given_back:?}") };
    assert_eq!(event["origin"], json!({"kind": "mcp", "runId": run_id, "label": "first"}));
    let running = second.done("leases_acquire", house.claim("api"));
    assert_eq!((&running["state"], &running["runId"]), (&json!("running"), &kept.run["runId"]));
}
