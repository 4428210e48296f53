//! A daemon that is away, broken, stopped or of another time never ends the bridge.

use std::os::unix::net::UnixListener;
use std::time::Instant;

use serde_json::{Value, json};

use crate::daemon::{AT_ONCE, Daemon, Fault, health};
use crate::holding::call;

fn port(host: &mut crate::host::Host) -> Value {
    call(host, "ports_get", json!({"port": 3000}))
}

#[test]
fn a_daemon_that_comes_later_is_used_by_the_same_bridge() {
    let daemon = Daemon::absent(15_000, |_| None);
    let mut host = daemon.bridge();
    let begun = Instant::now();
    let failed = port(&mut host);
    assert!(begun.elapsed() < AT_ONCE);
    assert_eq!(
        (&failed["class"], &failed["outcome"]),
        (&json!("daemon.socket_absent"), &json!("not_started"))
    );
    assert_eq!(failed["nextStep"]["command"], "portreeve serve");
    let told = call(&mut host, "diagnostics_get", json!({}));
    assert_eq!(
        (&told["daemon"]["reachable"], &told["daemon"]["reason"]),
        (&json!(false), &json!("socket-missing"))
    );
    assert_eq!(told["next"]["command"], "portreeve serve");
    assert_eq!(told["recentFailures"][0]["class"], "daemon.socket_absent");
    assert_eq!(told["bridge"]["label"], "a-host");

    daemon.listen();
    assert_eq!(port(&mut host)["port"], 3000);
    let told = call(&mut host, "diagnostics_get", json!({}));
    assert_eq!((&told["daemon"]["reachable"], &told["daemon"]["compatible"]), (&json!(true), &json!(true)));
    assert_eq!(told["daemon"]["version"], "1.2.3");
}

#[test]
fn the_socket_of_a_dead_daemon_is_told_from_none() {
    let daemon = Daemon::absent(15_000, |_| None);
    drop(UnixListener::bind(daemon.socket()).expect("a socket"));
    let mut host = daemon.bridge();
    assert_eq!(port(&mut host)["class"], "daemon.not_listening");
    assert_eq!(call(&mut host, "diagnostics_get", json!({}))["daemon"]["reason"], "refused");
}

#[test]
fn a_bridge_without_any_place_to_look_says_so() {
    // No HOME in the environment, and a user who isn't in the password database would have none at all.
    let mut host = crate::host::Host::run(crate::host::bridge(&["serve", "--socket", "/no/such/place/s"]));
    host.initialize();
    let failed = port(&mut host);
    assert_eq!(failed["class"], "daemon.socket_absent");
}

#[test]
fn an_incompatible_daemon_is_refused_by_every_tool_but_diagnostics() {
    let daemon = Daemon::breaking(|asked| (asked.what == "GET /v1/health").then(|| Fault::Data(health(2))));
    let mut host = daemon.bridge();
    assert_eq!(port(&mut host)["class"], "compat.protocol_incompatible");
    let acquire = json!({"project": "p", "workspaceRoot": "/w", "component": "c"});
    assert_eq!(call(&mut host, "leases_acquire", acquire)["class"], "compat.protocol_incompatible");
    let told = call(&mut host, "diagnostics_get", json!({}));
    assert_eq!((&told["daemon"]["reachable"], &told["daemon"]["compatible"]), (&json!(true), &json!(false)));
    assert_eq!(told["daemon"]["protocol"], json!({"minimum": 2, "maximum": 2}));
    assert_eq!(told["bridge"]["protocol"], json!({"minimum": 1, "maximum": 1}));
    assert!(told["next"]["text"].as_str().unwrap().contains("older side"), "{}", told["next"]);
}

#[test]
fn a_broken_reply_is_classified_and_the_next_call_works() {
    let broken = std::sync::atomic::AtomicUsize::new(0);
    let daemon = Daemon::breaking(move |asked| {
        if !asked.what.starts_with("GET /v1/ports") {
            return None;
        }
        match broken.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Some(Fault::Bytes(Vec::new())),
            1 => Some(Fault::Bytes(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{\"prot".to_vec())),
            2 => Some(Fault::Bytes(b"HTTP/1.1 200 X\r\ncontent-length: 7\r\n\r\nnot one".to_vec())),
            3 => Some(Fault::Data(json!({"port": "three thousand"}))),
            _ => None,
        }
    });
    let mut host = daemon.bridge();
    let classes: Vec<Value> = (0..4).map(|_| port(&mut host)["class"].clone()).collect();
    assert_eq!(
        classes,
        [
            "socket.lost_after_send",
            "socket.reply_truncated",
            "socket.reply_malformed",
            "socket.reply_malformed"
        ]
    );
    assert_eq!(port(&mut host)["port"], 3000);
}

#[test]
fn a_hanging_call_holds_nobody_up_and_hangs_up_when_it_is_cancelled() {
    let daemon = Daemon::breaking(|asked| (asked.what == "GET /v1/ports/1").then_some(Fault::Hang));
    let mut host = daemon.bridge();
    host.request("slow", "tools/call", json!({"name": "ports_get", "arguments": {"port": 1}}));
    daemon.asked("GET /v1/ports/1");
    assert_eq!(port(&mut host)["port"], 3000);
    host.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}),
    );
    daemon.hung_up_on();
    let told = call(&mut host, "diagnostics_get", json!({}));
    assert_eq!(told["recentFailures"][0]["class"], "stdio.request_cancelled");
}
