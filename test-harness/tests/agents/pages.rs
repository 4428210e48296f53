//! Pages: bounded in bytes whatever the names, complete when they are walked, and polled without a gap.

use crate::support::{House, abandon, house, with_stretch};
use portreeve_daemon::store::FILE_NAME;
use portreeve_test_harness::host::Host;
use portreeve_test_harness::machine::{self, Daemon, worktree};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

const CLAIMS: usize = 2_000;
const DEFAULT_PAGE: usize = 8 * 1024;
const LARGEST_PAGE: usize = 48 * 1024;

/// A house whose store has 2,000 claims, the longest names that there can be among them.
fn crowded() -> House {
    let directory = worktree();
    let home = directory.path().join("home");
    machine::prepare(&home, &with_stretch(json!({})));
    let mut conn = rusqlite::Connection::open(home.join(FILE_NAME)).expect("a store");
    let tx = conn.transaction().expect("a transaction");
    for i in 0..CLAIMS {
        // One in twenty as long as can be, in characters of four bytes or in those that JSON writes as six.
        let (name, root) = match i % 40 {
            0 => ("\u{1f600}".repeat(128), format!("/{}{i:04}", "\u{1f600}".repeat(1000))),
            20 => (format!("\"{}\"", "\\".repeat(126)), format!("/{}{i:04}", "\u{1}".repeat(4_000))),
            _ => (format!("component-{i:04}"), format!("/home/dev/worktrees/shop-{i:04}")),
        };
        tx.execute(
            "INSERT INTO claim (id, project, workspace_root, component, endpoint, mode, assigned_port, created_at, \
             updated_at, last_used_at) VALUES (?1, ?2, ?3, ?2, 'default', 'sticky', ?4, ?5, ?5, ?5)",
            rusqlite::params![
                format!("0198c0de-0000-7000-8000-{i:012}"),
                name,
                root,
                u16::try_from(2_000 + i).expect("a port"),
                "2026-01-01T00:00:00.000Z"
            ],
        )
        .expect("a claim");
    }
    tx.commit().expect("a commit");
    conn.close().expect("the store can be closed");
    House { daemon: Daemon::start_in(&home), worktree: directory }
}

fn items(page: &Value) -> &[Value] {
    page["items"].as_array().expect("items")
}

/// The bytes of a page's items, with the commas between.
fn bytes(page: &Value) -> usize {
    items(page).iter().map(|item| item.to_string().len() + 1).sum()
}

/// Walks a list to its end, holding each page against its bound.
fn walk(host: &mut Host, tool: &str, arguments: &Value, bound: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut arguments = arguments.clone();
    loop {
        let page = host.done(tool, arguments.clone());
        // One item that is longer than a page is a page.
        assert!(bytes(&page) <= bound || items(&page).len() == 1, "{tool}: {} bytes", bytes(&page));
        assert!(!items(&page).is_empty() || all.is_empty(), "{tool}: an empty page");
        assert_eq!(page["hasMore"] == true, page["nextCursor"].is_string(), "{tool}");
        all.extend(items(&page).iter().cloned());
        match page.get("nextCursor") {
            Some(cursor) => arguments["afterCursor"] = cursor.clone(),
            None => return all,
        }
    }
}

fn each_once(all: &[Value], field: &str) {
    let ids: BTreeSet<String> = all.iter().map(|item| item[field].to_string()).collect();
    assert_eq!((all.len(), ids.len()), (CLAIMS, CLAIMS), "{field}: each once");
}

#[test]
fn two_thousand_claims_with_long_names_are_walked_in_pages_within_their_bytes() {
    let house = crowded();
    let mut host = house.host();
    each_once(&walk(&mut host, "claims_list", &json!({}), DEFAULT_PAGE), "claimId");
    each_once(&walk(&mut host, "claims_list", &json!({"limit": 200}), LARGEST_PAGE), "claimId");
    let short = host.done("claims_list", json!({"limit": 3}));
    assert!(items(&short).len() <= 3);
}

#[test]
fn their_ports_are_walked_in_pages_within_their_bytes() {
    let house = crowded();
    let mut host = house.host();
    let claimed = walk(&mut host, "ports_list", &json!({"claimed": true, "limit": 200}), LARGEST_PAGE);
    each_once(&claimed, "port");
    let numbers: Vec<u64> = claimed.iter().map(|item| item["port"].as_u64().expect("a port")).collect();
    assert!(numbers.is_sorted());
}

#[test]
fn a_filter_finds_the_longest_names() {
    let house = crowded();
    let mut host = house.host();
    let long = "\u{1f600}".repeat(128);
    let found = walk(&mut host, "claims_list", &json!({"project": long, "component": long}), DEFAULT_PAGE);
    assert_eq!(found.len(), CLAIMS / 40);
    let root = format!("/{}0020", "\u{1}".repeat(4_000));
    let one = host.done("claims_list", json!({"workspaceRoot": root}));
    assert_eq!(items(&one).len(), 1);
    assert_eq!(items(&one)[0]["workspaceRoot"], root);
}

#[test]
fn polling_history_sees_each_event_once_and_in_order_while_others_write() {
    let house = house();
    let (house, over) = (&house, AtomicBool::new(false));
    let mut poller = house.host();
    let mut seen: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                scope.spawn(move || {
                    let mut host = house.host();
                    for _ in 0..40 {
                        let lease = host.done("leases_acquire", house.claim(&format!("w{writer}")));
                        host.done("leases_abandon", abandon(&lease, "client-cancelled"));
                    }
                })
            })
            .collect();
        let poll = scope.spawn(|| {
            let mut cursor = String::new();
            loop {
                let last = over.load(Ordering::Relaxed);
                let page =
                    poller.done("history_list", json!({"order": "asc", "afterCursor": cursor, "limit": 7}));
                assert_ne!(page["gap"], true, "nothing was pruned");
                seen.extend(items(&page).iter().map(|event| event["id"].as_str().expect("an id").to_owned()));
                cursor = page["pollCursor"].as_str().expect("a cursor to poll with").to_owned();
                if last && items(&page).is_empty() {
                    return;
                }
            }
        });
        for writer in writers {
            writer.join().expect("a writer ends");
        }
        over.store(true, Ordering::Relaxed);
        poll.join().expect("the poller ends");
    });
    let all = house.get("/v1/history?order=asc&limit=200");
    let all: Vec<&str> =
        all["items"].as_array().expect("items").iter().map(|e| e["id"].as_str().expect("an id")).collect();
    assert!(all.len() >= 160, "{} events", all.len());
    assert_eq!(seen, all);
}
