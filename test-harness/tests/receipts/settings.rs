//! Settings: bounds by field, impact, and at once.

use crate::support::{Scene, changes, class};
use portreeve_test_harness::machine::until;
use serde_json::json;

const WHAT: &str = "settings";

#[test]
fn a_preview_shows_what_is_what_would_be_and_changes_nothing() {
    let scene = Scene::new();
    let before = scene.daemon.tables();
    let receipt = scene.preview(WHAT, json!({"updates": {"leaseTtlMilliseconds": 20_000}}));
    assert_eq!(receipt["action"], "settings.update");
    assert_eq!(receipt["target"], json!({"type": "settings", "id": "global"}));
    assert_eq!(receipt["proposal"]["updates"], json!({"leaseTtlMilliseconds": 20_000}));
    assert_eq!(receipt["proposal"]["proposed"]["leaseTtlMilliseconds"], 20_000);
    assert_eq!(receipt["observed"]["current"]["leaseTtlMilliseconds"], 15_000);
    assert_eq!(scene.daemon.tables(), before);
    assert_eq!(scene.daemon.get("/v1/config")["leaseTtlMilliseconds"], 15_000);
}

#[test]
fn an_execute_is_in_force_at_once_and_after_a_restart() {
    let mut scene = Scene::new();
    let receipt = scene.preview(WHAT, json!({"updates": {"leaseTtlMilliseconds": 20_000}}));
    let done = scene.execute(WHAT, &receipt);
    assert_eq!(done["changed"], true);
    assert_eq!(done["replayed"], false);
    assert_eq!(done["result"]["settings"]["leaseTtlMilliseconds"], 20_000);
    assert_eq!(scene.daemon.get("/v1/config")["leaseTtlMilliseconds"], 20_000);
    let events = scene.daemon.get("/v1/history?eventType=config.updated");
    assert_eq!(events["items"][0]["entityId"], "server");
    assert_eq!(events["items"][0]["payload"]["settings"], done["result"]["settings"]);
    let home = tempfile::tempdir().unwrap();
    scene.daemon.kill();
    let kept = home.path().join("home");
    let copied = std::process::Command::new("cp").arg("-a").arg(scene.daemon.home()).arg(&kept).status();
    assert!(copied.unwrap().success());
    let again = portreeve_test_harness::machine::Daemon::start_in(&kept);
    assert_eq!(again.get("/v1/config")["leaseTtlMilliseconds"], 20_000);
}

#[test]
fn every_broken_bound_is_named_with_what_is_and_what_would_be() {
    let scene = Scene::new();
    for path in ["/v1/actions/settings/preview", "/v1/config"] {
        let before = scene.daemon.tables();
        let updates = json!({"leaseTtlMilliseconds": 5, "diagnosticLogFiles": 17});
        let (status, error) = scene.daemon.refused("POST", path, Some(json!({"updates": updates})));
        assert_eq!((status, error["code"].as_str()), (400, Some("invalid_input")));
        let issues = &error["details"]["issues"];
        assert_eq!(issues[0]["path"], json!(["leaseTtlMilliseconds"]));
        assert_eq!(issues[0]["code"], "too_small");
        assert_eq!(issues[1]["path"], json!(["diagnosticLogFiles"]));
        assert_eq!(issues[1]["code"], "too_big");
        assert_eq!(error["details"]["current"]["leaseTtlMilliseconds"], 15_000);
        assert_eq!(error["details"]["proposed"]["leaseTtlMilliseconds"], 5);
        assert_eq!(scene.daemon.tables(), before);
    }
}

#[test]
fn unknown_and_immutable_fields_and_nothing_at_all_are_refused() {
    let scene = Scene::new();
    for updates in
        [json!({"socketPath": "/x"}), json!({"home": "/x", "leaseTtlMilliseconds": 2000}), json!({})]
    {
        let body = Some(json!({"updates": updates}));
        let (status, _) = scene.daemon.refused("POST", "/v1/actions/settings/preview", body);
        assert_eq!(status, 400);
    }
}

#[test]
fn a_preview_shows_the_claims_outside_new_ranges_and_the_leases_that_are_touched() {
    let scene = Scene::new();
    let claimed = scene.claim("web");
    let lease = scene.daemon.acquire(scene.tree.path(), "api", json!({}));
    let updates =
        json!({"automaticPortRanges": [{"start": 50_000, "end": 50_010}], "leaseTtlMilliseconds": 2000});
    let receipt = scene.preview(WHAT, json!({"updates": updates}));
    let impact = &receipt["observed"]["impact"];
    assert_eq!(impact["claims"], json!([{"claimId": claimed.claim, "port": claimed.port}]));
    assert_eq!(impact["claimCount"], 1);
    assert_eq!(impact["leases"][0]["leaseId"], lease["leaseId"]);
    assert_eq!(impact["leases"][0]["leaseTimeChanges"], true);
}

#[test]
fn settings_changed_meanwhile_make_the_receipt_stale_until_they_are_back() {
    let scene = Scene::new();
    let receipt = scene.preview(WHAT, json!({"updates": {"leaseTtlMilliseconds": 20_000}}));
    scene.daemon.post("/v1/config", json!({"updates": {"leaseTtlMilliseconds": 30_000}}));
    let (status, error) = scene.refused(WHAT, &receipt);
    assert_eq!((status, class(&error)), (409, "receipt.changed"));
    assert_eq!(changes(&error), ["current.leaseTtlMilliseconds"]);
    assert_eq!(error["details"]["changes"][0]["before"], 15_000);
    assert_eq!(error["details"]["changes"][0]["after"], 30_000);
    assert_eq!(error["details"]["receiptCode"], "receipt_mismatch");
    assert_eq!(error["retryable"], false);
    scene.daemon.post("/v1/config", json!({"updates": {"leaseTtlMilliseconds": 15_000}}));
    assert_eq!(scene.execute(WHAT, &receipt)["changed"], true);
}

#[test]
fn a_claim_or_lease_that_comes_to_be_touched_makes_the_receipt_stale() {
    let scene = Scene::new();
    let updates = json!({"automaticPortRanges": [{"start": 50_000, "end": 50_010}]});
    let receipt = scene.preview(WHAT, json!({"updates": updates}));
    let lease = scene.daemon.acquire(scene.tree.path(), "web", json!({}));
    let (_, error) = scene.refused(WHAT, &receipt);
    assert_eq!(changes(&error), [format!("leases.{}", lease["leaseId"].as_str().unwrap())]);
    let id = lease["leaseId"].as_str().unwrap();
    let body = json!({"leaseToken": lease["leaseToken"], "reason": "client-cancelled"});
    scene.daemon.post(&format!("/v1/leases/{id}/abandon"), body);
    let claimed = scene.claim("api");
    let (_, error) = scene.refused(WHAT, &receipt);
    assert_eq!(changes(&error), [format!("claims.{}", claimed.claim)]);
}

#[test]
fn a_shorter_history_is_cut_at_once_and_the_log_follows() {
    let scene = Scene::with(json!({"historyMaximumEvents": 200}));
    for n in 0..20 {
        let lease = scene.daemon.acquire(scene.tree.path(), &format!("c{n}"), json!({}));
        let id = lease["leaseId"].as_str().unwrap();
        for _ in 0..8 {
            scene.daemon.post(&format!("/v1/leases/{id}/renew"), json!({"leaseToken": lease["leaseToken"]}));
        }
    }
    scene
        .daemon
        .post("/v1/config", json!({"updates": {"historyMaximumEvents": 100, "diagnosticLogFiles": 1}}));
    until("the history is cut", || {
        let events = scene.daemon.get("/v1/history?limit=200");
        (events["items"].as_array()?.len() == 100).then_some(())
    });
}
