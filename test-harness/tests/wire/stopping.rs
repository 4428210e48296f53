//! The daemon's end: by signal or by request, nothing that is being answered is cut off, and nobody is left to
//! find a socket behind which nobody is.

use crate::support::{Reply, exchange, home, lives, signal, terminate};
use portreeve_test_harness::machine::{Daemon, PATIENCE, acquire, client, until, worktree};
use rustix::process::Signal;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Sends the head of a POST and the beginning of its body; the rest is to be sent.
fn begun(daemon: &Daemon, target: &str, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(daemon.socket()).expect("the daemon listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let head = format!("POST {target} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).expect("a head can be written");
    stream.write_all(&body.as_bytes()[..10]).expect("a beginning can be written");
    stream
}

#[test]
fn a_request_in_flight_at_sigterm_is_answered_and_durable_and_the_exit_is_clean() {
    for end in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (_directory, home) = home();
        let mut daemon = Daemon::start_in(&home);
        let workspace = worktree();
        let mut body = acquire(workspace.path(), "web", json!({}));
        body["client"] = client();
        let body = body.to_string();
        let mut stream = begun(&daemon, "/v1/leases/acquire", &body);
        // The daemon has taken the connection up once it answers a later one.
        lives(&daemon);
        signal(daemon.process.id(), end);
        until("the socket is gone", || (!daemon.socket().exists()).then_some(()));
        assert!(daemon.process.try_wait().expect("a child can be waited for").is_none(), "it waits for us");
        stream.write_all(&body.as_bytes()[10..]).expect("the connection is open");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("a reply can be read");
        let reply = Reply::parse(&all).expect("a reply");
        assert_eq!(reply.status, 200);
        let lease = reply.envelope()["data"].clone();
        assert!(reply.head.to_ascii_lowercase().contains("connection: close"), "{}", reply.head);
        let status = until("it ends", || daemon.process.try_wait().expect("a child can be waited for"));
        assert!(status.success(), "{status}");
        let daemon = Daemon::start_in(&home);
        let target = format!("/v1/leases/{}/renew", lease["leaseId"].as_str().expect("an id"));
        daemon.post(&target, json!({"leaseToken": lease["leaseToken"]}));
    }
}

#[test]
fn connections_without_a_request_dont_delay_the_end() {
    let mut daemon = Daemon::start();
    let mut kept = Vec::new();
    for _ in 0..20 {
        let mut stream = UnixStream::connect(daemon.socket()).expect("the daemon listens");
        stream.write_all(b"GET /v1/health HTTP/1.1\r\n\r\n").expect("a request can be written");
        let mut piece = [0; 4096];
        assert!(stream.read(&mut piece).expect("a reply can be read") > 0);
        kept.push(stream);
    }
    let start = Instant::now();
    assert!(terminate(&mut daemon).success());
    assert!(start.elapsed() < Duration::from_secs(3), "it took {:?}", start.elapsed());
    let files: Vec<_> = std::fs::read_dir(daemon.home())
        .expect("a home can be read")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    for gone in ["portreeve.sock", "daemon.json", "authority.db-wal", "authority.db-shm"] {
        assert!(!files.iter().any(|name| name == gone), "{gone} is left: {files:?}");
    }
}

#[test]
fn after_a_stop_request_is_answered_nobody_can_reach_the_daemon() {
    let mut daemon = Daemon::start();
    let body = json!({"client": client()}).to_string();
    let request = format!(
        "POST /v1/server/stop HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let all = exchange(daemon.socket(), request.as_bytes()).expect("the stop is answered");
    let answered = Instant::now();
    let reply = Reply::parse(&all).expect("a reply").envelope();
    assert_eq!(reply["data"]["changed"], true);
    until("nobody listens", || UnixStream::connect(daemon.socket()).err());
    let took = answered.elapsed();
    assert!(took < Duration::from_millis(250), "reachable {took:?} after the reply");
    let status = until("it ends", || daemon.process.try_wait().expect("a child can be waited for"));
    assert!(status.success(), "{status}");
    assert!(!daemon.socket().exists());
}

#[test]
fn a_stop_is_only_taken_from_a_sender_who_says_who_it_is() {
    let daemon = Daemon::start();
    for body in ["", "{}", "{\"client\":{}}", "[]"] {
        let request = format!(
            "POST /v1/server/stop HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let all = exchange(daemon.socket(), request.as_bytes()).expect("it is answered");
        assert_eq!(Reply::parse(&all).expect("a reply").status, 400, "{body}");
    }
    assert_eq!(daemon.refused("GET", "/v1/server/stop", None).0, 404);
    lives(&daemon);
}
