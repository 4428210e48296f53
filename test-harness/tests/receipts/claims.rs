//! Reassigning and deleting claims.

use crate::support::{Scene, Started, Temper, changes, class};
use portreeve_test_harness::machine::{free_port, until};
use serde_json::{Value, json};

fn reassign(claim: &str) -> String {
    format!("claims/{claim}/reassign")
}

fn delete(claim: &str) -> String {
    format!("claims/{claim}/delete")
}

#[test]
fn a_reassignment_is_shown_then_done_and_the_pool_follows() {
    let scene = Scene::new();
    let claimed = scene.claim("web");
    let port = free_port();
    let before = scene.daemon.tables();
    let what = reassign(&claimed.claim);
    let receipt = scene.preview(&what, json!({"preferredPort": port}));
    assert_eq!(scene.daemon.tables(), before);
    assert_eq!(receipt["action"], "claim.reassign");
    assert_eq!(receipt["target"], json!({"type": "claim", "id": claimed.claim}));
    assert_eq!(receipt["proposal"], json!({"preferredPort": port}));
    let seen = &receipt["observed"];
    assert_eq!(
        (&seen["port"], &seen["preferredPort"], &seen["exactPort"]),
        (&json!(port), &json!(port), &Value::Null)
    );
    assert_eq!(seen["claim"]["assignedPort"], claimed.port);
    assert_eq!(seen["inventory"]["classification"], "available");
    let done = scene.execute(&what, &receipt);
    assert_eq!(done["result"]["assignedPort"], port);
    assert_eq!(done["result"]["exactPort"], Value::Null);
    let event = &scene.daemon.get("/v1/history?eventType=claim.reassigned")["items"][0];
    let told = json!({"previousPort": claimed.port, "port": port, "preferredPort": port, "exactPort": null});
    assert_eq!(event["payload"], told);
    // The port that it had is everybody's again, and the new one nobody else's.
    let other = scene.daemon.acquire(scene.tree.path(), "other", json!({"preferredPort": claimed.port}));
    assert_eq!(other["port"], claimed.port);
    let third = scene.daemon.acquire(scene.tree.path(), "third", json!({"preferredPort": port}));
    assert_ne!(third["port"], port);
}

#[test]
fn the_direct_routes_do_the_same_as_preview_and_execute() {
    let scene = Scene::new();
    let (one, other) = (scene.claim("one"), scene.claim("other"));
    let (a, b) = (free_port(), free_port());
    let direct = scene.daemon.post(&format!("/v1/claims/{}/reassign", one.claim), json!({"exactPort": a}));
    let receipt = scene.preview(&reassign(&other.claim), json!({"exactPort": b}));
    let bound = scene.execute(&reassign(&other.claim), &receipt)["result"].clone();
    for field in ["mode", "preferredPort"] {
        assert_eq!(direct[field], bound[field]);
    }
    assert_eq!((&direct["exactPort"], &bound["exactPort"]), (&json!(a), &json!(b)));
    let gone = scene.daemon.post(&format!("/v1/claims/{}/delete", one.claim), json!({}));
    assert_eq!(gone["changed"], true);
    let (status, error) =
        scene.daemon.refused("POST", &format!("/v1/claims/{}/delete", one.claim), Some(json!({})));
    assert_eq!((status, error["code"].as_str()), (404, Some("not_found")));
}

#[test]
fn a_port_that_somebody_has_is_refused_with_its_reason() {
    let scene = Scene::new();
    let (one, other) = (scene.claim("one"), scene.claim("other"));
    let busy = free_port();
    let _server = Started::listen(busy, Temper::Plain, scene.tree.path());
    for (port, reason) in [(one.port, "unchanged"), (other.port, "reserved"), (busy, "live_listener")] {
        let before = scene.daemon.tables();
        for path in [
            format!("/v1/actions/{}/preview", reassign(&one.claim)),
            format!("/v1/claims/{}/reassign", one.claim),
        ] {
            let (status, error) = scene.daemon.refused("POST", &path, Some(json!({"exactPort": port})));
            assert_eq!((status, error["details"]["reason"].as_str()), (409, Some(reason)), "{error}");
            assert_eq!(error["details"]["port"], port);
        }
        assert_eq!(scene.daemon.tables(), before);
    }
    // Without exactPort another one is found, and the current one passed over.
    let receipt = scene.preview(&reassign(&one.claim), json!({"preferredPort": busy}));
    let found = receipt["observed"]["port"].as_u64().unwrap();
    assert!(found != u64::from(busy) && found != u64::from(one.port) && found != u64::from(other.port));
    let both = Some(json!({"preferredPort": 3000, "exactPort": 3001}));
    let (status, _) =
        scene.daemon.refused("POST", &format!("/v1/actions/{}/preview", reassign(&one.claim)), both);
    assert_eq!(status, 400);
}

#[test]
fn a_claim_that_is_used_is_neither_reassigned_nor_deleted() {
    let scene = Scene::new();
    let run = scene.serve("served", Temper::Plain);
    let lease = scene.daemon.acquire(scene.tree.path(), "leased", json!({}));
    let idle = scene.claim("idle");
    let _stranger = Started::listen(idle.port, Temper::Plain, scene.tree.path());
    let leased = lease["claimId"].as_str().unwrap();
    let cases = [
        (run.claim.as_str(), "active_run", "runId", json!(run.run)),
        (leased, "pending_lease", "leaseId", lease["leaseId"].clone()),
        (idle.claim.as_str(), "live_listener", "port", json!(idle.port)),
    ];
    for (claim, reason, name, value) in cases {
        let before = scene.daemon.tables();
        for path in [
            format!("/v1/actions/{}/preview", reassign(claim)),
            format!("/v1/actions/{}/preview", delete(claim)),
            format!("/v1/claims/{claim}/reassign"),
            format!("/v1/claims/{claim}/delete"),
        ] {
            let (status, error) = scene.daemon.refused("POST", &path, Some(json!({})));
            assert_eq!((status, error["details"]["reason"].as_str()), (409, Some(reason)), "{path}: {error}");
            assert_eq!((&error["details"]["claimId"], &error["details"][name]), (&json!(claim), &value));
        }
        assert_eq!(scene.daemon.tables(), before);
    }
}

/// Every fact of a reassignment's and a deletion's plan, changed in turn.
#[test]
fn each_fact_of_a_plan_that_changes_makes_its_receipt_stale() {
    let scene = Scene::new();
    let claimed = scene.claim("web");
    let target = free_port();
    let both =
        [(reassign(&claimed.claim), json!({"exactPort": target})), (delete(&claimed.claim), json!({}))];
    let id = &claimed.claim;
    let row = |column: &str, value: &str| format!("UPDATE claim SET {column} = {value} WHERE id = '{id}'");
    let (port, free) = (claimed.port, free_port());
    let facts = [
        ("claim.mode", row("mode", "'ephemeral'"), row("mode", "'sticky'")),
        ("claim.preferredPort", row("preferred_port", "7"), row("preferred_port", &port.to_string())),
        ("claim.exactPort", row("exact_port", "7"), row("exact_port", "NULL")),
        (
            "claim.assignedPort",
            row("assigned_port", &free.to_string()),
            row("assigned_port", &port.to_string()),
        ),
        ("claim.identity.project", row("project", "'x'"), row("project", "'shop'")),
    ];
    for (what, body) in &both {
        let receipt = scene.preview(what, body.clone());
        for (path, change, back) in &facts {
            scene.sql(change);
            let (status, error) = scene.refused(what, &receipt);
            assert_eq!((status, class(&error)), (409, "receipt.changed"), "{path}: {error}");
            assert_eq!(changes(&error), [*path], "{error}");
            scene.sql(back);
        }
        // Who leases it.
        let lease = scene.daemon.acquire(scene.tree.path(), "web", json!({}));
        let (_, error) = scene.refused(what, &receipt);
        assert_eq!((class(&error), changes(&error)), ("receipt.changed", vec!["lease"]));
        assert_eq!(error["details"]["reason"], "pending_lease");
        // Who serves it.
        let server = Started::listen(port, Temper::Plain, scene.tree.path());
        let confirm = format!("/v1/leases/{}/confirm", lease["leaseId"].as_str().unwrap());
        let proof = json!({"leaseToken": lease["leaseToken"], "rootPid": server.root()});
        let run = scene.daemon.post(&confirm, proof)["runId"].clone();
        let (_, error) = scene.refused(what, &receipt);
        assert_eq!((class(&error), changes(&error)), ("receipt.changed", vec!["listening", "run"]));
        assert_eq!(error["details"]["runId"], run);
        drop(server);
        until("the run is over", || {
            let events = scene.daemon.get("/v1/history?eventType=run.released");
            events["items"].as_array()?.iter().any(|e| e["entityId"] == run).then_some(())
        });
        // Who listens on its port, and on the port that it is to get.
        let server = Started::listen(port, Temper::Plain, scene.tree.path());
        let (_, error) = scene.refused(what, &receipt);
        assert_eq!((class(&error), changes(&error)), ("receipt.changed", vec!["listening"]));
        drop(server);
        if body.get("exactPort").is_some() {
            let server = Started::listen(target, Temper::Plain, scene.tree.path());
            let (_, error) = scene.refused(what, &receipt);
            assert_eq!((class(&error), changes(&error)), ("receipt.changed", vec!["taken.listening"]));
            drop(server);
            let lease = scene.daemon.acquire(scene.tree.path(), "thief", json!({"exactPort": target}));
            let (_, error) = scene.refused(what, &receipt);
            assert_eq!((class(&error), changes(&error)), ("receipt.changed", vec!["taken.lease"]));
            let mut server = Started::listen(target, Temper::Plain, scene.tree.path());
            let confirm = format!("/v1/leases/{}/confirm", lease["leaseId"].as_str().unwrap());
            let proof = json!({"leaseToken": lease["leaseToken"], "rootPid": server.root()});
            scene.daemon.post(&confirm, proof);
            let (_, error) = scene.refused(what, &receipt);
            assert_eq!(changes(&error), ["taken.claim", "taken.listening", "taken.run"]);
            server.end();
            until("the run is over", || {
                let (_, error) = scene.refused(what, &receipt);
                (changes(&error) == ["taken.claim"]).then_some(())
            });
            let thief = lease["claimId"].as_str().unwrap();
            scene.daemon.post(&format!("/v1/claims/{thief}/delete"), json!({}));
        }
        // All is as it was: the receipt is good.
        if body.get("exactPort").is_some() {
            assert_eq!(scene.execute(what, &receipt)["changed"], true);
            let back = json!({"exactPort": port});
            scene.daemon.post(&format!("/v1/claims/{id}/reassign"), back);
            scene.sql(&row("exact_port", "NULL"));
            scene.sql(&row("preferred_port", &port.to_string()));
        } else {
            assert_eq!(scene.execute(what, &receipt)["changed"], true);
        }
    }
}

#[test]
fn what_is_no_part_of_the_plan_makes_no_receipt_stale() {
    let scene = Scene::new();
    let claimed = scene.claim("web");
    let receipt = scene.preview(&delete(&claimed.claim), json!({}));
    // Others come and go, and the claim was used meanwhile.
    let _other = scene.serve("other", Temper::Plain);
    let lease = scene.daemon.acquire(scene.tree.path(), "web", json!({}));
    let abandon = format!("/v1/leases/{}/abandon", lease["leaseId"].as_str().unwrap());
    scene.daemon.post(&abandon, json!({"leaseToken": lease["leaseToken"], "reason": "client-cancelled"}));
    assert_eq!(scene.execute(&delete(&claimed.claim), &receipt)["changed"], true);
}

#[test]
fn a_claim_that_is_gone_is_not_found_by_its_receipt() {
    let scene = Scene::new();
    let claimed = scene.claim("web");
    let receipt = scene.preview(&delete(&claimed.claim), json!({}));
    scene.daemon.post(&format!("/v1/claims/{}/delete", claimed.claim), json!({}));
    let (status, error) = scene.refused(&delete(&claimed.claim), &receipt);
    assert_eq!((status, class(&error)), (404, "resolve.not_found"));
    assert_eq!(error["details"]["receiptId"], receipt["receiptId"]);
}

#[test]
fn a_deleted_claim_is_told_in_history_and_can_be_made_anew() {
    let scene = Scene::new();
    let claimed = scene.claim("web");
    let receipt = scene.preview(&delete(&claimed.claim), json!({}));
    assert_eq!(receipt["observed"]["claim"]["id"], claimed.claim);
    assert_eq!(receipt["observed"]["inventory"]["classification"], "idle");
    scene.execute(&delete(&claimed.claim), &receipt);
    let event = &scene.daemon.get("/v1/history?eventType=claim.deleted")["items"][0];
    assert_eq!(event["payload"]["claim"]["assignedPort"], claimed.port);
    let lease = scene.daemon.acquire(scene.tree.path(), "web", json!({"preferredPort": claimed.port}));
    assert_ne!(lease["claimId"], claimed.claim);
    assert_eq!(lease["port"], claimed.port);
}
