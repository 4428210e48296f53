//! The engine, seen through the plainest change there is.

use crate::support::{Scene, class, id, sql_in};
use portreeve_test_harness::machine::{Daemon, ask};
use serde_json::{Value, json};

const WHAT: &str = "settings";

fn ttl(scene: &Scene, ms: u64) -> Value {
    scene.preview(WHAT, json!({"updates": {"leaseTtlMilliseconds": ms}}))
}

#[test]
fn a_receipt_that_nobody_made_is_unknown() {
    let scene = Scene::new();
    let body = json!({"receiptId": "ea1bca9f-08a5-4759-b942-4baf5d2952cd"});
    let (status, error) = scene.daemon.refused("POST", "/v1/actions/settings/execute", Some(body));
    assert_eq!((status, error["code"].as_str(), class(&error)), (404, Some("not_found"), "receipt.unknown"));
    assert_eq!(error["message"], "Action receipt was not found.");
    let details = &error["details"];
    assert_eq!(details["receiptId"], "ea1bca9f-08a5-4759-b942-4baf5d2952cd");
    assert_eq!(details["receiptCode"], "not_found");
    let (status, error) = scene.daemon.refused("POST", "/v1/actions/settings/execute", Some(json!({})));
    assert_eq!((status, error["code"].as_str()), (400, Some("invalid_input")));
    assert_eq!(error["details"]["issues"][0]["code"], "invalid_type");
}

#[test]
fn a_receipt_of_another_action_or_target_is_refused_and_stays_good() {
    let scene = Scene::new();
    let (one, other) = (scene.claim("web"), scene.claim("api"));
    let what = format!("claims/{}/delete", one.claim);
    let receipt = scene.preview(&what, json!({}));
    for wrong in
        [format!("claims/{}/delete", other.claim), format!("claims/{}/reassign", one.claim), WHAT.to_owned()]
    {
        let before = scene.daemon.tables();
        let (status, error) = scene.refused(&wrong, &receipt);
        assert_eq!((status, class(&error)), (409, "receipt.mismatch"), "{wrong}");
        assert_eq!(error["details"]["receiptCode"], "receipt_mismatch");
        assert_eq!(error["retryable"], false);
        assert_eq!(scene.daemon.tables(), before);
    }
    let done = scene.execute(&what, &receipt);
    assert_eq!(
        done,
        json!({"changed": true, "replayed": false, "result": {"claimId": one.claim, "deleted": true}})
    );
}

#[test]
fn a_second_execute_replays_the_recorded_result() {
    let scene = Scene::new();
    let receipt = ttl(&scene, 20_000);
    let first = scene.execute(WHAT, &receipt);
    let before = scene.daemon.tables();
    let second = scene.execute(WHAT, &receipt);
    assert_eq!(second, json!({"changed": false, "replayed": true, "result": first["result"]}));
    assert_eq!(scene.daemon.tables(), before);
}

#[test]
fn two_executes_at_once_act_once() {
    let scene = Scene::new();
    let receipt = ttl(&scene, 20_000);
    let socket = scene.daemon.socket().to_owned();
    let execute =
        || ask(&socket, "POST", "/v1/actions/settings/execute", Some(json!({"receiptId": id(&receipt)})));
    let replies: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..16).map(|_| scope.spawn(execute)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(replies.iter().all(|(status, _)| *status == 200), "{replies:?}");
    assert_eq!(replies.iter().filter(|(_, body)| body["data"]["changed"] == true).count(), 1);
    assert_eq!(replies.iter().filter(|(_, body)| body["data"]["replayed"] == true).count(), 15);
    let events = scene.daemon.get("/v1/history?eventType=config.updated");
    assert_eq!(events["items"].as_array().unwrap().len(), 1);
}

/// A daemon of its own home that was ended, had its receipts' end moved, and goes on.
fn restarted_after(sql: &str, executed: bool) -> (Daemon, Value, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let mut daemon = Daemon::start_in(&home);
    let updates = json!({"updates": {"leaseTtlMilliseconds": 20_000}});
    let receipt = daemon.post("/v1/actions/settings/preview", updates);
    if executed {
        daemon.post("/v1/actions/settings/execute", json!({"receiptId": id(&receipt)}));
    }
    daemon.kill();
    sql_in(&home, sql);
    (Daemon::start_in(&home), receipt, directory)
}

#[test]
fn a_receipt_outlives_a_restart_of_the_daemon() {
    let (daemon, receipt, _home) = restarted_after("", false);
    let done = daemon.post("/v1/actions/settings/execute", json!({"receiptId": id(&receipt)}));
    assert_eq!(done["changed"], true);
}

#[test]
fn a_receipt_expires_on_the_boot_clock() {
    let (daemon, receipt, _home) =
        restarted_after("UPDATE receipt SET expires_boot_ms = expires_boot_ms - 300001", false);
    let before = daemon.tables();
    let body = Some(json!({"receiptId": id(&receipt)}));
    let (status, error) = daemon.refused("POST", "/v1/actions/settings/execute", body);
    assert_eq!((status, class(&error)), (409, "receipt.expired"));
    assert_eq!(error["details"]["receiptCode"], "receipt_expired");
    assert_eq!(error["details"]["expiresAt"], receipt["expiresAt"]);
    assert_eq!(daemon.tables(), before);
}

#[test]
fn a_receipt_doesnt_heed_the_wall_clock() {
    // As if the clock had been set an hour forward, or back, since.
    for moved in ["2000-01-01T00:00:00.000Z", "2100-01-01T00:00:00.000Z"] {
        let sql = format!("UPDATE receipt SET created_at = '{moved}'");
        let (daemon, receipt, _home) = restarted_after(&sql, false);
        let done = daemon.post("/v1/actions/settings/execute", json!({"receiptId": id(&receipt)}));
        assert_eq!(done["changed"], true);
    }
}

#[test]
fn a_receipt_of_another_boot_is_over() {
    let (daemon, receipt, _home) = restarted_after("UPDATE receipt SET boot_id = 'another'", false);
    let body = Some(json!({"receiptId": id(&receipt)}));
    let (_, error) = daemon.refused("POST", "/v1/actions/settings/execute", body);
    assert_eq!(class(&error), "receipt.expired");
}

#[test]
fn a_finished_receipt_replays_even_when_it_is_expired() {
    let (daemon, receipt, _home) = restarted_after("UPDATE receipt SET expires_boot_ms = 0", true);
    let done = daemon.post("/v1/actions/settings/execute", json!({"receiptId": id(&receipt)}));
    assert_eq!((&done["changed"], &done["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(done["result"]["settings"]["leaseTtlMilliseconds"], 20_000);
}

#[test]
fn previewing_twice_is_harmless_and_an_idempotency_key_gives_the_same_receipt() {
    let scene = Scene::new();
    let (one, two) = (ttl(&scene, 16_000), ttl(&scene, 16_000));
    assert_ne!(id(&one), id(&two));
    let keyed = |ms: u64| {
        let body = json!({"updates": {"leaseTtlMilliseconds": ms}, "idempotencyKey": "k1"});
        scene.daemon.ask("POST", "/v1/actions/settings/preview", Some(body))
    };
    let (first, again) = (keyed(16_000), keyed(16_000));
    assert_eq!(first.0, 200);
    assert_eq!(first.1["data"], again.1["data"]);
    let (status, refused) = keyed(17_000);
    assert_eq!((status, refused["error"]["code"].as_str()), (409, Some("conflict")));
    // Other evidence is something else, too.
    scene.daemon.post("/v1/config", json!({"updates": {"diagnosticLogFiles": 4}}));
    assert_eq!(keyed(16_000).0, 409);
    let body = json!({"updates": {"leaseTtlMilliseconds": 2000}, "idempotencyKey": "x".repeat(257)});
    let (status, _) = scene.daemon.refused("POST", "/v1/actions/settings/preview", Some(body));
    assert_eq!(status, 400);
}

#[test]
fn an_execution_is_told_in_history_with_its_origin() {
    let scene = Scene::new();
    let receipt = ttl(&scene, 20_000);
    scene.execute(WHAT, &receipt);
    let events = scene.daemon.get("/v1/history?eventType=receipt.executed");
    let event = &events["items"][0];
    assert_eq!(event["entityId"], receipt["receiptId"]);
    assert_eq!(event["payload"]["action"], "settings.update");
    assert_eq!(event["origin"]["kind"], "library");
}

#[test]
fn receipts_are_bounded() {
    let scene = Scene::new();
    // As many as there may be, all of them previews.
    scene.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
         INSERT INTO receipt (id, action, target_type, target_id, proposal, plan, observed, evidence_hash, state, \
         created_at, expires_at, expires_boot_ms, boot_id) \
         SELECT 'r' || i, 'a', 't', 'x', '{}', '{}', '{}', 'h', 'previewed', '', '9999', 0, 'b' FROM n",
    );
    let receipt = ttl(&scene, 20_000);
    let conn =
        rusqlite::Connection::open(scene.daemon.home().join(portreeve_daemon::store::FILE_NAME)).unwrap();
    let count: i64 = conn.query_row("SELECT count(*) FROM receipt", (), |row| row.get(0)).unwrap();
    assert_eq!(count, 10_000);
    assert_eq!(scene.execute(WHAT, &receipt)["changed"], true);
}
