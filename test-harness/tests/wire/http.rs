//! Whatever comes over the socket, the daemon answers in its own form where it can, lives, and serves the next
//! call.

use crate::support::{Reply, ask_head, check_envelope, exchange_cut_short, lives, timed};
use portreeve_test_harness::machine::{Daemon, PATIENCE, client, until};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const ACQUIRE: &str = "POST /v1/leases/acquire HTTP/1.1\r\nhost: x";
const HEALTH: &[u8] = b"GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[test]
fn a_body_that_is_no_json_object_is_400_and_says_so() {
    let daemon = Daemon::start();
    let before = daemon.tables();
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(1000), close.repeat(1000));
    let nested = format!("{{\"client\":{},\"claim\":{}}}", client(), deep("[", "]"));
    let big = format!("{{\"client\":{},\"x\":\"{}\"}}", client(), "x".repeat(2 << 20));
    let utf16: Vec<u8> = "{\"client\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("empty", b"".to_vec()),
        ("blank", b"  \n".to_vec()),
        ("not JSON", b"{not json".to_vec()),
        ("cut off", b"{\"client\":{\"softw".to_vec()),
        ("two values", b"{}{}".to_vec()),
        ("a trailing comma", b"{\"a\":1,}".to_vec()),
        ("an array", b"[]".to_vec()),
        ("a string", b"\"x\"".to_vec()),
        ("null", b"null".to_vec()),
        ("a number beyond all bounds", b"{\"a\":1e999}".to_vec()),
        ("half a surrogate", b"{\"a\":\"\\ud800\"}".to_vec()),
        ("a raw control character", b"{\"a\":\"\x00\"}".to_vec()),
        ("not UTF-8", b"{\"a\":\"\xff\xfe\"}".to_vec()),
        ("UTF-16", utf16),
        ("a byte order mark", b"\xef\xbb\xbf{}".to_vec()),
        ("arrays in arrays", nested.into_bytes()),
        ("objects in objects", deep("{\"a\":", "}").into_bytes()),
        ("more than 1 MiB", big.into_bytes()),
    ];
    for (what, body) in bodies {
        let reply = ask_head(daemon.socket(), ACQUIRE, &body);
        let envelope = reply.envelope();
        assert_eq!(reply.status, 400, "{what}: {envelope}");
        assert_eq!(envelope["error"]["code"], "invalid_input", "{what}: {envelope}");
        assert_eq!(envelope["error"]["failure"]["class"], "daemon.request_malformed", "{what}: {envelope}");
        assert_eq!(envelope["error"]["failure"]["outcome"], "not_started", "{what}: {envelope}");
        lives(&daemon);
    }
    assert_eq!(daemon.tables(), before);
}

#[test]
fn a_body_of_exactly_1_mib_is_read_and_one_byte_more_is_not() {
    let daemon = Daemon::start();
    let limit = portreeve_daemon::BODY_LIMIT;
    let mut body = json!({"client": client(), "x": ""}).to_string();
    let fill = "y".repeat(limit - body.len());
    body = json!({"client": client(), "x": fill}).to_string();
    assert_eq!(body.len(), limit);
    let target = "POST /v1/runs/0aaea852-e351-4a27-9ee9-f6707b7e4100/release HTTP/1.1\r\nhost: x";
    assert_eq!(ask_head(daemon.socket(), target, body.as_bytes()).status, 200);
    body.push(' ');
    assert_eq!(ask_head(daemon.socket(), target, body.as_bytes()).status, 400);
}

#[test]
fn a_body_that_nobody_asked_for_is_passed_over() {
    let daemon = Daemon::start();
    for size in [10, 2 << 20] {
        let body = vec![b'x'; size];
        let reply = ask_head(daemon.socket(), "GET /v1/health HTTP/1.1\r\nhost: x", &body);
        assert_eq!((reply.status, reply.envelope()["data"]["mode"].as_str()), (200, Some("manual")));
        let reply = ask_head(daemon.socket(), "POST /v1/nope HTTP/1.1\r\nhost: x", &body);
        assert_eq!(reply.status, 404);
        reply.envelope();
    }
}

#[test]
fn what_is_no_http_or_too_much_of_it_is_refused_in_protocol_1s_form() {
    let daemon = Daemon::start();
    let header = |size: usize| {
        format!("GET /v1/health HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(size)).into_bytes()
    };
    let many: String = (0..500).map(|i| format!("x-{i}: 1\r\n")).collect();
    let garbage: Vec<(&str, Vec<u8>)> = vec![
        ("no HTTP", b"hello, is PortReeve there?\r\n\r\n".to_vec()),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec()),
        ("zeros", vec![0; 4096]),
        ("another version", b"GET /v1/health HTTP/9.7\r\n\r\n".to_vec()),
        ("a header without a name", b"GET /v1/health HTTP/1.1\r\n: x\r\n\r\n".to_vec()),
        ("a header line folded", b"GET /v1/health HTTP/1.1\r\nhost: x\r\n y\r\n\r\n".to_vec()),
        (
            "two lengths",
            b"POST /v1/nope HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx".to_vec(),
        ),
        ("a length below zero", b"POST /v1/nope HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_vec()),
        ("a path of 70 kB", format!("GET /{} HTTP/1.1\r\n\r\n", "p".repeat(70_000)).into_bytes()),
        ("a header of 200 kB", header(200_000)),
        ("a header of 1 MiB", header(1 << 20)),
        ("500 headers", format!("GET /v1/health HTTP/1.1\r\n{many}\r\n").into_bytes()),
    ];
    for (what, bytes) in garbage {
        let all = exchange_cut_short(daemon.socket(), &bytes);
        let reply = Reply::parse(&all)
            .unwrap_or_else(|| panic!("{what}: no HTTP: {:?}", String::from_utf8_lossy(&all)));
        let envelope = reply.envelope();
        assert_eq!(reply.status, 400, "{what}: {envelope}");
        assert_eq!(envelope["error"]["failure"]["class"], "daemon.request_malformed", "{what}");
        lives(&daemon);
    }
}

#[test]
fn a_header_that_fits_is_read() {
    let daemon = Daemon::start();
    let head = format!("GET /v1/health HTTP/1.1\r\nhost: x\r\nx-long: {}", "x".repeat(30_000));
    assert_eq!(ask_head(daemon.socket(), &head, b"").status, 200);
}

#[test]
fn requests_that_are_never_finished_hinder_nobody() {
    let daemon = Daemon::start();
    let before = daemon.tables();
    let beginnings: [&[u8]; 6] = [
        b"",
        b"G",
        b"GET /v1/health HTTP/1.1\r\nho",
        b"POST /v1/leases/acquire HTTP/1.1\r\ncontent-length: 5000\r\n\r\n",
        b"POST /v1/leases/acquire HTTP/1.1\r\ncontent-length: 5000\r\n\r\n{\"client\"",
        b"POST /v1/leases/acquire HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"cli",
    ];
    let mut kept = Vec::new();
    for beginning in beginnings {
        for way in [None, Some(Shutdown::Write), Some(Shutdown::Both)] {
            let mut stream = UnixStream::connect(daemon.socket()).expect("the daemon listens");
            stream.write_all(beginning).expect("a beginning can be written");
            match way {
                Some(way) => stream.shutdown(way).expect("a stream can be shut down"),
                None => kept.push(stream),
            }
        }
    }
    let (_, took) = timed(|| lives(&daemon));
    assert!(took < Duration::from_secs(5), "the next call took {took:?}");
    assert_eq!(daemon.tables(), before);
    drop(kept);
    lives(&daemon);
}

#[test]
fn a_sender_that_shuts_its_side_after_asking_is_answered() {
    let daemon = Daemon::start();
    let body = json!({"client": client()}).to_string();
    let post = format!(
        "POST /v1/runs/0aaea852-e351-4a27-9ee9-f6707b7e4100/release HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for request in [HEALTH, b"GET /v1/ports/65000 HTTP/1.1\r\nhost: x\r\n\r\n", post.as_bytes()] {
        let mut stream = UnixStream::connect(daemon.socket()).expect("the daemon listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.write_all(request).expect("a request can be written");
        stream.shutdown(Shutdown::Write).expect("a side can be shut");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("a reply can be read");
        let reply = Reply::parse(&all).expect("a reply");
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(request));
    }
}

#[test]
fn a_body_that_takes_too_long_is_refused_and_others_are_served_meanwhile() {
    let daemon = Daemon::start();
    let mut slow = UnixStream::connect(daemon.socket()).expect("the daemon listens");
    slow.set_nonblocking(true).expect("a stream can be made so");
    slow.write_all(format!("{ACQUIRE}\r\ncontent-length: 100000\r\n\r\n{{").as_bytes()).expect("it is short");
    let mut all = Vec::new();
    let reply = until("the slow body is refused", || {
        // One blank at a time, so that the connection is never silent.
        drop(slow.write(b" "));
        lives(&daemon);
        let mut piece = [0; 4096];
        if let Ok(read) = slow.read(&mut piece) {
            all.extend_from_slice(&piece[..read]);
        }
        Reply::parse(&all).filter(|reply| serde_json::from_slice::<Value>(&reply.body).is_ok())
    });
    assert_eq!(reply.status, 400);
    assert_eq!(reply.envelope()["error"]["failure"]["class"], "daemon.request_malformed");
}

#[test]
fn a_connection_serves_many_requests_also_after_a_failure() {
    let daemon = Daemon::start();
    let mut stream = UnixStream::connect(daemon.socket()).expect("the daemon listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let mut left = Vec::new();
    for (request, status) in [
        (&b"GET /v1/health HTTP/1.1\r\n\r\n"[..], 200),
        (b"GET /v1/nope HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", 404),
        (b"POST /v1/leases/acquire HTTP/1.1\r\ncontent-length: 4\r\n\r\nnull", 400),
        (b"POST /v1/leases/acquire HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n", 400),
        (b"PUT /v1/config HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", 404),
        (b"GET /v1/claims HTTP/1.1\r\n\r\n", 200),
    ] {
        stream.write_all(request).expect("the connection is kept");
        let reply = next(&mut stream, &mut left);
        assert_eq!(reply.status, status, "{}", String::from_utf8_lossy(request));
        reply.envelope();
    }
    // Two at once are answered in their order.
    stream
        .write_all(b"GET /v1/claims HTTP/1.1\r\n\r\nGET /v1/nope HTTP/1.1\r\n\r\n")
        .expect("the connection is kept");
    assert_eq!(next(&mut stream, &mut left).status, 200);
    assert_eq!(next(&mut stream, &mut left).status, 404);
}

/// The next reply of a kept connection; what came after it stays in `left`.
fn next(stream: &mut UnixStream, left: &mut Vec<u8>) -> Reply {
    loop {
        if let Some(mut reply) = Reply::parse(left) {
            let head = reply.head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|l| l.parse().ok()).expect("a length");
            if reply.body.len() >= length {
                *left = reply.body.split_off(length);
                check_envelope(reply.status, &serde_json::from_slice(&reply.body).expect("JSON"));
                return reply;
            }
        }
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).expect("a reply comes");
        assert!(read > 0, "the connection ended");
        left.extend_from_slice(&piece[..read]);
    }
}
