//! The ways in which a bridge ends: in time, with code 0, and with every accepted call answered.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::host::{BRIDGE, Host, meta};

/// What a busy machine may add to a bound of the bridge's own.
const SLACK: Duration = Duration::from_secs(5);

#[test]
fn stdin_that_ends_before_the_first_request_is_no_error() {
    let mut host = Host::start();
    host.hang_up();
    assert_eq!(host.remaining_answers(), Vec::<Value>::new());
    host.exits();
    assert_eq!(host.everything_heard(), Vec::<String>::new());
}

#[test]
fn calls_in_flight_at_the_end_of_stdin_are_answered() {
    let mut host = Host::ready();
    host.call(1, "hang");
    host.hears("hanging");
    host.call(2, "slow");
    let begun = Instant::now();
    host.hang_up();
    let slow = host.answer();
    assert_eq!(slow["result"]["structuredContent"]["summary"], "at last");
    let hung = host.answer();
    assert_eq!(hung["id"], 1);
    assert_eq!(hung["result"]["_meta"]["portreeve/error"]["outcome"], "unknown");
    assert!(hung["result"]["content"][0]["text"].as_str().unwrap().contains("StdinEnded"));
    assert_eq!(host.remaining_answers(), Vec::<Value>::new());
    host.exits();
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(1) + SLACK, "{took:?}");
}

#[test]
fn a_bridge_without_calls_ends_at_once() {
    let mut host = Host::ready();
    host.call(1, "echo");
    host.answer();
    let begun = Instant::now();
    host.hang_up();
    host.exits();
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
}

#[test]
fn signals_end_the_bridge_with_every_call_answered() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP"), (Signal::INT, "SIGINT")] {
        let mut host = Host::ready();
        host.call(1, "hang");
        host.hears("hanging");
        let begun = Instant::now();
        host.signal(signal);
        let answer = host.answer();
        assert_eq!(answer["id"], 1);
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains(name));
        host.exits();
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(300) && took < Duration::from_millis(300) + SLACK, "{took:?}");
    }
}

#[test]
fn a_signal_before_the_first_request_ends_the_bridge() {
    let mut host = Host::ready();
    host.signal(Signal::TERM);
    assert_eq!(host.remaining_answers(), Vec::<Value>::new());
    host.exits();
}

#[test]
fn a_signal_shortens_the_grace_of_stdin() {
    let mut host = Host::ready();
    host.call(1, "hang");
    host.hears("hanging");
    host.hang_up();
    host.signal(Signal::TERM);
    assert_eq!(host.answer()["id"], 1);
    host.exits();
}

#[test]
fn the_parents_end_ends_the_bridge_though_stdin_stays_open() {
    // The shell is the parent; this test holds the other end of stdin and stdout.
    #[expect(clippy::disallowed_methods, reason = "the test needs a parent between itself and the bridge")]
    let child = Command::new("/bin/sh")
        .args(["-c", "exec 3<&0; \"$0\" toys <&3 3<&- & wait", BRIDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    let mut host = Host::over(child);
    host.initialize();
    host.call(1, "hang");
    host.hears("hanging");
    let begun = Instant::now();
    host.signal(Signal::KILL);
    let answer = host.answer();
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("ParentGone"));
    assert_eq!(host.answer_or_end(), None);
    assert!(begun.elapsed() < Duration::from_secs(2) + SLACK, "{:?}", begun.elapsed());
}

#[test]
fn stdout_closed_mid_call_is_accounted_for() {
    let mut host = Host::start();
    // The call is the first message, so that nothing had to be read yet.
    let call = json!({"name": "slow", "arguments": {}, "_meta": meta()});
    host.request(1, "tools/call", call.clone());
    host.stop_reading();
    host.hears("OutputFailed { reason: \"Broken pipe (os error 32)\", id: Some(\"1\") }");
    host.request(2, "tools/call", call);
    host.hears("Unanswerable { id: \"2\" }");
    host.hang_up();
    host.exits();
}
