//! Pruning claims whose worktrees are gone.

use crate::support::{Scene, Temper, changes, class, timed};
use portreeve_test_harness::machine::worktree;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const WHAT: &str = "claims/prune";

/// A claim for `root`, which is there for the moment.
fn claim_in(scene: &Scene, root: &Path, component: &str) -> Value {
    let lease = scene.daemon.acquire(root, component, json!({}));
    let path = format!("/v1/leases/{}/abandon", lease["leaseId"].as_str().unwrap());
    scene.daemon.post(&path, json!({"leaseToken": lease["leaseToken"], "reason": "client-cancelled"}));
    lease["claimId"].clone()
}

#[test]
fn claims_of_folders_that_are_gone_go_and_others_stay() {
    let scene = Scene::new();
    let gone = worktree();
    let missing = claim_in(&scene, gone.path(), "web");
    let there = claim_in(&scene, scene.tree.path(), "web");
    drop(gone);
    let before = scene.daemon.tables();
    let receipt = scene.preview(WHAT, json!({"olderThanMilliseconds": 0}));
    assert_eq!(receipt["action"], "claims.prune");
    assert_eq!(receipt["target"], json!({"type": "claim-collection", "id": "global"}));
    assert_eq!(receipt["proposal"], json!({"olderThanMilliseconds": 0}));
    let seen = &receipt["observed"];
    assert_eq!(seen["dryRun"], true);
    assert_eq!(seen["candidates"][0]["claim"]["id"], missing);
    assert_eq!(seen["candidates"][0]["reason"], "workspace-missing");
    assert_eq!(seen["candidates"].as_array().unwrap().len(), 1);
    assert_eq!(seen["deletedClaimIds"], json!([]));
    let dry = scene.daemon.post("/v1/claims/prune", json!({"olderThanMilliseconds": 0, "dryRun": true}));
    assert_eq!(&dry, seen);
    assert_eq!(scene.daemon.tables(), before);
    let done = scene.execute(WHAT, &receipt);
    assert_eq!(done["result"]["dryRun"], false);
    assert_eq!(done["result"]["deletedClaimIds"], json!([missing]));
    let claims = scene.daemon.get("/v1/claims");
    assert_eq!(claims.as_array().unwrap().len(), 1);
    assert_eq!(claims[0]["id"], there);
    let event = &scene.daemon.get("/v1/history?eventType=claim.pruned")["items"][0];
    assert_eq!(event["payload"]["reason"], "workspace-missing");
}

#[test]
fn only_what_was_not_used_for_the_age_asked() {
    let scene = Scene::new();
    let gone = worktree();
    claim_in(&scene, gone.path(), "web");
    drop(gone);
    let hour = json!({"olderThanMilliseconds": 3_600_000, "dryRun": true});
    assert_eq!(scene.daemon.post("/v1/claims/prune", hour.clone())["candidates"], json!([]));
    scene.sql("UPDATE claim SET last_used_at = '2020-01-01T00:00:00.000Z'");
    assert_eq!(scene.daemon.post("/v1/claims/prune", hour)["candidates"].as_array().unwrap().len(), 1);
    for body in [
        json!({"olderThanMilliseconds": 0}),
        json!({"dryRun": true}),
        json!({"olderThanMilliseconds": 315_576_000_001_u64, "dryRun": true}),
    ] {
        let (status, _) = scene.daemon.refused("POST", "/v1/claims/prune", Some(body));
        assert_eq!(status, 400);
    }
}

#[test]
fn what_is_used_or_merely_unreachable_is_skipped_with_its_reason() {
    let mut scene = Scene::new();
    let run = scene.serve("served", Temper::Plain);
    let lease = scene.daemon.acquire(scene.tree.path(), "leased", json!({}));
    // A folder behind one that may not be searched: as another user than root, it can't be told.
    let locked = tempfile::tempdir().unwrap();
    let behind = locked.path().join("behind");
    std::fs::create_dir(&behind).unwrap();
    let hidden = claim_in(&scene, &behind, "web");
    // The worktree of the other two is gone.
    scene.tree = tempfile::tempdir().unwrap();
    std::fs::set_permissions(locked.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    let dry = scene.daemon.post("/v1/claims/prune", json!({"olderThanMilliseconds": 0, "dryRun": true}));
    std::fs::set_permissions(locked.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let skipped = dry["skipped"].as_array().unwrap();
    let reason = |claim: &Value| skipped.iter().find(|s| s["claimId"] == *claim).map(|s| s["reason"].clone());
    assert_eq!(reason(&json!(run.claim)), Some(json!("active_run")), "{dry}");
    assert_eq!(reason(&lease["claimId"]), Some(json!("pending_lease")));
    if rustix::process::geteuid().is_root() {
        assert_eq!(reason(&hidden), None, "root looks behind it");
    } else {
        assert_eq!(reason(&hidden), Some(json!("workspace-unreachable")));
    }
    assert_eq!(dry["candidates"], json!([]));
}

#[test]
fn each_fact_of_a_candidate_that_changes_makes_the_receipt_stale() {
    let scene = Scene::new();
    let gone = worktree();
    let root = gone.path().canonicalize().unwrap();
    let claim = claim_in(&scene, &root, "web");
    let id = claim.as_str().unwrap().to_owned();
    drop(gone);
    let receipt = scene.preview(WHAT, json!({"olderThanMilliseconds": 0}));
    let last: String = {
        let claim = scene.daemon.get(&format!("/v1/claims/{id}"));
        claim["lastUsedAt"].as_str().unwrap().to_owned()
    };
    let stale = |field: &str| {
        let before = scene.daemon.tables();
        let (status, error) = scene.refused(WHAT, &receipt);
        assert_eq!((status, class(&error)), (409, "receipt.changed"), "{field}: {error}");
        assert_eq!(changes(&error), [format!("candidates.{id}.{field}")], "{error}");
        assert_eq!(scene.daemon.tables(), before);
    };
    std::fs::create_dir_all(&root).unwrap();
    stale("missing");
    std::fs::remove_dir_all(&root).unwrap();
    scene.sql("UPDATE claim SET last_used_at = '2020-01-01T00:00:00.000Z'");
    stale("lastUsedAt");
    scene.sql(&format!("UPDATE claim SET last_used_at = '{last}', assigned_port = 20999"));
    stale("port");
    scene.sql("UPDATE claim SET assigned_port = NULL, workspace_root = '/nowhere/at/all'");
    stale("workspaceRoot");
    scene.sql(&format!("UPDATE claim SET workspace_root = '{}'", root.display()));
    // Another claim that has come of age since is nothing to the receipt.
    let other = worktree();
    claim_in(&scene, other.path(), "other");
    drop(other);
    let done = scene.execute(WHAT, &receipt);
    assert_eq!(done["result"]["deletedClaimIds"], json!([id]));
    assert_eq!(scene.daemon.get("/v1/claims").as_array().unwrap().len(), 1);
}

#[test]
fn a_candidate_that_is_leased_served_or_listened_on_since_is_spared() {
    let scene = Scene::new();
    let gone = worktree();
    let root = gone.path().canonicalize().unwrap();
    let claim = claim_in(&scene, &root, "web");
    let id = claim.as_str().unwrap();
    drop(gone);
    let receipt = scene.preview(WHAT, json!({"olderThanMilliseconds": 0}));
    scene.sql(&format!(
        "INSERT INTO lease (id, claim_id, port, state, token_hash, ttl_ms, expires_at, expires_boot_ms, boot_id, \
         created_at) SELECT '0198c0de-0000-7000-8000-000000000001', '{id}', 20998, 'pending', zeroblob(32), 1000, '', \
         9223372036854775807, boot_id, '' FROM lease WHERE claim_id = '{id}' LIMIT 1"
    ));
    let (_, error) = scene.refused(WHAT, &receipt);
    assert_eq!(changes(&error), [format!("candidates.{id}.lease")]);
    assert_eq!(error["details"]["reason"], "pending_lease");
    scene.sql("DELETE FROM lease WHERE state = 'pending'");
    assert_eq!(scene.execute(WHAT, &receipt)["changed"], true);
}

#[test]
fn what_a_lean_caller_is_shown_is_bounded_and_all_of_it_is_done() {
    let scene = Scene::new();
    many(&scene, 300);
    let receipt = scene.preview(WHAT, json!({"olderThanMilliseconds": 0, "mostShown": 20}));
    assert_eq!(receipt["observed"]["candidates"].as_array().unwrap().len(), 20);
    assert_eq!(receipt["observed"]["totals"], json!({"candidates": 300, "deleted": 0, "skipped": 0}));
    let done = scene.execute(WHAT, &receipt);
    assert_eq!(done["result"]["totals"], json!({"candidates": 300, "deleted": 300, "skipped": 0}));
    assert_eq!(scene.daemon.get("/v1/claims"), json!([]));
}

/// So many claims of worktrees that never were.
fn many(scene: &Scene, count: u32) {
    scene.sql(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
         INSERT INTO claim (id, project, workspace_root, component, endpoint, mode, created_at, updated_at, \
         last_used_at) SELECT printf('0198c0de-0000-7000-8000-%012d', i), 'p', '/nowhere/w' || i, 'web', \
         'default', 'sticky', '2020', '2020', '2020-01-01T00:00:00.000Z' FROM n"
    ));
}

#[test]
fn pruning_is_linear_in_its_candidates() {
    let time = |count: u32| {
        let scene = Scene::new();
        many(&scene, count);
        let body = json!({"olderThanMilliseconds": 0, "mostShown": 20});
        timed(|| scene.preview(WHAT, body)).1
    };
    let (few, more) = (time(1000), time(10_000));
    assert!(more < few * 60, "1,000: {few:?}; 10,000: {more:?}");
}
