//! History: in the order of commits, and polled without a gap or a repeat while others write.

use crate::pages::walk;
use crate::support::count;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use portreeve_test_harness::machine::{Daemon, until, worktree};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Acquires and abandons: two or three events.
fn churn(daemon: &Daemon, workspace: &Path, component: &str) {
    let lease = daemon.acquire(workspace, component, json!({}));
    let body = json!({"leaseToken": lease["leaseToken"], "reason": "client-cancelled"});
    daemon.post(&format!("/v1/leases/{}/abandon", lease["leaseId"].as_str().expect("an id")), body);
}

/// The ids of the store's events in the order of commits.
fn committed(daemon: &Daemon) -> Vec<String> {
    let path = daemon.home().join(portreeve_daemon::store::FILE_NAME);
    let conn = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("the store can be opened");
    let mut statement = conn.prepare("SELECT id FROM event ORDER BY seq").expect("a table");
    let rows = statement.query_map((), |row| row.get(0)).expect("rows");
    rows.collect::<rusqlite::Result<_>>().expect("rows")
}

fn ids(items: &Value) -> Vec<String> {
    let items = items.as_array().expect("items").iter();
    items.map(|event| event["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn history_is_in_the_order_of_commits_also_within_one_millisecond() {
    let daemon = Daemon::start();
    let workspace = worktree();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (daemon, workspace) = (&daemon, workspace.path());
            scope.spawn(move || (0..12).for_each(|i| churn(daemon, workspace, &format!("w{writer}-{i}"))));
        }
    });
    let shared = count(
        &daemon,
        "SELECT count(*) FROM (SELECT occurred_at FROM event GROUP BY occurred_at HAVING count(*) > 1)",
    );
    assert!(shared > 0, "no two events share a millisecond: nothing was shown");
    let mut wanted = committed(&daemon);
    assert_eq!(ids(&json!(walk(&daemon, "/v1/history?order=asc", 200, || {}))), wanted);
    wanted.reverse();
    for limit in [1, 13, 200] {
        let walked = ids(&json!(walk(&daemon, "/v1/history", limit, || {})));
        assert_eq!(walked, wanted, "by pages of {limit}");
    }
}

#[test]
fn a_walk_to_older_events_is_not_moved_by_newer_ones() {
    let daemon = Daemon::start();
    let workspace = worktree();
    (0..20).for_each(|i| churn(&daemon, workspace.path(), &format!("c{i}")));
    let mut before = committed(&daemon);
    before.reverse();
    let mut i = 0;
    let walked = walk(&daemon, "/v1/history", 7, || {
        i += 1;
        churn(&daemon, workspace.path(), &format!("later{i}"));
    });
    assert_eq!(ids(&json!(walked)), before);
}

#[test]
fn filters_hold_together_and_since_counts_from_a_moment_on() {
    let daemon = Daemon::start();
    let workspace = worktree();
    (0..5).for_each(|i| churn(&daemon, workspace.path(), &format!("c{i}")));
    let all = daemon.get("/v1/history?limit=200")["items"].clone();
    let all = all.as_array().expect("items");
    let event = &all[4];
    let (kind, id) = (event["eventType"].as_str().expect("text"), event["entityId"].as_str().expect("text"));
    let found = daemon.get(&format!("/v1/history?eventType={kind}&entityId={id}&entityType=lease"));
    assert_eq!(found["items"], json!([event]));
    let since = event["occurredAt"].as_str().expect("text");
    let from = daemon.get(&format!("/v1/history?limit=200&since={since}"))["items"].clone();
    let wanted: Vec<&Value> = all.iter().filter(|e| e["occurredAt"].as_str() >= Some(since)).collect();
    assert_eq!(from, json!(wanted));
    let offset = since.replace('Z', "%2B00:00");
    assert_eq!(daemon.get(&format!("/v1/history?limit=200&since={offset}"))["items"], from);
    assert_eq!(daemon.get("/v1/history?entityType=nothing")["items"], json!([]));
}

/// Polls from `cursor` until an empty page, and gives what came and where to go on.
fn poll(daemon: &Daemon, filter: &str, mut cursor: String, limit: usize) -> (Vec<String>, String) {
    let mut all = Vec::new();
    loop {
        let data = daemon.get(&format!("/v1/history?order=asc&limit={limit}&afterCursor={cursor}{filter}"));
        assert!(data["page"]["gap"].is_null(), "nothing was pruned: {}", data["page"]);
        let items = ids(&data["items"]);
        data["page"]["pollCursor"].as_str().expect("never null").clone_into(&mut cursor);
        if items.is_empty() {
            return (all, cursor);
        }
        all.extend(items);
        assert!(all.len() < 10_000, "the same events come again and again");
    }
}

#[test]
fn polling_under_writers_misses_no_event_and_sees_none_twice() {
    let daemon = Daemon::start();
    let workspace = worktree();
    churn(&daemon, workspace.path(), "before");
    // One who begins with the newest page, one with the oldest event, one who only wants abandoned leases.
    let newest = daemon.get("/v1/history?limit=2");
    let start = newest["page"]["pollCursor"].as_str().expect("never null").to_owned();
    let filter = "&eventType=lease.abandoned";
    let filtered = daemon.get(&format!("/v1/history?limit=1{filter}"))["page"]["pollCursor"].clone();
    let known = committed(&daemon).len();
    let writing = AtomicUsize::new(4);
    let (mut from_newest, mut from_oldest, mut abandoned) = (Vec::new(), Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (daemon, workspace, writing) = (&daemon, workspace.path(), &writing);
            scope.spawn(move || {
                (0..25).for_each(|i| churn(daemon, workspace, &format!("w{writer}-{i}")));
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let mut cursors = [start, String::new(), filtered.as_str().expect("never null").to_owned()];
        loop {
            let last_round = writing.load(Ordering::SeqCst) == 0;
            let polls = [(&mut from_newest, "", 3), (&mut from_oldest, "", 7), (&mut abandoned, filter, 2)];
            for ((seen, filter, limit), cursor) in polls.into_iter().zip(&mut cursors) {
                let came;
                (came, *cursor) = poll(&daemon, filter, cursor.clone(), limit);
                seen.extend(came);
            }
            if last_round {
                return;
            }
        }
    });
    let wanted = committed(&daemon);
    assert!(wanted.len() > 250, "{} events", wanted.len());
    assert_eq!(from_newest, wanted[known..]);
    assert_eq!(from_oldest, wanted);
    let only = ids(&json!(walk(&daemon, &format!("/v1/history?order=asc{filter}"), 200, || {})));
    assert_eq!(abandoned, only[1..]);
}

#[test]
fn a_poll_after_a_walk_to_older_pages_goes_on_where_the_walk_began() {
    let daemon = Daemon::start();
    let workspace = worktree();
    (0..5).for_each(|i| churn(&daemon, workspace.path(), &format!("c{i}")));
    let known = committed(&daemon).len();
    let first = daemon.get("/v1/history?limit=3");
    churn(&daemon, workspace.path(), "meanwhile");
    let next = first["page"]["nextCursor"].as_str().expect("more follows");
    let second = daemon.get(&format!("/v1/history?limit=3&afterCursor={next}"));
    let cursor = second["page"]["pollCursor"].as_str().expect("never null").to_owned();
    assert_eq!(poll(&daemon, "", cursor, 50).0, committed(&daemon)[known..]);
}

#[test]
fn a_poll_says_so_when_events_after_its_cursor_were_pruned() {
    let daemon = Daemon::start_with(&json!({"historyMaximumEvents": 100}));
    let workspace = worktree();
    churn(&daemon, workspace.path(), "first");
    let start = daemon.get("/v1/history?limit=1")["page"]["pollCursor"].clone();
    let target =
        format!("/v1/history?order=asc&limit=200&afterCursor={}", start.as_str().expect("never null"));
    (0..33).for_each(|i| churn(&daemon, workspace.path(), &format!("c{i}")));
    // 3 + 99 events: the cursor's own went, and none after it.
    assert_eq!(daemon.get(&target)["page"]["gap"], Value::Null);
    assert_eq!(daemon.get(&target)["items"].as_array().map(Vec::len), Some(99));
    churn(&daemon, workspace.path(), "c0");
    let data = daemon.get(&target);
    assert_eq!(data["page"]["gap"], true, "{}", data["page"]);
    assert_eq!(ids(&data["items"]), committed(&daemon), "what is left still comes");
    let on = data["page"]["pollCursor"].as_str().expect("never null");
    let data = daemon.get(&format!("/v1/history?order=asc&afterCursor={on}"));
    assert_eq!((&data["page"]["gap"], &data["items"]), (&Value::Null, &json!([])), "said once");
}

#[test]
fn a_poll_of_an_empty_history_waits_for_the_first_event() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let empty = daemon.get("/v1/history?order=asc");
    assert_eq!((&empty["items"], &empty["page"]["nextCursor"]), (&json!([]), &Value::Null));
    let cursor = empty["page"]["pollCursor"].as_str().expect("never null").to_owned();
    churn(&daemon, workspace.path(), "web");
    let came = until("the event is seen", || {
        let (came, _) = poll(&daemon, "", cursor.clone(), 50);
        (!came.is_empty()).then_some(came)
    });
    assert_eq!(came, committed(&daemon));
}

#[test]
fn a_forged_cursor_starts_a_page_somewhere_else_and_does_no_harm() {
    let daemon = Daemon::start();
    let workspace = worktree();
    (0..3).for_each(|i| churn(&daemon, workspace.path(), &format!("c{i}")));
    let real = daemon.get("/v1/history?limit=1")["page"]["nextCursor"].clone();
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(real.as_str().expect("a cursor")).expect("base64url");
    let parts: Value = serde_json::from_slice(&bytes).expect("JSON");
    for key in [
        json!([i64::MAX, i64::MAX]),
        json!([i64::MIN, i64::MIN]),
        json!([i64::MAX, 0]),
        json!([-1, i64::MIN]),
        json!([0, 0]),
    ] {
        let mut forged = parts.clone();
        forged[2] = key.clone();
        let cursor = BASE64_URL_SAFE_NO_PAD.encode(forged.to_string());
        for order in ["asc", "desc"] {
            let data = daemon.get(&format!("/v1/history?order={order}&afterCursor={cursor}"));
            let items = data["items"].as_array().expect("items").len();
            assert!(items <= 9 && data["page"]["pollCursor"].is_string(), "{order} {key}: {data}");
        }
    }
    for key in [json!(null), json!("x"), json!([1]), json!([1.5, 2]), json!([u64::MAX, 0]), json!({})] {
        let mut forged = parts.clone();
        forged[2] = key.clone();
        let cursor = BASE64_URL_SAFE_NO_PAD.encode(forged.to_string());
        let (status, error) = daemon.refused("GET", &format!("/v1/history?afterCursor={cursor}"), None);
        assert_eq!((status, error["details"]["field"].as_str()), (400, Some("afterCursor")), "{key}");
    }
}
