//! Calls that go well, and the connections that they keep.

use crate::support::{CAPABILITIES, Server, envelope, health, reply};
use portreeve_claims::{ClaimFilter, ClaimRef, GetClaim, ListClaims};
use portreeve_client::{Ask, Client};
use portreeve_leases::{AbandonLease, AbandonRequest};
use portreeve_records::{AbandonReason, Id};
use portreeve_registry::{Call, FailureClass, Method, RequestId, Secret};
use serde_json::{Map, Value, json};
use std::sync::mpsc;

fn get(target: &str) -> Call {
    Call { method: Method::Get, target: target.into(), body: None, capability: "claims-v1" }
}

async fn echo(client: &Client) -> Value {
    client.ask(&get("/v1/echo"), Ask::fresh()).await.unwrap()
}

#[tokio::test]
async fn a_request_says_who_asks_and_one_connection_is_kept() {
    let (asked, seen) = mpsc::channel();
    let server = Server::start(move |_, peer| {
        while let Some(next) = peer.next() {
            let data = if next.is_for("/v1/health") { health(1, 1, &CAPABILITIES) } else { json!({}) };
            peer.answer(&next, data);
            asked.send(next).unwrap();
        }
    });
    let client = server.client();
    let id = RequestId::fresh();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let ask = Ask {
        request_id: id,
        tool: Some("leases_x".into()),
        traceparent: Some(trace.into()),
        ..Ask::fresh()
    };
    let mut body = Map::new();
    body.insert("n".into(), json!(1));
    let post =
        Call { method: Method::Post, target: "/v1/x".into(), body: Some(body), capability: "claims-v1" };
    client.ask(&post, ask).await.unwrap();
    echo(&client).await;

    let seen: Vec<_> = seen.try_iter().collect();
    let lines: Vec<&str> = seen.iter().map(|asked| asked.line.as_str()).collect();
    assert_eq!(lines, ["GET /v1/health HTTP/1.1", "POST /v1/x HTTP/1.1", "GET /v1/echo HTTP/1.1"]);
    assert_eq!(seen[1].id(), id.to_string());
    assert_eq!(seen[1].header("x-portreeve-run-id"), Some("0198c0de-0000-7000-8000-000000000001"));
    assert_eq!(seen[1].header("x-portreeve-label"), Some("büro"));
    assert_eq!(seen[1].header("x-portreeve-tool"), Some("leases_x"));
    assert_eq!(seen[1].header("traceparent"), Some(trace));
    assert_eq!(
        seen[1].body,
        json!({"n": 1, "client": {
            "softwareVersion": "9.9.9", "protocol": {"minimum": 1, "maximum": 1},
            "requiredCapabilities": ["claims-v1"],
            "origin": {"kind": "mcp", "runId": "0198c0de-0000-7000-8000-000000000001", "label": "büro"}}})
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_kept_connection_that_died_is_made_anew() {
    let (closed, is_closed) = mpsc::channel();
    let server = Server::start(move |number, peer| {
        while let Some(asked) = peer.next_after_greeting() {
            peer.answer(&asked, json!(number));
            if asked.header("x-portreeve-tool") == Some("last") {
                peer.stream.shutdown(std::net::Shutdown::Both).unwrap();
                closed.send(()).unwrap();
            }
        }
    });
    let client = server.client();
    assert_eq!(echo(&client).await, 0);
    assert_eq!(
        client.ask(&get("/v1/echo"), Ask { tool: Some("last".into()), ..Ask::fresh() }).await.unwrap(),
        0
    );
    is_closed.recv().unwrap();
    assert_eq!(echo(&client).await, 1);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_second_reply_is_nobodys() {
    for together in [true, false] {
        let server = Server::start(move |number, peer| {
            while let Some(asked) = peer.next_after_greeting() {
                let once = reply(200, envelope(&asked, json!(number)));
                if together {
                    peer.send(&[once.clone(), once].concat());
                } else {
                    peer.send(&once);
                    peer.send(&once);
                }
            }
        });
        let client = server.client();
        for number in 0..5 {
            assert_eq!(echo(&client).await, number, "together: {together}");
        }
    }
}

#[tokio::test]
async fn at_most_four_connections_are_kept() {
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(8));
    let (ended, end) = mpsc::channel();
    let server = Server::start(move |number, peer| {
        while let Some(asked) = peer.next_after_greeting() {
            barrier.wait();
            peer.answer(&asked, json!(number));
        }
        ended.send(()).unwrap();
    });
    let client = server.client();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let client = client.clone();
        calls.spawn(async move { echo(&client).await });
    }
    calls.join_all().await;
    tokio::task::yield_now().await;
    for _ in 0..4 {
        let end = end.recv_timeout(std::time::Duration::from_secs(10));
        end.expect("the fifth to eighth connection are closed");
        tokio::task::yield_now().await;
    }
    assert!(end.try_recv().is_err());
}

#[tokio::test]
async fn a_refusal_is_the_daemons_failure_and_keeps_the_connection() {
    let server = Server::start(|_, peer| {
        while let Some(asked) = peer.next_after_greeting() {
            let error = json!({"code": "not_found", "message": "no such claim", "retryable": false,
                "details": {"claimId": "x"},
                "failure": {"class": "resolve.not_found", "boundary": "daemon", "phase": "resolve",
                    "outcome": "not_started", "nextStep": {"text": "list the claims", "tool": "claims_list"}}});
            peer.refuse(&asked, 404, error);
        }
    });
    let client = server.client();
    for _ in 0..2 {
        let failure = client.call::<GetClaim>(&ClaimRef { claim_id: Id::fresh() }).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::NotFound);
        assert_eq!(failure.message, "no such claim");
        assert_eq!(failure.details["claimId"], "x");
        assert_eq!(failure.next.tool.as_deref(), Some("claims_list"));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn lists_are_walked_to_their_end_or_their_bound() {
    let claim = |n: usize| {
        json!({"id": Id::fresh(), "mode": "sticky", "assignedPort": 3000 + n, "preferredPort": null,
            "exactPort": null, "assignmentExpiresAt": null, "createdAt": "t", "updatedAt": "t", "lastUsedAt": "t",
            "identity": {"project": "p", "workspaceRoot": "/w", "service": "c", "component": "c",
                "endpoint": "default", "transport": "tcp"}})
    };
    let server = Server::start(move |_, peer| {
        while let Some(asked) = peer.next_after_greeting() {
            let at: usize = asked.line.split("afterCursor=").nth(1).map_or(0, |rest| {
                rest.split(['&', ' ']).next().and_then(|cursor| cursor.parse().ok()).unwrap_or(0)
            });
            let next = (at < 2).then(|| (at + 1).to_string());
            let items = [claim(2 * at), claim(2 * at + 1)];
            peer.answer(&asked, json!({"items": items, "page": {"nextCursor": next}}));
        }
    });
    let client = server.client();
    let ports = |rows: &[portreeve_records::Claim]| -> Vec<u16> {
        rows.iter().map(|claim| claim.assigned_port.unwrap().get()).collect()
    };
    let all = client.list::<ListClaims>(ClaimFilter::default(), 1000).await.unwrap();
    assert_eq!((ports(&all.rows), all.more), (vec![3000, 3001, 3002, 3003, 3004, 3005], false));
    let some = client.list::<ListClaims>(ClaimFilter::default(), 3).await.unwrap();
    assert!(some.more);
}

#[tokio::test]
async fn a_credential_is_sent_and_not_shown() {
    let server = Server::start(|_, peer| {
        while let Some(asked) = peer.next_after_greeting() {
            let token = asked.body["leaseToken"].clone();
            peer.answer(&asked, json!({"changed": true, "at": token}));
        }
    });
    let token = Secret::random();
    let request = AbandonRequest {
        lease_id: Id::fresh(),
        lease_token: token.clone(),
        reason: AbandonReason::ClientCancelled,
        answer_settled: None,
    };
    let abandoned = server.client().call::<AbandonLease>(&request).await.unwrap();
    assert_eq!(abandoned.at, token.expose());
    assert!(!format!("{request:?}").contains(token.expose()));
}
