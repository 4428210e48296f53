//! The daemon is killed in the middle of an execute, or takes longer than a call.

use crate::support::{Started, Temper, class, id, lives};
use portreeve_test_harness::machine::{Daemon, ask, free_port, until};
use serde_json::{Value, json};
use std::path::Path;

/// A daemon in `home` with a stubborn server confirmed on a port, and a receipt to end it by force.
fn about_to_kill(home: &Path, tree: &Path, grace: u64) -> (Daemon, Started, u16, Value) {
    let daemon = Daemon::start_in(home);
    daemon.post("/v1/config", json!({"updates": {"gracefulShutdownMilliseconds": grace}}));
    let port = free_port();
    let lease = daemon.acquire(tree, "web", json!({"exactPort": port}));
    let server = Started::listen(port, Temper::Stubborn, tree);
    let path = format!("/v1/leases/{}/confirm", lease["leaseId"].as_str().unwrap());
    daemon.post(&path, json!({"leaseToken": lease["leaseToken"], "rootPid": server.root()}));
    let preview = format!("/v1/actions/ports/{port}/reclaim/preview");
    let receipt = daemon.post(&preview, json!({"policy": "force-after-grace"}));
    (daemon, server, port, receipt)
}

fn state(home: &Path) -> String {
    let path = home.join(portreeve_daemon::store::FILE_NAME);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = rusqlite::Connection::open_with_flags(path, flags).unwrap();
    conn.query_row("SELECT state FROM receipt", (), |row| row.get(0)).unwrap()
}

#[test]
fn a_receipt_that_a_killed_daemon_was_executing_is_unknown_and_never_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let (mut daemon, server, port, receipt) = about_to_kill(&home, directory.path(), 60_000);
    let path = format!("/v1/actions/ports/{port}/reclaim/execute");
    let body = json!({"receiptId": id(&receipt)});
    std::thread::scope(|scope| {
        let socket = daemon.socket().to_owned();
        let (path, body) = (path.clone(), body.to_string());
        scope.spawn(move || {
            // The daemon dies over it.
            drop(portreeve_test_harness::machine::raw(
                &socket,
                "POST",
                &path,
                Some(with_client(&body).as_bytes()),
            ));
        });
        until("it is executing", || (state(&home) == "executing").then_some(()));
        daemon.kill();
    });
    let daemon = Daemon::start_in(&home);
    let before = daemon.tables();
    let (status, error) = daemon.refused("POST", &path, Some(body.clone()));
    assert_eq!((status, class(&error)), (409, "receipt.outcome_unknown"), "{error}");
    assert_eq!(error["failure"]["outcome"], "unknown");
    assert_eq!(error["details"]["receiptId"], receipt["receiptId"]);
    // With fresh evidence: the server was asked to end, and lives.
    assert_eq!(error["details"]["observed"]["outcome"], "would-terminate");
    assert_eq!(error["details"]["observed"]["targets"][0]["pid"], server.pid());
    assert!(error["details"]["executor"]["pid"].is_u64());
    assert!(lives(server.pid()));
    let (_, again) = daemon.refused("POST", &path, Some(body));
    assert_eq!(class(&again), "receipt.outcome_unknown");
    assert_eq!(daemon.tables(), before, "nothing is repeated");
    // Another preview is good again.
    daemon.post("/v1/config", json!({"updates": {"gracefulShutdownMilliseconds": 100}}));
    let preview = format!("/v1/actions/ports/{port}/reclaim/preview");
    let fresh = daemon.post(&preview, json!({"policy": "force-after-grace"}));
    let done = daemon.post(&path, json!({"receiptId": id(&fresh)}));
    assert_eq!(done["result"]["outcome"], "terminated");
}

fn with_client(body: &str) -> String {
    let mut body: Value = serde_json::from_str(body).unwrap();
    body["client"] = portreeve_test_harness::machine::client();
    body.to_string()
}

#[test]
fn a_daemon_killed_before_the_execute_leaves_the_receipt_good() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let (mut daemon, mut server, port, receipt) = about_to_kill(&home, directory.path(), 100);
    daemon.kill();
    let daemon = Daemon::start_in(&home);
    let path = format!("/v1/actions/ports/{port}/reclaim/execute");
    let done = daemon.post(&path, json!({"receiptId": id(&receipt)}));
    assert_eq!(done["result"]["outcome"], "terminated");
    assert!(server.ended());
}

#[test]
fn an_execute_that_takes_longer_than_a_call_says_so_and_is_asked_again() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let (daemon, mut server, port, receipt) = about_to_kill(&home, directory.path(), 19_000);
    let path = format!("/v1/actions/ports/{port}/reclaim/execute");
    let body = json!({"receiptId": id(&receipt)});
    let (status, error) = daemon.refused("POST", &path, Some(body.clone()));
    assert_eq!((status, error["retryable"].as_bool()), (409, Some(true)), "{error}");
    assert!(error["message"].as_str().unwrap().contains("still executing"), "{error}");
    assert_eq!(error["details"]["receiptId"], receipt["receiptId"]);
    assert_eq!(error["failure"]["outcome"], "unknown");
    let (status, reply) = ask(daemon.socket(), "POST", &path, Some(body));
    assert_eq!(status, 200, "{reply}");
    assert_eq!((&reply["data"]["changed"], &reply["data"]["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(reply["data"]["result"]["outcome"], "terminated");
    assert!(server.ended());
}
