//! How the bridge ends with something in its hands.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::calling::execute;
use crate::daemon::{AT_ONCE, Daemon, Fault};
use crate::holding::call;
use crate::host::{DEADLINE, Host};

fn acquire(host: &mut Host, component: &str) -> Value {
    let arguments = json!({"project": "shop", "workspaceRoot": "/home/dev/shop", "component": component});
    call(host, "leases_acquire", arguments)
}

#[test]
fn what_is_held_goes_back_when_the_host_closes_stdin() {
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    for component in ["web", "api"] {
        acquire(&mut host, component);
    }
    let begun = Instant::now();
    host.hang_up();
    host.exits();
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    let given_back: Vec<_> =
        daemon.all("POST /v1/leases/").into_iter().filter(|asked| asked.what.ends_with("/abandon")).collect();
    assert_eq!(given_back.len(), 2);
    let taken = daemon.all("POST /v1/leases/acquire");
    for asked in &given_back {
        assert_eq!(asked.body["reason"], "client-cancelled");
        assert!(taken.iter().any(|taken| taken.body["leaseToken"] == asked.body["leaseToken"]));
        assert!(taken.iter().all(|taken| taken.connection != asked.connection));
    }
}

#[test]
fn what_is_settled_stays_when_the_bridge_ends() {
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    let acquired = acquire(&mut host, "web");
    let handle = acquired["credentialHandle"].clone();
    call(&mut host, "leases_confirm", json!({"credentialHandle": handle, "rootPid": 42}));
    host.signal(Signal::TERM);
    host.exits();
    assert!(daemon.all("POST /v1/leases/").iter().all(|asked| !asked.what.ends_with("/abandon")));
}

#[test]
fn a_daemon_that_hangs_does_not_keep_the_bridge() {
    for signal in [None, Some(Signal::TERM)] {
        let daemon = Daemon::breaking(|asked| {
            (asked.what == "GET /v1/ports/1" || asked.what.ends_with("/abandon")).then_some(Fault::Hang)
        });
        let mut host = daemon.bridge();
        acquire(&mut host, "web");
        host.request(1, "tools/call", json!({"name": "ports_get", "arguments": {"port": 1}}));
        daemon.asked("GET /v1/ports/1");
        let begun = Instant::now();
        match signal {
            None => host.hang_up(),
            Some(signal) => host.signal(signal),
        }
        daemon.wait("the abandon, beside the call in flight", |journal| {
            journal.iter().any(|asked| asked.what.ends_with("/abandon")).then_some(())
        });
        let answer = host.answer();
        let record = &answer["result"]["_meta"]["portreeve/error"];
        assert_eq!((&record["class"], &record["outcome"]), (&json!("stdio.stdin_eof"), &json!("unknown")));
        host.exits();
        assert!(begun.elapsed() < Duration::from_millis(1_500) + AT_ONCE, "{:?}", begun.elapsed());
    }
}

#[test]
fn a_confirm_in_flight_is_not_undercut() {
    // The confirm takes until another lease was given back: so long that the end has begun.
    let (ended, end) = channel::<()>();
    let (ended, end) = (Mutex::new(ended), Mutex::new(end));
    let daemon = Daemon::breaking(move |asked| {
        if asked.what.ends_with("/abandon") {
            ended.lock().expect("no poison").send(()).expect("the confirm waits");
        } else if asked.what.ends_with("/confirm") {
            end.lock().expect("no poison").recv_timeout(DEADLINE).expect("the other lease goes back");
        }
        None
    });
    let mut host = daemon.bridge();
    acquire(&mut host, "api");
    let handle = acquire(&mut host, "web")["credentialHandle"].clone();
    let arguments = json!({"credentialHandle": handle, "rootPid": 42});
    host.request(1, "tools/call", json!({"name": "leases_confirm", "arguments": arguments}));
    host.hang_up();
    assert_eq!(host.answer()["result"]["structuredContent"]["changed"], true);
    host.exits();
    let given_back =
        daemon.all("POST /v1/leases/").iter().filter(|asked| asked.what.ends_with("/abandon")).count();
    assert_eq!(given_back, 1, "the other lease, and no more");
}

#[test]
fn a_running_execute_is_answered_with_its_receipt() {
    // Nothing to run as long as no domain declares a change.
    let Some((name, arguments)) = execute() else { return };
    let daemon = Daemon::breaking(|asked| asked.what.ends_with("/execute").then_some(Fault::Hang));
    let mut host = daemon.bridge();
    host.request(1, "tools/call", json!({"name": name, "arguments": arguments}));
    daemon.asked("POST /v1/actions/");
    host.hang_up();
    let answer = host.answer();
    let record = &answer["result"]["_meta"]["portreeve/error"];
    assert_eq!(record["class"], "stdio.stdin_eof");
    assert_eq!(record["details"]["receiptId"], arguments["receiptId"]);
    host.exits();
}
