//! What already runs, or is just starting, is an answer; what contradicts the claim comes before that.

use crate::actor::Actor;
use crate::support::{house, house_with, of, port, token, with};
use portreeve_test_harness::machine::{Daemon, until};
use serde_json::{Value, json};

#[test]
fn a_living_run_is_the_answer_for_those_who_know_it_as_one() {
    let house = house();
    let served = house.served("web", json!({}));
    let answer = house.ask_running("web", json!({}));
    assert_eq!(
        answer,
        json!({
            "claimId": served.run["claimId"], "port": served.port(), "state": "running", "changed": false,
            "runId": served.run["runId"], "since": served.run["confirmedAt"], "listening": true,
            "rootPid": served.server.pid(),
        })
    );
    let error = house.no_lease("web", json!({}));
    assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(false)));
    assert_eq!(
        error["details"],
        json!({"claimId": served.run["claimId"], "runId": served.run["runId"], "port": served.port()})
    );
}

#[test]
fn a_living_run_that_does_not_listen_says_so() {
    let house = house();
    let mut served = house.served("web", json!({}));
    served.server.tell("close");
    let answer = house.ask_running("web", json!({}));
    assert_eq!((&answer["state"], &answer["listening"]), (&json!("running"), &json!(false)), "{answer}");
    // A stranger on the port is not the run listening again.
    let _stranger = Actor::serve(std::path::Path::new("/"), served.port());
    let answer = house.ask_running("web", json!({}));
    assert_eq!(answer["listening"], false, "{answer}");
    assert_eq!(house.port(served.port())["classification"], "conflicting");
}

#[test]
fn the_same_token_asks_for_the_same_lease() {
    let house = house();
    let token = token();
    let first = house.lease_by("web", json!({}), &token);
    assert_eq!((&first["state"], &first["changed"]), (&json!("pending"), &json!(true)));
    let again = house.lease_by("web", json!({}), &token);
    assert_eq!((&again["state"], &again["changed"]), (&json!("pending"), &json!(false)));
    for field in ["leaseId", "leaseToken", "port", "expiresAt", "claimId"] {
        assert_eq!(first[field], again[field], "{field}");
    }
    assert_eq!(house.events("lease.acquired").len(), 1);
    // Renewed meanwhile, it answers the new end.
    let renewed = house.post(&of(&first, "renew"), with(&first, json!({})));
    let again = house.lease_by("web", json!({}), &token);
    assert_eq!(again["expiresAt"], renewed["expiresAt"]);
}

#[test]
fn somebody_elses_pending_lease_is_a_conflict_that_ends() {
    let house = house();
    let first = house.lease("web", json!({}));
    let body = house.bringing("web", json!({}), &token());
    let (status, error) = house.refused("POST", "/v1/leases/acquire", Some(body));
    assert_eq!((status, &error["code"], &error["retryable"]), (409, &json!("conflict"), &json!(true)));
    assert_eq!(error["details"]["reason"], "claim_pending");
    for field in ["claimId", "expiresAt", "port"] {
        assert_eq!(error["details"][field], first[field], "{field}: {error}");
    }
    let error = house.no_lease("web", json!({}));
    assert_eq!(error["details"], json!({"claimId": first["claimId"], "reason": "claim_pending"}));
}

#[test]
fn conflicts_of_mode_and_exact_port_come_before_what_runs() {
    let house = house();
    let served = house.served("web", json!({}));
    let other = house.ports.wish(3);
    for (allocation, details) in [
        (json!({"mode": "ephemeral"}), json!({"claimId": served.run["claimId"], "mode": "sticky"})),
        (
            json!({"exactPort": other}),
            json!({"claimId": served.run["claimId"], "assignedPort": served.port()}),
        ),
    ] {
        let body = house.bringing("web", allocation, &token());
        let (_, error) = house.refused("POST", "/v1/leases/acquire", Some(body));
        assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(false)));
        assert_eq!(error["details"], details);
    }
    assert_eq!(house.ask_running("web", json!({"exactPort": served.port()}))["state"], "running");
}

#[test]
fn an_own_pending_lease_is_no_answer_to_another_exact_port() {
    let house = house();
    let token = token();
    let lease = house.lease_by("web", json!({}), &token);
    let body = house.bringing("web", json!({"exactPort": house.ports.wish(1)}), &token);
    let (_, error) = house.refused("POST", "/v1/leases/acquire", Some(body));
    assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(false)), "{error}");
    assert_eq!(error["details"]["port"], lease["port"]);
    let same = house.lease_by("web", json!({"exactPort": lease["port"]}), &token);
    assert_eq!(same["leaseId"], lease["leaseId"]);
}

#[test]
fn a_refused_exact_port_leaves_nothing_behind() {
    let house = house();
    let wished = house.ports.wish(0);
    let stranger = Actor::serve(std::path::Path::new("/"), wished);
    let before = house.tables();
    let error = house.no_lease("web", json!({"exactPort": wished}));
    assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(true)), "{error}");
    assert_eq!(error["details"]["port"], wished);
    assert_eq!(error["details"]["insteadOf"]["holder"]["pid"], stranger.pid(), "{error}");
    assert_eq!(house.tables(), before);
    assert_eq!(house.get("/v1/claims"), json!([]));
    // Taken by a claim: waiting doesn't help.
    let served = house.served("api", json!({}));
    let error = house.no_lease("web", json!({"exactPort": served.port()}));
    assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(false)), "{error}");
    assert_eq!(house.get("/v1/claims").as_array().map(Vec::len), Some(1));
}

#[test]
fn a_port_is_kept_across_servers_and_daemons() {
    let mut house = house();
    let mut served = house.served("web", json!({}));
    let had = served.port();
    served.server.kill();
    house.event("run.released", &served.run["runId"]);
    // Somebody else asks in between, and gets another one.
    assert_ne!(port(&house.lease("api", json!({}))), had);
    house.daemon.kill();
    let again = Daemon::start_in(house.daemon.home());
    let lease = again.acquire(house.worktree.path(), "web", json!({}));
    assert_eq!((&lease["port"], &lease["reusedAssignment"]), (&json!(had), &json!(true)), "{lease}");
}

#[test]
fn the_preferred_port_is_gone_back_to_once_it_is_free() {
    let house = house();
    let wished = house.ports.wish(0);
    let mut stranger = Actor::serve(std::path::Path::new("/"), wished);
    let mut served = house.served("web", json!({"preferredPort": wished}));
    assert_ne!(served.port(), wished);
    served.server.kill();
    house.event("run.released", &served.run["runId"]);
    // Not free yet: the port of last time, and why.
    let lease = house.lease("web", json!({}));
    assert_eq!((port(&lease), &lease["insteadOf"]["port"]), (served.port(), &json!(wished)), "{lease}");
    house.abandon(&lease, "client-cancelled");
    stranger.kill();
    let lease = house.lease("web", json!({}));
    assert_eq!((port(&lease), lease.get("insteadOf")), (wished, None));
}

#[test]
fn an_ephemeral_port_is_given_back_some_time_after_its_last_use() {
    let house = house_with(json!({"ephemeralAssignmentTtlMilliseconds": 1000}));
    let mut served = house.served("web", json!({"mode": "ephemeral"}));
    let claim = |house: &crate::support::House| {
        house.get(&format!("/v1/claims/{}", served.run["claimId"].as_str().expect("an id")))
    };
    // While it is served its time doesn't run out: it does for the one that is released now.
    let other = house.served("api", json!({"mode": "ephemeral"}));
    let released = format!("/v1/runs/{}/release", other.run["runId"].as_str().expect("an id"));
    house.post(&released, json!({}));
    let gone = house.event("claim.ephemeral_assignment_expired", &other.run["claimId"]);
    assert_eq!(gone["payload"], json!({"port": other.port()}));
    assert_eq!(claim(&house)["assignedPort"], served.port());
    assert_eq!(house.events("claim.ephemeral_assignment_expired").len(), 1);
    // Nor while it is leased, the lease being longer than the assignment.
    served.server.kill();
    house.event("run.released", &served.run["runId"]);
    let lease = house.lease("web", json!({"mode": "ephemeral"}));
    assert_eq!(lease["port"], served.port());
    until("more than its time has passed", || (crate::support::age(&house, &lease) > 1500).then_some(()));
    assert_eq!(claim(&house)["assignedPort"], served.port());
    house.abandon(&lease, "client-cancelled");
    house.event("claim.ephemeral_assignment_expired", &served.run["claimId"]);
    assert_eq!(claim(&house)["assignedPort"], Value::Null);
    let fresh = house.lease("worker", json!({}));
    assert_eq!(port(&fresh), house.ports.start, "the ports are free again");
}
