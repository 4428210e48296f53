//! What grows is bounded: history, settled records, the log.

use crate::pages::walk;
use crate::support::{count, home, in_store};
use portreeve_test_harness::machine::{Daemon, until, worktree};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn churn(daemon: &Daemon, workspace: &Path, component: &str) {
    let lease = daemon.acquire(workspace, component, json!({}));
    let body = json!({"leaseToken": lease["leaseToken"], "reason": "client-cancelled"});
    daemon.post(&format!("/v1/leases/{}/abandon", lease["leaseId"].as_str().expect("an id")), body);
}

#[test]
fn history_keeps_exactly_as_many_events_as_the_setting_says_and_the_newest() {
    let daemon = Daemon::start_with(&json!({"historyMaximumEvents": 100}));
    let workspace = worktree();
    for i in 0..60 {
        churn(&daemon, workspace.path(), &format!("c{}", i % 10));
        let kept = count(&daemon, "SELECT count(*) FROM event");
        let made = count(&daemon, "SELECT seq FROM sqlite_sequence WHERE name = 'event'");
        assert_eq!(kept, made.min(100), "after {made} events");
    }
    assert_eq!(count(&daemon, "SELECT max(seq) - min(seq) FROM event"), 99);
    assert_eq!(walk(&daemon, "/v1/history", 30, || {}).len(), 100);
}

#[test]
fn keeping_the_bound_costs_a_look_at_the_oldest_and_no_search() {
    let (_directory, home) = home();
    in_store(&home, |conn| {
        // The statement by which the daemon prunes, as SQLite plans it.
        let plan: String = conn
            .query_row("EXPLAIN QUERY PLAN DELETE FROM event WHERE seq <= 5", (), |row| row.get(3))
            .expect("a plan");
        assert!(plan.contains("USING INTEGER PRIMARY KEY (rowid<?)"), "{plan}");
    });
}

#[test]
fn long_settled_leases_and_runs_are_swept_and_younger_ones_stay() {
    let (_directory, home) = home();
    let workspace = worktree();
    let mut daemon = Daemon::start_in(&home);
    (0..6).for_each(|i| churn(&daemon, workspace.path(), &format!("c{i}")));
    let pending = daemon.acquire(workspace.path(), "pending", json!({}));
    daemon.kill();
    in_store(&home, |conn| {
        let change = |sql: &str| conn.execute(sql, ()).expect("rows can be changed");
        let old = "(SELECT id FROM lease WHERE state = 'abandoned' ORDER BY id LIMIT 4)";
        let ago = |days: u32| format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{days} days')");
        assert_eq!(change(&format!("UPDATE lease SET settled_at = {} WHERE id IN {old}", ago(2))), 4);
        let run = |id: &str, released: String| {
            format!(
                "INSERT INTO run (id, claim_id, lease_id, port, state, binding_kind, boot_id, confirmed_at, \
                 released_at) SELECT '{id}', claim_id, id, 20000, 'released', 'process', 'boot', created_at, \
                 {released} FROM lease WHERE state = 'abandoned' ORDER BY id DESC LIMIT 1"
            )
        };
        assert_eq!(change(&run("01939c2e-7b3a-7c1d-9a55-000000000001", ago(8))), 1);
        assert_eq!(change(&run("01939c2e-7b3a-7c1d-9a55-000000000002", ago(6))), 1);
    });
    let daemon = Daemon::start_in(&home);
    until("what is old is swept", || {
        (count(&daemon, "SELECT count(*) FROM lease WHERE state = 'abandoned'") == 2).then_some(())
    });
    until("old runs are swept", || (count(&daemon, "SELECT count(*) FROM run") == 1).then_some(()));
    assert_eq!(count(&daemon, "SELECT count(*) FROM run WHERE id LIKE '%2'"), 1, "the younger one stays");
    assert_eq!(count(&daemon, "SELECT count(*) FROM claim"), 7, "claims are nobody's to sweep");
    let target = format!("/v1/leases/{}/renew", pending["leaseId"].as_str().expect("an id"));
    daemon.post(&target, json!({"leaseToken": pending["leaseToken"]}));
}

fn logs(home: &Path) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = fs::read_dir(home)
        .expect("a home can be read")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let name = entry.file_name().to_str().expect("text").to_owned();
            (name, entry.metadata().expect("it is there").len())
        })
        .filter(|(name, _)| name.starts_with("authority.log"))
        .collect();
    found.sort();
    found
}

/// Fails `times` requests, each of which is one entry of about 300 bytes.
fn fail(daemon: &Daemon, times: usize) {
    let path = "x".repeat(150);
    for _ in 0..times {
        daemon.refused("GET", &format!("/v1/{path}"), None);
    }
}

#[test]
fn the_log_is_rotated_by_size_and_keeps_as_many_files_as_the_settings_say() {
    for files in [1_usize, 2, 3] {
        let settings = json!({"diagnosticLogMaximumBytes": 16384, "diagnosticLogFiles": files});
        let daemon = Daemon::start_with(&settings);
        fail(&daemon, 160);
        let found = logs(daemon.home());
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["authority.log", "authority.log.1", "authority.log.2"][..files]);
        assert!(found.iter().all(|(_, size)| *size <= 16384), "{found:?}");
        assert!(found[1..].iter().all(|(_, size)| *size > 15000), "a full file is full: {found:?}");
        // What is read is what the files hold, and the newest entry is the last.
        let all = daemon.get("/v1/logs?limit=10000");
        let lines: usize = found
            .iter()
            .map(|(name, _)| fs::read_to_string(daemon.home().join(name)).expect("text").lines().count())
            .sum();
        assert_eq!(all.as_array().map(Vec::len), Some(lines));
        daemon.refused("GET", "/v1/last", None);
        assert_eq!(daemon.get("/v1/logs?limit=1")[0]["details"]["pathname"], "/v1/last");
    }
}

#[test]
fn the_log_goes_on_after_a_torn_line_and_after_an_end_right_at_a_rotation() {
    let (_directory, home) = home();
    let mut daemon = Daemon::start_in(&home);
    fail(&daemon, 3);
    let first = walk(&daemon, "/v1/logs", 200, || {});
    let page = daemon.get(&format!("/v1/logs?limit={}&afterCursor=", first.len() - 1));
    let cursor = page["page"]["nextCursor"].as_str().expect("one more follows").to_owned();
    daemon.kill();
    let log = home.join("authority.log");
    let mut text = fs::read_to_string(&log).expect("text");
    text.push_str("{\"number\":9");
    fs::write(home.join("authority.log.1"), &text).expect("a file can be written");
    fs::write(&log, "").expect("a file can be written");
    let mut daemon = Daemon::start_in(&home);
    // The entries since: the last of before, which the cursor left, and the start's own.
    let rest = daemon.get(&format!("/v1/logs?afterCursor={cursor}"))["items"].clone();
    let messages: Vec<&str> =
        rest.as_array().expect("items").iter().filter_map(|e| e["message"].as_str()).collect();
    assert_eq!(messages[..2], ["Request failed.", "PortReeve server started."], "{messages:?}");
    daemon.kill();
    let mut text = fs::read_to_string(&log).expect("text");
    text.push_str("{\"number\":99,\"time");
    fs::write(&log, text).expect("a file can be written");
    let daemon = Daemon::start_in(&home);
    let all = daemon.get("/v1/logs");
    let starts = |e: &&Value| e["message"] == "PortReeve server started.";
    assert_eq!(all.as_array().expect("a list").iter().filter(starts).count(), 3, "no entry was lost: {all}");
}

#[test]
fn the_start_and_the_missing_container_engine_are_in_the_log() {
    let daemon = Daemon::start();
    let all = daemon.get("/v1/logs");
    let find = |component: &str| {
        let mut entries = all.as_array().expect("a list").iter();
        entries
            .find(|e| e["component"] == component)
            .unwrap_or_else(|| panic!("nothing of {component}: {all}"))
    };
    assert_eq!(
        (&find("server")["level"], &find("server")["message"]),
        (&json!("info"), &json!("PortReeve server started."))
    );
    let level = find("docker")["level"].as_str().expect("text");
    assert!(matches!(level, "info" | "warn"), "{all}");
}
