//! Many calls at once: each is answered exactly once, whatever the daemon and the host do meanwhile.
//!
//! That no answer comes twice, the host checks.

use crate::support::house;
use portreeve_test_harness::host::Host;
use portreeve_test_harness::machine::until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::{Duration, Instant};

const CALLS: usize = 64;

/// Calls of every kind.
fn calls(house: &crate::support::House) -> impl Iterator<Item = (&'static str, Value)> + use<> {
    let root = house.worktree.path().to_owned();
    (0..CALLS).map(move |i| match i % 8 {
        0 => ("leases_acquire", crate::support::claim(&root, &format!("c{}", i % 16))),
        1 => ("ports_get", json!({"port": 3000 + i})),
        2 => ("claims_list", json!({"limit": 5})),
        3 => ("history_list", json!({})),
        4 => ("diagnostics_get", json!({})),
        5 => ("ports_list", json!({"limit": 3})),
        6 => ("leases_confirm", json!({"credentialHandle": "cred_nobody", "rootPid": i + 1})),
        _ => ("settings_get", json!({})),
    })
}

#[test]
fn sixty_four_calls_are_answered_once_each_while_the_daemon_is_killed_and_started_again() {
    let mut house = house();
    let mut host = house.host();
    for round in 0..4 {
        let ids: Vec<u64> = calls(&house).map(|(tool, arguments)| host.begin_call(tool, arguments)).collect();
        if round == 1 {
            // Some were answered already.
            drop(host.end(ids[1]));
        }
        house.replace();
        let mut classes = BTreeSet::new();
        for (at, id) in ids.into_iter().enumerate() {
            if round == 1 && at == 1 {
                continue;
            }
            if let Err(record) = host.end(id) {
                classes.insert(record["class"].as_str().expect("a class").to_owned());
            }
        }
        for class in &classes {
            let known = ["custody.handle_unknown", "daemon.", "socket.", "resolve.conflict"];
            assert!(known.iter().any(|known| class.starts_with(known)), "{class}");
        }
        until("the bridge goes on", || host.call("diagnostics_health_get", json!({})).ok());
    }
    let made = host.done("claims_list", json!({"limit": 200}))["items"].as_array().map(Vec::len);
    assert!(made.is_some_and(|made| made <= 2), "no claim twice: {made:?}");
}

#[test]
fn a_host_that_hangs_up_gets_an_answer_to_every_call_in_flight() {
    let house = house();
    let mut host = house.host();
    let ids: BTreeSet<u64> =
        calls(&house).map(|(tool, arguments)| host.begin_call(tool, arguments)).collect();
    host.hang_up();
    let answers = host.rest();
    assert_eq!(answers.keys().copied().collect::<BTreeSet<_>>(), ids);
    assert_eq!(host.exits().code(), Some(0));
    assert!(answers.values().all(|answer| answer["result"].is_object()), "{answers:?}");
    let held = house.get("/v1/ports?claimed=true");
    assert!(held.to_string().matches("\"pending\"").count() == 0, "nothing stays leased: {held}");
}

#[test]
fn a_host_that_hangs_up_while_the_daemon_stands_still_is_answered_within_its_second() {
    let house = house();
    let mut host = house.host();
    host.done("diagnostics_health_get", json!({}));
    let _stopped = house.stopped();
    let calls: Vec<u64> =
        (0..8).map(|i| host.begin_call("leases_acquire", house.claim(&format!("c{i}")))).collect();
    let begun = Instant::now();
    host.hang_up();
    for call in calls {
        let record = host.end(call).expect_err("nobody answers");
        assert_eq!(record["class"], "stdio.stdin_eof", "{record}");
        assert!(record["outcome"] == "unknown" || record["outcome"] == "not_started", "{record}");
    }
    assert_eq!(host.exits().code(), Some(0));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_host_that_never_reads_costs_no_memory_and_does_not_keep_the_bridge() {
    let house = house();
    let mut host = Host::silent(Host::command(house.socket()));
    let (_, hello) = host.request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}),
    );
    host.send(&hello);
    let mut lines = String::new();
    for _ in 0..2_000 {
        let (_, call) = host.request("tools/call", json!({"name": "ports_list", "arguments": {"limit": 50}}));
        lines.push_str(&format!("{call}\n"));
    }
    let pid = host.pid();
    let mut stdin = host.take_stdin();
    // It takes what it can hold; the rest waits in the pipe, and is lost when the host goes.
    let writer = std::thread::spawn(move || drop(stdin.write_all(lines.as_bytes())));
    until("it notes that nobody reads", || host.printed_text().contains("OutputStalled").then_some(()));
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("it lives");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 40 * 1024, "{peak} KiB");
    host.signal(rustix::process::Signal::TERM);
    assert_eq!(host.exits().code(), Some(0));
    writer.join().expect("the writer ends");
}

#[test]
fn eight_bridges_at_once_get_eight_ports() {
    let house = house();
    let ports: BTreeSet<u64> = std::thread::scope(|scope| {
        let bridges: Vec<_> = (0..8)
            .map(|i| {
                let house = &house;
                scope.spawn(move || {
                    let mut host = house.host();
                    let lease = host.done("leases_acquire", house.claim(&format!("c{i}")));
                    lease["port"].as_u64().expect("a port")
                })
            })
            .collect();
        bridges.into_iter().map(|bridge| bridge.join().expect("a bridge ends")).collect()
    });
    assert_eq!(ports.len(), 8);
}
