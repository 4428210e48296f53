//! Whoever gets another port than the one asked for is told why, and who has that one: one case a reason.

use crate::actor::Actor;
use crate::isolation::Inside;
use crate::support::{
    House, daemon_is_root, given, has, house, house_with, is_root, port, real, token, two_users,
};
use portreeve_test_harness::machine::{self, Daemon};
use serde_json::{Value, json};

/// Asks for `wished` and gets another port, for this reason.
#[track_caller]
fn instead(house: &House, component: &str, wished: u16, reason: &str) -> Value {
    let lease = house.lease_by(component, json!({"preferredPort": wished}), &token());
    let told = lease["insteadOf"].clone();
    assert_ne!(port(&lease), wished, "{lease}");
    assert_eq!(told["port"], wished, "{lease}");
    assert_eq!(told["reason"], reason, "{lease}");
    told
}

#[test]
fn assigned_to_another_worktrees_component() {
    let house = house();
    let wished = house.ports.wish(0);
    let other = machine::worktree();
    let lease = house.acquire(other.path(), "web", json!({"preferredPort": wished}));
    let mut server = Actor::serve(other.path(), wished);
    let run = house.confirm(&lease, server.pid());
    let holder = instead(&house, "web", wished, "assigned")["holder"].clone();
    assert_eq!(holder["workspaceRoot"], real(other.path()));
    assert_eq!(holder["component"], "web");
    assert_eq!(holder["pid"], server.pid());
    assert!(holder["command"].as_str().is_some_and(|name| name.starts_with("python3")), "{holder}");
    assert_eq!(holder["since"], run["confirmedAt"]);
    assert_eq!(holder["sameWorkspace"], false);
    // The claim keeps its port while nothing runs.
    server.kill();
    house.event("run.released", &run["runId"]);
    let holder = instead(&house, "api", wished, "assigned")["holder"].clone();
    assert_eq!(holder["pid"], Value::Null);
    assert_eq!(holder["component"], "web");
}

#[test]
fn leased_to_another_component_of_the_same_worktree() {
    let house = house();
    let wished = house.ports.wish(0);
    house.lease("web", json!({"preferredPort": wished}));
    let holder = instead(&house, "api", wished, "leased")["holder"].clone();
    assert_eq!(holder["workspaceRoot"], real(house.worktree.path()));
    assert_eq!(holder["component"], "web");
    assert_eq!(holder["sameWorkspace"], true);
    assert!(holder["since"].is_string());
}

#[test]
fn a_stranger_listens() {
    let house = house();
    let wished = house.ports.wish(0);
    let elsewhere = machine::worktree();
    let stranger = Actor::serve(elsewhere.path(), wished);
    let holder = instead(&house, "web", wished, "listening")["holder"].clone();
    assert_eq!(holder["workspaceRoot"], real(elsewhere.path()));
    assert_eq!(holder["component"], Value::Null);
    assert_eq!(holder["pid"], stranger.pid());
    assert!(holder["command"].as_str().is_some_and(|name| name.starts_with("python3")), "{holder}");
    assert!(holder["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{holder}");
    assert_eq!(holder["sameWorkspace"], false);
    // One that was started by hand in this very worktree.
    let wished = house.ports.wish(1);
    let own = Actor::serve(&house.worktree.path().join("src"), wished);
    let holder = instead(&house, "api", wished, "listening")["holder"].clone();
    assert_eq!(holder["pid"], own.pid());
    assert_eq!(holder["sameWorkspace"], true);
}

#[test]
fn a_stranger_listens_on_the_port_that_the_claim_had() {
    let house = house();
    let wished = house.ports.wish(0);
    let mut served = house.served("web", json!({"preferredPort": wished}));
    served.server.kill();
    house.event("run.released", &served.run["runId"]);
    let elsewhere = machine::worktree();
    let stranger = Actor::serve(elsewhere.path(), wished);
    // Whose it is: the stranger's, not the asking claim's own.
    let lease = house.lease("web", json!({}));
    let told = &lease["insteadOf"];
    assert_eq!((&told["port"], &told["reason"]), (&json!(wished), &json!("listening")), "{lease}");
    assert_eq!(told["holder"]["pid"], stranger.pid());
    assert_eq!(told["holder"]["workspaceRoot"], real(elsewhere.path()));
    assert_eq!(told["holder"]["sameWorkspace"], false);
    assert_eq!(told["holder"]["component"], Value::Null);
}

#[test]
fn held_by_somebody_who_is_not_seen() {
    let house = house();
    let wished = house.ports.wish(0);
    // Bound and not listening: in no table of listeners, and yet nobody can have it.
    let _holder = Actor::start(house.worktree.path(), &[&format!("bind=127.0.0.1,{wished}")]);
    let told = instead(&house, "web", wished, "held-unseen");
    assert_eq!(told.get("holder"), None, "{told}");
}

#[test]
fn forwarded_elsewhere() {
    const NAME: &str = "forwarded_elsewhere";
    if !given(NAME, "needs root and iptables", is_root() && has("iptables")) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temp dir");
    machine::give(directory.path());
    let worktree = machine::worktree();
    let (wished, target) = (13_010, 13_011);
    let script = format!(
        "ip link set lo up && iptables -t nat -A OUTPUT -p tcp -d 127.0.0.1 --dport {wished} \
         -j REDIRECT --to-ports {target}"
    );
    let Some(inside) = Inside::network(&script) else {
        given(NAME, "needs network namespaces with NAT", false);
        return;
    };
    let daemon = Daemon::start_as(inside.command(machine::portreeve()), &directory.path().join("home"));
    let _server = Actor::run(
        inside.command(machine::python()),
        worktree.path(),
        &[&format!("listen=127.0.0.1,{target}")],
    );
    let lease = daemon.acquire(worktree.path(), "web", json!({"preferredPort": wished}));
    assert_eq!(lease["insteadOf"], json!({"port": wished, "reason": "forwarded"}));
    // Never shown as free either.
    let entry = daemon.get(&format!("/v1/ports/{wished}"));
    assert_eq!(entry["classification"], "unclaimed");
    assert_eq!(entry["evidence"], json!({"complete": false, "notes": ["forwarded"]}));
}

#[test]
fn excluded_since_it_was_assigned() {
    let mut house = house();
    let mut served = house.served("web", json!({}));
    let had = served.port();
    served.server.kill();
    house.event("run.released", &served.run["runId"]);
    // A setting changes between two lives of the daemon.
    house.daemon.kill();
    let home = house.daemon.home().to_owned();
    let conn = rusqlite::Connection::open(home.join(portreeve_daemon::store::FILE_NAME)).expect("a store");
    conn.execute("INSERT INTO setting VALUES ('excludedPorts', ?1)", [json!([had]).to_string()])
        .expect("written");
    drop(conn);
    let again = Daemon::start_in(&home);
    let lease = again.acquire(house.worktree.path(), "web", json!({}));
    assert_eq!(lease["insteadOf"], json!({"port": had, "reason": "excluded"}), "{lease}");
    assert_ne!(port(&lease), had);
}

#[test]
fn an_excluded_port_is_given_to_whoever_names_it_and_to_nobody_else() {
    let ports = crate::support::Ports::reserve();
    let house = house_with(json!({
        "automaticPortRanges": [{"start": ports.start, "end": ports.start + 2}],
        "excludedPorts": [ports.start, ports.start + 2],
    }));
    assert_eq!(port(&house.lease("web", json!({}))), ports.start + 1);
    assert_eq!(house.no_lease("api", json!({}))["code"], "conflict");
    let named = house.lease("api", json!({"preferredPort": ports.start}));
    assert_eq!((port(&named), named.get("insteadOf")), (ports.start, None));
}

#[test]
fn a_port_that_browsers_refuse_only_when_it_is_the_exact_one() {
    let house = house();
    let told = instead(&house, "web", 6000, "bad-port");
    assert_eq!(told.get("holder"), None);
    // An X server may well have 6000; 6566 is refused by browsers as well.
    let exact = house.lease("scanner", json!({"exactPort": 6566}));
    assert_eq!((&exact["port"], &exact["warning"]), (&json!(6566), &json!("bad-port")), "{exact}");
    assert_eq!(exact.get("insteadOf"), None);
}

#[test]
fn a_port_that_this_user_may_not_bind() {
    if !given("a_port_that_this_user_may_not_bind", "the daemon is root", !daemon_is_root()) {
        return;
    }
    let house = house();
    let told = instead(&house, "web", 81, "privileged");
    assert_eq!(told.get("holder"), None);
    let error = house.no_lease("api", json!({"exactPort": 81}));
    assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(false)), "{error}");
}

#[test]
fn set_aside_after_an_unseen_holder_for_that_claim_alone() {
    let house = house();
    let wished = house.ports.wish(0);
    let lease = house.lease("web", json!({"preferredPort": wished}));
    assert_eq!(port(&lease), wished);
    house.abandon(&lease, "address-in-use");
    let told = instead(&house, "web", wished, "set-aside");
    assert_eq!(told.get("holder"), None);
    let other = house.lease("api", json!({"preferredPort": wished}));
    assert_eq!((port(&other), other.get("insteadOf")), (wished, None));
}

#[test]
fn a_start_that_failed_otherwise_sets_nothing_aside() {
    let house = house();
    let wished = house.ports.wish(0);
    for reason in ["startup-error", "client-cancelled"] {
        let lease = house.lease("web", json!({"preferredPort": wished}));
        assert_eq!(port(&lease), wished);
        house.abandon(&lease, reason);
    }
    assert_eq!(port(&house.lease("web", json!({"preferredPort": wished}))), wished);
}

#[test]
fn another_users_listener_is_passed_over_every_time() {
    const NAME: &str = "another_users_listener_is_passed_over_every_time";
    if !given(NAME, "needs PORTREEVE_TEST_UID", two_users()) {
        return;
    }
    let house = house();
    let wished = house.ports.wish(0);
    let _foreign = Actor::start_as_us(std::path::Path::new("/"), &[&format!("listen=127.0.0.1,{wished}")]);
    for component in ["web", "api"] {
        let told = instead(&house, component, wished, "listening");
        assert_eq!(told["holder"]["pid"], Value::Null, "{told}");
    }
}
