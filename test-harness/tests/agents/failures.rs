//! Failures as agents read them, by bridges that advertise all tools and by bridges that advertise few.
//!
//! That text and record are complete and agree, and that a next step names no tool which isn't advertised, the host
//! checks of each failure; here they are brought about.

use crate::support::{confirm, house};
use portreeve_test_harness::host::Host;
use portreeve_test_harness::machine::{Server, worktree};
use serde_json::{Value, json};

const NOBODY: &str = "0198c0de-0000-7000-8000-000000000000";

/// Whatever a bridge with the tools of leases can be refused.
fn meet_failures(host: &mut Host, house: &crate::support::House) -> Vec<Value> {
    let mut met = Vec::new();
    let mut meet = |host: &mut Host, tool: &str, arguments: Value| {
        if host.tools.contains_key(tool) {
            met.push(host.call(tool, arguments.clone()).expect_err(&format!("{tool} {arguments}")));
        }
    };
    let lease = host.done("leases_acquire", house.claim("web"));
    meet(host, "leases_confirm", confirm(&lease, std::process::id()));
    meet(host, "leases_confirm", confirm(&lease, 2_147_483_647));
    let mut exact = house.claim("web");
    exact["exactPort"] = (lease["port"].as_u64().expect("a port") - 1).into();
    meet(host, "leases_acquire", exact);
    let other = worktree();
    let mut taken = crate::support::claim(other.path(), "web");
    taken["exactPort"] = lease["port"].clone();
    meet(host, "leases_acquire", taken);
    let stranger = Server::listen("127.0.0.1", portreeve_test_harness::machine::free_port(), other.path());
    let served = house.serve(host, "api");
    meet(host, "leases_release", json!({"runId": served.run["runId"]}));
    meet(host, "leases_confirm", confirm(&lease, stranger.pid()));
    let mut mode = house.claim("web");
    mode["mode"] = "ephemeral".into();
    meet(host, "leases_acquire", mode);
    let mut privileged = house.claim("priv");
    privileged["exactPort"] = json!(lease["port"]);
    meet(host, "leases_acquire", privileged);
    meet(host, "leases_confirm", json!({"credentialHandle": "cred_nobody", "rootPid": 1}));
    meet(host, "leases_abandon", json!({"credentialHandle": "cred_nobody", "reason": "whatever"}));
    meet(host, "claims_get", json!({"claimId": NOBODY}));
    meet(host, "history_list", json!({"afterCursor": "nonsense"}));
    meet(host, "claims_list", json!({"afterCursor": "nonsense"}));
    meet(host, "ports_list", json!({"limit": 201}));
    met
}

#[test]
fn every_failure_reads_the_same_in_text_and_record_with_all_tools() {
    let house = house();
    let met = meet_failures(&mut house.host(), &house);
    assert_eq!(met.len(), 14, "{met:?}");
    let named = met.iter().filter(|record| record["nextStep"]["tool"].is_string()).count();
    assert!(named >= 5, "next steps name tools: {named}");
}

#[test]
fn with_core_tools_the_next_step_names_none_that_is_missing() {
    let house = house();
    let mut host = Host::with(house.socket(), &["--tools", "core"]);
    assert!(!host.tools.contains_key("claims_get") && host.tools.contains_key("leases_acquire"));
    let met = meet_failures(&mut host, &house);
    assert_eq!(met.len(), 12, "{met:?}");
}

#[test]
fn with_history_alone_next_steps_are_commands() {
    let mut house = house();
    let mut host = Host::with(house.socket(), &["--tools", "history"]);
    let bad = host.fails("bridge.invalid_arguments", "history_list", json!({"limit": 0}));
    assert_eq!(bad["nextStep"].get("tool"), None);
    house.daemon.kill();
    let away = host.call("history_list", json!({})).expect_err("nobody is there");
    assert_eq!(away["nextStep"]["command"], "portreeve serve", "{away}");
    house.start_again();
    host.done("history_list", json!({}));
}

#[test]
fn with_claims_alone_a_missing_claim_names_its_own_list() {
    let house = house();
    let mut claims = Host::with(house.socket(), &["--tools", "claims"]);
    let missing = claims.fails("resolve.not_found", "claims_get", json!({"claimId": NOBODY}));
    assert_eq!(missing["nextStep"]["tool"], "claims_list", "{missing}");
    assert!(missing["nextStep"]["command"].as_str().is_some_and(|command| command.starts_with("portreeve ")));
}

#[test]
fn a_failure_can_be_found_again_by_its_request_id() {
    let house = house();
    let mut host = house.host();
    let missing = host.fails("resolve.not_found", "claims_get", json!({"claimId": NOBODY}));
    let told = host.done("diagnostics_get", json!({}));
    let last = &told["recentFailures"][0];
    assert_eq!((&last["requestId"], &last["class"]), (&missing["requestId"], &missing["class"]));
    assert_eq!(last["tool"], "claims_get");
}

#[test]
fn an_agents_own_worktree_is_named_as_such() {
    let house = house();
    let mut host = house.host();
    let served = house.serve(&mut host, "web");
    let mut wish = house.claim("api");
    wish["exactPort"] = served.lease["port"].clone();
    let refused = host.fails("resolve.conflict", "leases_acquire", wish);
    assert_eq!(refused["details"]["insteadOf"]["holder"]["sameWorkspace"], true, "{refused}");
    let step = refused["nextStep"]["text"].as_str().expect("text");
    assert!(step.contains("another component"), "{step}");
}
