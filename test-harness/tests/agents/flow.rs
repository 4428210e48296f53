//! The main job through MCP in each era, and the same record wherever it is looked at.

use crate::support::{House, Served, abandon, confirm, house, port, shown, without_nulls};
use portreeve_test_harness::host::{ERAS, Era, Host};
use portreeve_test_harness::machine::{Server, until};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// acquire, serve, confirm, look, stop, release.
fn a_port_is_got_proved_seen_and_given_back(era: Era) {
    let house = house();
    let mut host = Host::run(Host::command(house.socket()), era);
    let lease = host.done("leases_acquire", house.claim("web"));
    assert_eq!((&lease["state"], &lease["changed"]), (&json!("pending"), &json!(true)), "{lease}");
    let seen = host.done("ports_get", json!({"port": lease["port"]}));
    assert_eq!((&seen["classification"], &seen["lease"]["id"]), (&json!("pending"), &lease["leaseId"]));

    let mut server = Server::listen("127.0.0.1", port(&lease), house.worktree.path());
    let run = host.done("leases_confirm", confirm(&lease, server.pid()));
    assert_eq!((&run["changed"], &run["port"]), (&json!(true), &lease["port"]));
    assert_eq!(run["addresses"], json!([format!("127.0.0.1:{}", lease["port"])]));
    let seen = host.done("ports_get", json!({"port": lease["port"]}));
    assert_eq!((&seen["classification"], &seen["run"]["id"]), (&json!("verified"), &run["runId"]), "{seen}");
    assert_eq!(seen["listeners"][0]["pid"], server.pid());

    let lives = host.fails("resolve.conflict", "leases_release", json!({"runId": run["runId"]}));
    assert_eq!(lives["outcome"], "not_applied");
    server.kill();
    let released =
        until("the run can be released", || host.call("leases_release", json!({"runId": run["runId"]})).ok());
    assert!(released["changed"].is_boolean());
    let seen = host.done("ports_get", json!({"port": lease["port"]}));
    assert_eq!((&seen["classification"], seen.get("run")), (&json!("idle"), None), "{seen}");
    let again = host.done("leases_acquire", house.claim("web"));
    assert_eq!(again["port"], lease["port"], "the claim keeps its port");
    host.done("leases_abandon", abandon(&again, "client-cancelled"));
    let told: Vec<Value> = host.done("history_list", json!({"order": "asc"}))["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|event| event["eventType"].clone())
        .collect();
    for kind in ["lease.acquired", "lease.confirmed", "run.released", "lease.abandoned"] {
        assert!(told.contains(&json!(kind)), "{kind} isn't in {told:?}");
    }
}

#[test]
fn the_main_job_is_done_after_initialize_of_2025() {
    a_port_is_got_proved_seen_and_given_back(ERAS[0]);
}

#[test]
fn the_main_job_is_done_after_initialize_of_2024() {
    a_port_is_got_proved_seen_and_given_back(ERAS[1]);
}

#[test]
fn the_main_job_is_done_after_discover() {
    a_port_is_got_proved_seen_and_given_back(ERAS[2]);
}

#[test]
fn the_main_job_is_done_by_calls_alone() {
    a_port_is_got_proved_seen_and_given_back(ERAS[3]);
}

#[test]
fn what_is_listed_is_what_is_linked_in() {
    let house = house();
    let mut straight = Host::silent(Host::command(house.socket()));
    straight.open(Era::Straight);
    for era in &ERAS[..3] {
        let host = Host::run(Host::command(house.socket()), *era);
        assert_eq!(host.tools, straight.tools, "{era:?}");
    }
}

/// The same thing by the command line, by a bridge and by the socket.
struct Views {
    cli: Value,
    bridge: Value,
    socket: Value,
}

impl Views {
    fn of(house: &House, host: &mut Host, cli: &[&str], tool: (&str, Value), target: &str) -> Views {
        Views {
            cli: without_nulls(house.cli(cli).data()),
            bridge: without_nulls(shown(host.done(tool.0, tool.1))),
            socket: without_nulls(house.get(target)),
        }
    }

    fn of_port(house: &House, host: &mut Host, port: u16) -> Views {
        let text = port.to_string();
        let cli = ["ports", "inspect", &text, "--json"];
        Views::of(house, host, &cli, ("ports_get", json!({"port": port})), &format!("/v1/ports/{port}"))
    }

    fn of_claim(house: &House, host: &mut Host, claim: &Value) -> Views {
        let id = claim.as_str().expect("an id");
        let cli = ["claims", "show", id, "--json"];
        Views::of(house, host, &cli, ("claims_get", json!({"claimId": id})), &format!("/v1/claims/{id}"))
    }

    #[track_caller]
    fn agree(self) -> Value {
        assert_eq!(self.cli, self.socket, "command line and socket");
        assert_eq!(self.bridge, self.socket, "bridge and socket");
        self.socket
    }
}

#[test]
fn command_line_bridge_and_socket_show_the_same_record_in_each_state() {
    let house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    let number = port(&lease);
    let looks = |host: &mut Host, classification: &str| {
        let entry = Views::of_port(&house, host, number).agree();
        assert_eq!(entry["classification"], classification, "{entry}");
        Views::of_claim(&house, host, &lease["claimId"]).agree();
    };
    looks(&mut host, "pending");
    let mut server = Server::listen("127.0.0.1", number, house.worktree.path());
    looks(&mut host, "pending");
    host.done("leases_confirm", confirm(&lease, server.pid()));
    looks(&mut host, "verified");
    server.kill();
    looks(&mut host, "idle");
    let squatter = Server::listen("0.0.0.0", number, house.worktree.path());
    looks(&mut host, "conflicting");
    drop(squatter);
    looks(&mut host, "idle");
}

#[test]
fn settings_health_and_lists_are_the_same_by_every_way() {
    let house = house();
    let mut host = house.host();
    let served = house.serve(&mut host, "web");
    for component in ["api", "db", "docs"] {
        host.done("leases_acquire", house.claim(component));
    }
    let config =
        Views::of(&house, &mut host, &["config", "get", "--json"], ("settings_get", json!({})), "/v1/config");
    config.agree();
    let health = shown(host.done("diagnostics_health_get", json!({})));
    let status = house.cli(&["status", "--json"]).data()["daemon"].clone();
    assert_eq!(health["pid"], house.get("/v1/health")["pid"]);
    assert_eq!((&health["pid"], &health["protocol"]), (&status["pid"], &status["protocol"]));

    let claims = host.done("claims_list", json!({"limit": 200}))["items"].clone();
    let listed = house.cli(&["claims", "list", "--json"]).data()["items"].clone();
    let ids = |list: &Value, field: &str| -> Vec<Value> {
        list.as_array().expect("a list").iter().map(|item| item[field].clone()).collect()
    };
    assert_eq!(ids(&claims, "claimId"), ids(&listed, "id"));
    assert_eq!(claims.as_array().map(Vec::len), Some(4));
    let events = host.done("history_list", json!({"limit": 200}))["items"].clone();
    let told = house.cli(&["history", "--limit", "200", "--json"]).data()["items"].clone();
    assert_eq!(ids(&events, "id"), ids(&told, "id"));
    let own = host.done("ports_list", json!({"project": "shop"}))["items"].clone();
    let ports = house.cli(&["ports", "list", "--project", "shop", "--json"]).data()["items"].clone();
    assert_eq!(ids(&own, "port"), ids(&ports, "port"));
    assert_eq!(ids(&own, "classification"), ids(&ports, "classification"));
    assert!(ids(&own, "runId").contains(&served.run["runId"]));
}

/// Tells a thread to end, however this one does.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Serves and ends, again and again.
fn come_and_go(house: &House, number: u16, over: &AtomicBool) {
    let mut host = house.host();
    while !over.load(Ordering::Relaxed) {
        let lease = host.done("leases_acquire", house.claim("web"));
        if lease["state"] == "running" {
            // The end of the last server isn't noticed yet.
            continue;
        }
        assert_eq!(port(&lease), number);
        let server = Server::listen("127.0.0.1", number, house.worktree.path());
        host.done("leases_confirm", confirm(&lease, server.pid()));
    }
}

#[test]
fn they_agree_while_it_changes() {
    let house = house();
    let mut host = house.host();
    let first = host.done("leases_acquire", house.claim("web"));
    let number = port(&first);
    host.done("leases_abandon", abandon(&first, "client-cancelled"));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (house, flag) = (&house, &over);
        let _over = Over(&over);
        scope.spawn(move || come_and_go(house, number, flag));
        let target = format!("/v1/ports/{number}");
        let mut agreed = 0;
        until("four times nothing changed between two looks", || {
            let before = house.get(&target);
            let views = Views::of_port(house, &mut host, number);
            if house.get(&target) != before || without_nulls(before) != views.socket {
                return None;
            }
            views.agree();
            agreed += 1;
            (agreed == 4).then_some(())
        });
    });
}

#[test]
fn a_conflict_and_an_insteadof_tell_both_agents_whose_port_it_is() {
    let house = house();
    let mut first = Host::with(house.socket(), &["--label", "left"]);
    let Served { lease, server: _server, .. } = house.serve(&mut first, "web");
    let other = portreeve_test_harness::machine::worktree();
    let mut second = Host::with(house.socket(), &["--label", "right"]);
    let mut wish = crate::support::claim(other.path(), "web");
    wish["preferredPort"] = lease["port"].clone();
    let got = second.done("leases_acquire", wish.clone());
    assert_ne!(got["port"], lease["port"]);
    let instead = &got["insteadOf"];
    assert_eq!((&instead["port"], &instead["reason"]), (&lease["port"], &json!("assigned")), "{got}");
    assert_eq!(instead["holder"]["workspaceRoot"], json!(house.worktree.path()));
    assert!(got["summary"].as_str().expect("text").contains(&format!("Not {}", lease["port"])), "{got}");
    second.done("leases_abandon", abandon(&got, "client-cancelled"));
    wish["exactPort"] = wish.as_object_mut().expect("fields").remove("preferredPort").expect("there");
    let refused = second.fails("resolve.conflict", "leases_acquire", wish);
    let next = refused["nextStep"]["text"].as_str().expect("text");
    assert!(!next.contains("kill") && !next.contains("stop the"), "never to end another's: {next}");
}
