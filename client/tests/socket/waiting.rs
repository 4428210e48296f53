//! `with_port`, and what it gives back however it goes.

use crate::support::{Asked, CAPABILITIES, Server, health};
use portreeve_client::{Client, LONGEST_WAIT, PortRequest, WithPortError};
use portreeve_leases::ConfirmRequest;
use portreeve_records::{ClaimIdentity, Id, Named, Pid, PortNumber, WorkspaceRoot};
use portreeve_registry::{FailureClass, Secret};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

const RUN: &str = "0198c0de-0000-7000-8000-00000000000a";

/// A daemon that gives port 3000, is confirmed at the third attempt, and tells what it was asked.
fn daemon(acquired: Value) -> (Server, Receiver<Asked>) {
    let (asked_for, asked) = mpsc::channel();
    let attempts = AtomicUsize::new(0);
    let server = Server::start(move |_, peer| {
        while let Some(asked) = peer.next() {
            let lease = "0198c0de-0000-7000-8000-00000000000b";
            let claim = "0198c0de-0000-7000-8000-00000000000c";
            let path = asked.line.split(' ').nth(1).unwrap().to_owned();
            match path.rsplit('/').next().unwrap() {
                "health" => {
                    peer.answer(&asked, health(1, 1, &CAPABILITIES));
                    continue;
                }
                "config" => peer
                    .answer(&asked, serde_json::to_value(portreeve_settings::Settings::default()).unwrap()),
                "acquire" => {
                    let mut data = json!({"claimId": claim, "port": 3000});
                    if acquired.is_null() {
                        data["leaseId"] = json!(lease);
                        data["leaseToken"] = asked.body["leaseToken"].clone();
                        data["expiresAt"] = json!("2026-01-01T00:00:00.000Z");
                    } else {
                        data.as_object_mut().unwrap().extend(acquired.as_object().unwrap().clone());
                    }
                    peer.answer(&asked, data);
                }
                "confirm" if attempts.fetch_add(1, Ordering::SeqCst) < 2 => {
                    let error = json!({"code": "conflict", "message": "nothing listens", "retryable": true,
                        "details": {"port": 3000, "rootPid": 7}});
                    peer.refuse(&asked, 409, error);
                }
                "confirm" => peer.answer(
                    &asked,
                    json!({"claimId": claim, "leaseId": lease, "runId": RUN, "port": 3000,
                        "confirmedAt": "2026-01-01T00:00:00.000Z"}),
                ),
                "renew" => {
                    peer.answer(&asked, json!({"leaseId": lease, "expiresAt": "2026-01-01T00:00:00.000Z"}))
                }
                "abandon" | "release" => {
                    peer.answer(&asked, json!({"changed": true, "at": "2026-01-01T00:00:00.000Z"}));
                }
                other => panic!("nobody asks for {other}"),
            }
            asked_for.send(asked).unwrap();
        }
    });
    (server, asked)
}

fn request() -> PortRequest {
    let name = |text| Named::parse(text).unwrap();
    let claim = ClaimIdentity::new(
        name("shop"),
        WorkspaceRoot::parse("/w").unwrap(),
        name("web"),
        Named::default_endpoint(),
    );
    PortRequest { preferred: PortNumber::new(3000), ..PortRequest::new(claim) }
}

fn paths(asked: &Receiver<Asked>) -> Vec<String> {
    let verb = |asked: Asked| asked.line.split(' ').nth(1).unwrap().rsplit('/').next().unwrap().to_owned();
    asked.try_iter().map(verb).filter(|verb| verb != "config" && verb != "renew").collect()
}

fn started(port: PortNumber) -> impl Future<Output = Result<(Pid, u16), Infallible>> {
    std::future::ready(Ok((Pid::new(7).unwrap(), port.get())))
}

#[tokio::test]
async fn it_waits_for_the_listener_and_releases_afterwards() {
    let (server, asked) = daemon(Value::Null);
    let result = server.client().with_port(request(), started, async |port| port + 1).await;
    assert_eq!(result.unwrap(), 3001);
    assert_eq!(paths(&asked), ["acquire", "confirm", "confirm", "confirm", "release"]);
}

#[tokio::test]
async fn a_server_that_does_not_start_gives_the_port_back() {
    let (server, asked) = daemon(Value::Null);
    let start = |_| std::future::ready(Err::<(Pid, ()), _>("no"));
    let error = server.client().with_port(request(), start, async |()| ()).await.unwrap_err();
    assert!(matches!(error, WithPortError::Start("no")));
    let asked: Vec<Asked> = asked.try_iter().collect();
    let abandon = asked.iter().find(|asked| asked.line.contains("/abandon")).unwrap();
    assert_eq!(abandon.body["reason"], "startup-error");
    let acquire = asked.iter().find(|asked| asked.line.contains("/acquire")).unwrap();
    assert_eq!(abandon.body["leaseToken"], acquire.body["leaseToken"]);
    assert_eq!(acquire.body["answerRunning"], true);
    assert_eq!(acquire.body["allocation"]["replacementPolicy"], "never");
}

#[tokio::test]
async fn what_runs_already_is_told() {
    let (server, asked) = daemon(json!({"state": "running", "runId": Id::fresh(), "changed": false}));
    let start = |_| -> std::future::Pending<Result<(Pid, ()), Infallible>> { unreachable!() };
    let error = server.client().with_port(request(), start, async |()| ()).await.unwrap_err();
    assert!(matches!(error, WithPortError::Running(found) if found.port.get() == 3000));
    assert_eq!(paths(&asked), ["acquire"]);
}

#[tokio::test]
async fn where_waiting_cannot_help_it_does_not_wait() {
    for hopeless in
        [json!({"listeners": [{"pid": 1}]}), json!({"unseenHolders": 1}), json!({"rootLives": false})]
    {
        let server = Server::start(move |_, peer| {
            while let Some(asked) = peer.next_after_greeting() {
                let error =
                    json!({"code": "conflict", "message": "no", "retryable": true, "details": hopeless});
                peer.refuse(&asked, 409, error);
            }
        });
        let confirm = ConfirmRequest {
            lease_id: Id::fresh(),
            lease_token: Secret::random(),
            root_pid: Pid::new(7).unwrap(),
            answer_settled: None,
        };
        let begun = std::time::Instant::now();
        let refused = server.client().confirm_when_listening(&confirm, LONGEST_WAIT).await.unwrap_err();
        assert_eq!(refused.class, FailureClass::Conflict);
        assert!(begun.elapsed() < LONGEST_WAIT / 4);
    }
}

#[tokio::test]
async fn dropping_it_gives_back_what_it_holds() {
    let (server, asked) = daemon(Value::Null);
    let client = server.client();
    let start = |_| std::future::pending::<Result<(Pid, ()), Infallible>>();
    drop_once_asked(&client, start, &asked, "acquire", "abandon").await;
    drop_once_asked(
        &client,
        |port| async move { started(port).await.map(|(pid, _)| (pid, ())) },
        &asked,
        "confirm",
        "release",
    )
    .await;
}

/// Runs `with_port` with a body that never ends, drops it a while after `until`, and waits for `farewell`.
async fn drop_once_asked<F>(
    client: &Client,
    start: impl FnOnce(PortNumber) -> F + Send + 'static,
    asked: &Receiver<Asked>,
    until: &str,
    farewell: &str,
) where
    F: Future<Output = Result<(Pid, ()), Infallible>> + Send,
{
    let (in_body, body) = tokio::sync::oneshot::channel::<()>();
    let owned = client.clone();
    let whole = tokio::spawn(async move {
        let body = async move |()| {
            drop(in_body);
            std::future::pending::<()>().await;
        };
        owned.with_port(request(), start, body).await
    });
    if until == "confirm" {
        body.await.unwrap_err();
    } else {
        wait_for(asked, until).await;
        // The reply has to arrive before there is anything to give back.
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    whole.abort();
    wait_for(asked, farewell).await;
}

async fn wait_for(asked: &Receiver<Asked>, verb: &str) {
    for _ in 0..10_000 {
        if asked.try_iter().any(|asked| asked.line.contains(&format!("/{verb} "))) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{verb} was never asked");
}

#[tokio::test]
async fn without_a_daemon_nothing_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let client = crate::support::client(&directory.path().join("s"));
    let start = |_| -> std::future::Pending<Result<(Pid, ()), Infallible>> { unreachable!() };
    let error = client.with_port(request(), start, async |()| ()).await.unwrap_err();
    let WithPortError::Refused(failure) = error else { panic!("{error}") };
    assert_eq!(failure.class, FailureClass::DaemonSocketAbsent);
}
