//! Hosts that send without end, and hosts that never read.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::{Host, meta};

fn large_call(id: usize) -> Vec<u8> {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                      "params": {"name": "large", "arguments": {}, "_meta": meta()}});
    format!("{call}\n").into_bytes()
}

#[test]
fn a_host_that_reads_late_gets_everything_and_costs_no_memory() {
    const CALLS: usize = 1_500;
    let mut host = Host::start();
    let mut stdin = host.stdin.take().expect("stdin is open");
    let writer = std::thread::spawn(move || {
        for id in 0..CALLS {
            stdin.write_all(&large_call(id)).expect("the bridge reads");
        }
    });
    host.hears("OutputStalled");
    let peak = host.memory("VmHWM");
    assert!(peak < 32 * 1024, "{peak} KiB while 60 MB of answers wait");
    let mut ids = BTreeSet::new();
    for _ in 0..CALLS {
        let id = host.answer()["id"].as_u64().unwrap();
        assert!(ids.insert(id), "{id} is answered twice");
    }
    writer.join().expect("everything was sent");
    host.exits();
    assert_eq!(ids.len(), CALLS);
}

#[test]
fn a_host_that_hung_up_and_never_reads_does_not_keep_the_bridge() {
    let mut host = Host::start();
    // Far more than is accepted at once; the pipe holds the rest.
    for id in 0..200 {
        host.send_bytes(&large_call(id));
    }
    let begun = Instant::now();
    host.hang_up();
    host.exits();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn long_messages_take_turns() {
    let mut host = Host::start();
    let text = "x".repeat(3 * 1024 * 1024);
    let mut stdin = host.stdin.take().expect("stdin is open");
    let writer = std::thread::spawn(move || {
        for id in 0..4 {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                              "params": {"name": "slow", "arguments": {"a": text}, "_meta": meta()}});
            stdin.write_all(format!("{call}\n").as_bytes()).expect("the bridge reads");
        }
        stdin
    });
    let answers: Vec<Value> = (0..4).map(|_| host.answer()).collect();
    assert_eq!(answers.len(), 4);
    let peak = host.memory("VmHWM");
    assert!(peak < 48 * 1024, "{peak} KiB for long messages");
    drop(writer.join().expect("everything was sent"));
    host.exits();
}
