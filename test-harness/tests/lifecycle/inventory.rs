//! What a port is: the table of classifications, row by row, and what is said beside it.

use crate::actor::Actor;
use crate::support::{given, has_ipv6, house, pids, port, real, two_users};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn available_when_nothing_is_known() {
    let house = house();
    let wished = house.ports.wish(0);
    let entry = house.port(wished);
    assert_eq!(
        entry,
        json!({
            "port": wished, "transport": "tcp", "classification": "available", "claim": null, "lease": null,
            "run": null, "docker": null, "listeners": [], "evidence": {"complete": true, "notes": []},
            "holders": [],
        })
    );
    assert_eq!(house.get(&format!("/v1/ports?port={wished}")), json!([]), "and not listed");
}

#[test]
fn pending_with_and_without_a_listener() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let entry = house.port(port(&lease));
    assert_eq!((&entry["classification"], &entry["lease"]["id"]), (&json!("pending"), &lease["leaseId"]));
    assert_eq!(entry["claim"]["id"], lease["claimId"]);
    assert_eq!(entry["lease"].get("leaseToken"), None);
    let server = Actor::serve(house.worktree.path(), port(&lease));
    let entry = house.port(port(&lease));
    assert_eq!(entry["classification"], "pending");
    assert_eq!(pids(&entry["listeners"], "pid"), [u64::from(server.pid())]);
    assert_eq!(
        entry["listeners"][0]["ownership"],
        json!({"verified": false, "reason": "no-confirmed-run-evidence", "lineage": []})
    );
}

#[test]
fn verified_when_every_listener_is_the_runs() {
    let house = house();
    let served = house.served("web", json!({}));
    let entry = house.port(served.port());
    assert_eq!((&entry["classification"], &entry["lease"]), (&json!("verified"), &Value::Null));
    assert_eq!(entry["listeners"][0]["names"], json!([format!("127.0.0.1:{}", served.port())]));
    assert_eq!(entry["listeners"][0]["process"]["workingDirectory"], real(house.worktree.path()));
    assert_eq!(entry["evidence"], json!({"complete": true, "notes": []}));
}

#[test]
fn mixed_when_only_some_are() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{},reuseport", port(&lease));
    let server = Actor::start(house.worktree.path(), &[&listen]);
    house.confirm(&lease, server.pid());
    let stranger = Actor::start(Path::new("/"), &[&listen]);
    let entry = house.port(port(&lease));
    assert_eq!(entry["classification"], "mixed");
    let of = |pid: u32| {
        let all = entry["listeners"].as_array().expect("a list");
        all.iter().find(|l| l["pid"] == pid).map(|l| l["ownership"]["reason"].clone())
    };
    assert_eq!(of(server.pid()), Some(json!("verified")));
    assert_eq!(of(stranger.pid()), Some(json!("not-in-run-lineage")));
}

#[test]
fn conflicting_when_none_is_while_the_run_goes_on() {
    let house = house();
    let mut served = house.served("web", json!({}));
    served.server.tell("close");
    // Nothing listens, and the process lives.
    let entry = house.port(served.port());
    assert_eq!(
        (&entry["classification"], &entry["run"]["id"]),
        (&json!("conflicting"), &served.run["runId"])
    );
    let stranger = Actor::serve(Path::new("/"), served.port());
    let entry = house.port(served.port());
    assert_eq!(entry["classification"], "conflicting");
    assert_eq!(pids(&entry["listeners"], "pid"), [u64::from(stranger.pid())]);
}

#[test]
fn idle_and_conflicting_with_a_claim_that_nobody_serves() {
    let house = house();
    let mut served = house.served("web", json!({}));
    served.server.kill();
    house.event("run.released", &served.run["runId"]);
    let entry = house.port(served.port());
    assert_eq!((&entry["classification"], &entry["run"]), (&json!("idle"), &Value::Null));
    assert_eq!(entry["claim"]["id"], served.run["claimId"]);
    let _stranger = Actor::serve(Path::new("/"), served.port());
    assert_eq!(house.port(served.port())["classification"], "conflicting");
}

#[test]
fn unclaimed_with_a_listener_only() {
    let house = house();
    let wished = house.ports.wish(0);
    let server = Actor::serve(Path::new("/"), wished);
    let entry = house.port(wished);
    assert_eq!((&entry["classification"], &entry["claim"]), (&json!("unclaimed"), &Value::Null));
    assert_eq!(pids(&entry["listeners"], "pid"), [u64::from(server.pid())]);
    assert_eq!(entry["listeners"][0]["process"]["workingDirectory"], "/");
}

#[test]
fn a_client_owns_no_port() {
    let house = house();
    let wished = house.ports.wish(0);
    let server = Actor::serve(Path::new("/"), wished);
    let _client = std::net::TcpStream::connect(("127.0.0.1", wished)).expect("it listens");
    let entry = house.port(wished);
    assert_eq!(pids(&entry["listeners"], "pid"), [u64::from(server.pid())]);
}

#[test]
fn one_process_on_several_addresses_is_one_listener() {
    if !given("one_process_on_several_addresses_is_one_listener", "needs IPv6", has_ipv6()) {
        return;
    }
    let house = house();
    let wished = house.ports.wish(0);
    let steps = [&*format!("listen=::1,{wished}"), &*format!("listen=127.0.0.1,{wished}")];
    let server = Actor::start(Path::new("/"), &steps);
    let entry = house.port(wished);
    assert_eq!(pids(&entry["listeners"], "pid"), [u64::from(server.pid())]);
    let names = [format!("127.0.0.1:{wished}"), format!("[::1]:{wished}")];
    assert_eq!(entry["listeners"][0]["names"], json!(names));
    assert_eq!(entry["evidence"]["notes"], json!([]));
}

#[test]
fn a_listener_that_localhost_reaches_by_ipv6_only_is_noted() {
    if !given("a_listener_that_localhost_reaches_by_ipv6_only_is_noted", "needs IPv6", has_ipv6()) {
        return;
    }
    let house = house();
    let (only, both) = (house.ports.wish(0), house.ports.wish(1));
    let steps = [&*format!("listen=::,{only},v6only"), &*format!("listen=::,{both}")];
    let _server = Actor::start(Path::new("/"), &steps);
    assert_eq!(house.port(only)["evidence"], json!({"complete": true, "notes": ["other-family"]}));
    assert_eq!(house.port(both)["evidence"], json!({"complete": true, "notes": []}));
}

#[test]
fn one_odd_process_spoils_nothing() {
    let house = house();
    let mut actors = Vec::new();
    // No name, brackets and blanks, a line's end, no UTF-8.
    for (n, name) in ["00", "2920282929", "610a62", "fffe80"].into_iter().enumerate() {
        let wished = house.ports.wish(u16::try_from(n).expect("small"));
        let listen = format!("listen=127.0.0.1,{wished}");
        let actor = Actor::start(Path::new("/"), &[&listen, &format!("name={name}")]);
        let entry = house.port(wished);
        assert_eq!(pids(&entry["listeners"], "pid"), [u64::from(actor.pid())], "{entry}");
        assert!(entry["listeners"][0]["command"].is_string(), "{entry}");
        actors.push((wished, actor));
    }
    let list = house.get("/v1/ports?classification=unclaimed");
    for (wished, actor) in &actors {
        let entry = list.as_array().expect("a list").iter().find(|entry| entry["port"] == *wished);
        let entry = entry.unwrap_or_else(|| panic!("{wished} is not listed"));
        assert_eq!(pids(&entry["listeners"], "pid"), [u64::from(actor.pid())]);
    }
    // It can be confirmed, too, and told as a holder.
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    let server = Actor::start(house.worktree.path(), &[&listen, "name=00"]);
    house.confirm(&lease, server.pid());
    let told = house.lease("api", json!({"preferredPort": actors[2].0}));
    assert_eq!(told["insteadOf"]["holder"]["pid"], actors[2].1.pid(), "{told}");
}

#[test]
fn another_users_listener_is_there_and_not_complete() {
    if !given("another_users_listener_is_there_and_not_complete", "needs PORTREEVE_TEST_UID", two_users()) {
        return;
    }
    let house = house();
    let wished = house.ports.wish(0);
    let _foreign = Actor::start_as_us(Path::new("/"), &[&format!("listen=127.0.0.1,{wished}")]);
    let uid = rustix::process::geteuid().as_raw();
    let entry = house.port(wished);
    assert_eq!((&entry["classification"], &entry["listeners"]), (&json!("unclaimed"), &json!([])), "{entry}");
    assert_eq!(
        entry["holders"],
        json!([{"name": format!("127.0.0.1:{wished}"), "uid": uid, "note": "holder-not-observable"}])
    );
    assert_eq!(entry["evidence"], json!({"complete": false, "notes": ["holder-not-observable"]}));
    let list = house.get("/v1/ports?listening=true");
    assert!(list.as_array().expect("a list").contains(&entry), "{list}");
}

#[test]
fn no_look_at_ports_writes_anything() {
    let house = house();
    let mut served = house.served("web", json!({}));
    house.lease("api", json!({}));
    served.server.tell("close");
    let before = house.tables();
    house.get("/v1/ports");
    house.port(served.port());
    house.get("/v1/claims");
    assert_eq!(house.tables(), before);
}
