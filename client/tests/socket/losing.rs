//! Replies that are lost, cut, garbled, foreign, too large or too late.

use crate::support::{Asked, CAPABILITIES, Peer, Server, client_within, envelope, health, reply};
use portreeve_client::{Ask, Client};
use portreeve_registry::{Call, Failure, FailureClass, Method, Outcome};
use serde_json::json;
use std::net::Shutdown;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longer than any test takes: who waits for it has failed.
const NEVER: Duration = Duration::from_secs(600);

async fn ask(client: &Client) -> Result<serde_json::Value, Failure> {
    let call = Call { method: Method::Post, target: "/v1/x".into(), body: None, capability: "claims-v1" };
    client.ask(&call, Ask::fresh()).await
}

/// A server whose first connection does `first` with the first call; later ones behave.
fn misbehaving(first: impl Fn(&mut Peer, &Asked) + Send + Sync + 'static) -> Server {
    Server::start(move |number, peer| {
        while let Some(asked) = peer.next_after_greeting() {
            if number == 0 {
                first(peer, &asked);
                return;
            }
            peer.answer(&asked, json!("fine"));
        }
    })
}

/// The first call fails as said, at once; the next one works on a new connection.
#[track_caller]
fn check(
    class: FailureClass,
    first: impl Fn(&mut Peer, &Asked) + Send + Sync + 'static,
) -> impl Future<Output = ()> {
    let server = misbehaving(first);
    let caller = std::panic::Location::caller();
    async move {
        let client = client_within(&server.path(), NEVER);
        let failure = ask(&client).await.unwrap_err();
        assert_eq!((failure.class, failure.outcome), (class, Outcome::Unknown), "{caller}: {failure}");
        assert_eq!(ask(&client).await.unwrap(), "fine", "{caller}");
        assert_eq!(server.connections(), 2, "{caller}");
    }
}

/// Blocks until the client hangs up.
fn hold(peer: &mut Peer) {
    while peer.next().is_some() {}
}

#[tokio::test]
async fn a_daemon_that_dies_after_the_request_may_have_done_it() {
    check(FailureClass::SocketLostAfterSend, |_, _| {}).await;
}

#[tokio::test]
async fn a_half_closed_connection_is_lost_at_once() {
    check(FailureClass::SocketLostAfterSend, |peer, _| {
        peer.stream.shutdown(Shutdown::Write).unwrap();
        hold(peer);
    })
    .await;
}

#[tokio::test]
async fn a_reply_cut_anywhere_is_never_read_in_part() {
    let length = {
        // Ids, and so replies, are all of one length.
        let id = portreeve_registry::RequestId::fresh();
        let body = json!({"protocolVersion": 1, "requestId": id, "data": {"a": [1, 2], "b": "ü"}});
        reply(200, body.to_string()).len()
    };
    let server = Server::start(move |number, peer| {
        while let Some(asked) = peer.next_after_greeting() {
            let whole = reply(200, envelope(&asked, json!({"a": [1, 2], "b": "ü"})));
            assert_eq!(whole.len(), length);
            peer.send(&whole[..number.min(length)]);
            if number < length {
                return;
            }
        }
    });
    let client = client_within(&server.path(), NEVER);
    for cut in 0..length {
        let failure = ask(&client).await.unwrap_err();
        let class =
            if cut == 0 { FailureClass::SocketLostAfterSend } else { FailureClass::SocketReplyTruncated };
        assert_eq!(failure.class, class, "cut after byte {cut} of {length}: {failure}");
    }
    assert_eq!(ask(&client).await.unwrap(), json!({"a": [1, 2], "b": "ü"}));
}

#[tokio::test]
async fn a_chunked_reply_cut_in_the_middle_is_truncated() {
    check(FailureClass::SocketReplyTruncated, |peer, asked| {
        let body = envelope(asked, json!(1));
        peer.send(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n");
        peer.send(format!("{:x}\r\n{body}\r\n", body.len()).as_bytes());
    })
    .await;
}

#[tokio::test]
async fn what_is_no_reply_is_malformed() {
    let malformed = FailureClass::SocketReplyMalformed;
    check(malformed, |peer, _| _ = peer.send(b"\x00\x01 what is this?\r\n\r\n")).await;
    check(malformed, |peer, _| _ = peer.send(&reply(200, "<html>"))).await;
    check(malformed, |peer, _| _ = peer.send(&reply(502, "Bad Gateway"))).await;
    check(malformed, |peer, _| _ = peer.send(&reply(200, ""))).await;
    check(malformed, |peer, _| _ = peer.send(&reply(200, b"{\"data\": \"\xff\"}"))).await;
    check(malformed, |peer, _| _ = peer.send(&reply(200, "[1]"))).await;
    check(malformed, |peer, asked| _ = peer.send(&reply(200, envelope(asked, json!(1)) + "{}"))).await;
    check(malformed, |peer, asked| _ = peer.send(&reply(500, envelope(asked, json!(1))))).await;
    check(malformed, |peer, asked| {
        let body = json!({"protocolVersion": 3, "requestId": asked.id(), "data": 1}).to_string();
        peer.send(&reply(200, body));
    })
    .await;
    check(malformed, |peer, _| _ = peer.send(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"))
        .await;
}

#[tokio::test]
async fn a_reply_to_another_request_is_mismatched() {
    check(FailureClass::SocketReplyMismatched, |peer, _| {
        let other = portreeve_registry::RequestId::fresh();
        let body = json!({"protocolVersion": 1, "requestId": other, "data": 1}).to_string();
        peer.send(&reply(200, body));
    })
    .await;
}

#[tokio::test]
async fn a_reply_too_large_is_not_read() {
    check(FailureClass::SocketReplyTooLarge, |peer, _| {
        peer.send(b"HTTP/1.1 200 X\r\ncontent-length: 3145728\r\n\r\n{");
        hold(peer);
    })
    .await;
    // Endless: it stops when the client hangs up, long before all of it was sent.
    check(FailureClass::SocketReplyTooLarge, |peer, _| {
        peer.send(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunk = format!("{:x}\r\n{}\r\n", 65536, " ".repeat(65536));
        let chunks = (0..1_000_000).take_while(|_| peer.send(chunk.as_bytes())).count();
        assert!(chunks < 100, "{chunks} chunks were taken");
    })
    .await;
}

#[tokio::test]
async fn the_deadline_covers_the_whole_call() {
    let short = Duration::from_millis(150);
    let late = |server: &Server| client_within(&server.path(), short);

    let silent = Server::start(|_, peer| hold(peer));
    let failure = ask(&late(&silent)).await.unwrap_err();
    assert_eq!((failure.class, failure.outcome), (FailureClass::SocketDeadline, Outcome::NotStarted));

    let stuck = Server::start(|_, peer| {
        peer.next_after_greeting();
        hold(peer);
    });
    let failure = ask(&late(&stuck)).await.unwrap_err();
    assert_eq!((failure.class, failure.outcome), (FailureClass::SocketDeadline, Outcome::Unknown));

    let (hung_up, was_hung_up) = mpsc::channel();
    let dribbling = Server::start(move |_, peer| {
        let Some(asked) = peer.next_after_greeting() else { return };
        let whole = reply(200, envelope(&asked, json!("x".repeat(10_000))));
        for byte in whole {
            if !peer.send(&[byte]) {
                hung_up.send(()).unwrap();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let begun = Instant::now();
    let client = late(&dribbling);
    let failure = ask(&client).await.unwrap_err();
    assert_eq!((failure.class, failure.outcome), (FailureClass::SocketDeadline, Outcome::Unknown));
    assert!(begun.elapsed() < Duration::from_secs(5));
    tokio::task::yield_now().await;
    was_hung_up.recv_timeout(Duration::from_secs(10)).expect("the late call's connection is closed");
}

#[tokio::test]
async fn a_late_answer_to_the_greeting_sends_nothing_more() {
    let (asked_for, seen) = mpsc::channel();
    let server = Server::start(move |_, peer| {
        let greeting = peer.next().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        peer.answer(&greeting, health(1, 1, &CAPABILITIES));
        asked_for.send(peer.next().is_some()).unwrap();
    });
    let failure = ask(&client_within(&server.path(), Duration::from_millis(50))).await.unwrap_err();
    assert_eq!(failure.outcome, Outcome::NotStarted);
    tokio::task::yield_now().await;
    assert!(!seen.recv_timeout(Duration::from_secs(10)).unwrap());
}

#[tokio::test]
async fn a_dropped_call_hangs_up() {
    let (received, is_received) = mpsc::channel();
    let (ended, has_ended) = mpsc::channel();
    let server = Server::start(move |_, peer| {
        peer.next_after_greeting().unwrap();
        received.send(()).unwrap();
        hold(peer);
        ended.send(()).unwrap();
    });
    let client = server.client();
    let call = tokio::spawn(async move { ask(&client).await });
    while is_received.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    tokio::task::yield_now().await;
    has_ended.recv_timeout(Duration::from_secs(10)).expect("the connection is closed");
}
