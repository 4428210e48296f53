//! Lists: plain or by pages, in their order, and whole however much others write meanwhile.

use crate::support::{check_envelope, keys};
use portreeve_test_harness::machine::{Daemon, Server, acquire, ask, free_port, worktree};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Walks a list by pages of `limit` to its end; what happens between two pages is `meanwhile`'s.
pub(crate) fn walk(daemon: &Daemon, target: &str, limit: usize, mut meanwhile: impl FnMut()) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let separator = if target.contains('?') { '&' } else { '?' };
        let data = daemon.get(&format!("{target}{separator}limit={limit}&afterCursor={cursor}"));
        assert_eq!(keys(&data), ["items", "page"], "{data}");
        let items = data["items"].as_array().expect("items");
        assert!(items.len() <= limit, "{} rows on a page of {limit}", items.len());
        rows.extend(items.iter().cloned());
        assert!(rows.len() < 100_000, "the walk has no end");
        meanwhile();
        match &data["page"]["nextCursor"] {
            Value::Null => return rows,
            next => {
                assert_eq!(items.len(), limit, "a page that isn't the last is full");
                cursor = next.as_str().expect("a cursor").to_owned();
            }
        }
    }
}

fn give_up(daemon: &Daemon, lease: &Value) {
    let body = json!({"leaseToken": lease["leaseToken"], "reason": "client-cancelled"});
    daemon.post(&format!("/v1/leases/{}/abandon", lease["leaseId"].as_str().expect("an id")), body);
}

/// Runs `work` while others acquire and abandon leases.
fn under_writers<T>(daemon: &Daemon, workspace: &Path, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let over = &over;
            scope.spawn(move || {
                for i in 0.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let name = format!("w{writer}-{}", i % 40);
                    give_up(daemon, &daemon.acquire(workspace, &name, json!({})));
                }
            });
        }
        let _over = Over(&over);
        work()
    })
}

/// Says that the writers may end, also when what they write beside fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Every one of `ids` is in `rows` exactly once.
fn each_once(rows: &[Value], ids: &[Value], of: impl Fn(&Value) -> &Value) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *seen.entry(of(row).to_string()).or_default() += 1);
    for id in ids {
        assert_eq!(seen.get(&id.to_string()), Some(&1), "{id} of {} rows", rows.len());
    }
    assert!(seen.values().all(|times| *times == 1), "a row came twice");
}

#[test]
fn a_list_is_a_plain_array_without_a_cursor_and_a_page_with_one() {
    let daemon = Daemon::start();
    let workspace = worktree();
    daemon.acquire(workspace.path(), "web", json!({}));
    for list in ["/v1/ports?claimed=true", "/v1/claims", "/v1/logs"] {
        assert!(daemon.get(list).is_array(), "{list}");
        let separator = if list.contains('?') { '&' } else { '?' };
        assert!(daemon.get(&format!("{list}{separator}limit=1")).is_array(), "{list}");
        let page = daemon.get(&format!("{list}{separator}afterCursor="));
        assert_eq!(keys(&page), ["items", "page"], "{list}");
        assert_eq!(page["page"], json!({"nextCursor": null}), "{list}");
    }
    let page = daemon.get("/v1/history");
    assert_eq!(keys(&page), ["items", "page"]);
    assert_eq!(keys(&page["page"]), ["nextCursor", "pollCursor"]);
    assert!(page["page"]["pollCursor"].is_string());
}

#[test]
fn a_page_has_50_rows_unless_another_limit_is_asked_for() {
    let daemon = Daemon::start();
    let workspace = worktree();
    for i in 0..53 {
        daemon.acquire(workspace.path(), &format!("c{i:02}"), json!({}));
    }
    let rows = |target: &str| {
        let data = daemon.get(target);
        (data["items"].as_array().or_else(|| data.as_array()).map(Vec::len)).expect("rows")
    };
    assert_eq!(rows("/v1/claims?afterCursor="), 50);
    assert_eq!(rows("/v1/claims"), 53);
    assert_eq!(rows("/v1/ports?claimed=true&afterCursor="), 50);
    assert_eq!(rows("/v1/history"), 50);
    assert_eq!(rows("/v1/history?limit=53&eventType=lease.acquired"), 53);
    // A limit alone is protocol 1's: it bounds logs and nothing else.
    assert_eq!(rows("/v1/claims?limit=2"), 53);
    assert_eq!(rows("/v1/logs?limit=2"), 2);
}

#[test]
fn claims_are_ordered_by_project_worktree_component_and_endpoint() {
    let daemon = Daemon::start();
    let (one, two) = (worktree(), worktree());
    let mut wanted = Vec::new();
    for project in ["beta", "Alpha", "alpha", "\u{e9}clair", "alpha-2"] {
        for root in [one.path(), two.path()] {
            for component in ["web", "api", "web 2", "10", "9"] {
                for endpoint in ["default", "Debug"] {
                    let mut body = acquire(root, component, json!({}));
                    body["claim"]["project"] = project.into();
                    body["claim"]["endpoint"] = endpoint.into();
                    give_up(&daemon, &daemon.post("/v1/leases/acquire", body));
                    let root = root.canonicalize().expect("it is there").display().to_string();
                    wanted.push([project.to_owned(), root, component.to_owned(), endpoint.to_owned()]);
                }
            }
        }
    }
    wanted.sort();
    let of = |claim: &Value| {
        ["project", "workspaceRoot", "component", "endpoint"]
            .map(|field| claim["identity"][field].as_str().expect("text").to_owned())
    };
    let plain: Vec<_> = daemon.get("/v1/claims").as_array().expect("a list").iter().map(of).collect();
    assert_eq!(plain, wanted);
    for limit in [1, 7, 100, 200] {
        let walked: Vec<_> = walk(&daemon, "/v1/claims", limit, || {}).iter().map(of).collect();
        assert_eq!(walked, wanted, "by pages of {limit}");
    }
}

#[test]
fn a_walk_of_claims_under_writers_shows_each_row_once() {
    let daemon = Daemon::start();
    let (workspace, other) = (worktree(), worktree());
    let mut ids = Vec::new();
    for i in 0..60 {
        let lease = daemon.acquire(workspace.path(), &format!("c{i:02}"), json!({}));
        ids.push(lease["claimId"].clone());
        give_up(&daemon, &lease);
    }
    under_writers(&daemon, other.path(), || {
        for limit in [1, 7, 50] {
            each_once(&walk(&daemon, "/v1/claims", limit, || {}), &ids, |claim| &claim["id"]);
        }
    });
}

#[test]
fn a_walk_of_ports_under_writers_is_by_number_and_shows_each_once() {
    let daemon = Daemon::start();
    let (workspace, other) = (worktree(), worktree());
    let mut ports = Vec::new();
    let mut servers = Vec::new();
    for i in 0..6 {
        let port = free_port();
        let lease = daemon.acquire(workspace.path(), &format!("c{i}"), json!({"preferredPort": port}));
        assert_eq!(lease["port"], port);
        let server = Server::listen("127.0.0.1", port, workspace.path());
        let id = lease["leaseId"].as_str().expect("an id");
        let body = json!({"leaseToken": lease["leaseToken"], "rootPid": server.pid()});
        daemon.post(&format!("/v1/leases/{id}/confirm"), body);
        ports.push(json!(port));
        servers.push(server);
    }
    for _ in 0..4 {
        // Nobody's, as far as this daemon knows.
        let port = free_port();
        servers.push(Server::listen("127.0.0.1", port, workspace.path()));
        ports.push(json!(port));
    }
    under_writers(&daemon, other.path(), || {
        for limit in [1, 3, 50] {
            let rows = walk(&daemon, "/v1/ports", limit, || {});
            each_once(&rows, &ports, |entry| &entry["port"]);
            let numbers: Vec<u64> = rows.iter().filter_map(|entry| entry["port"].as_u64()).collect();
            assert!(numbers.is_sorted(), "{numbers:?}");
        }
        let verified = walk(&daemon, "/v1/ports?classification=verified", 2, || {});
        assert_eq!(verified.len(), 6, "only those of this daemon");
        let mine = |entry: &&Value| ports.contains(&entry["port"]);
        let unclaimed = walk(&daemon, "/v1/ports?classification=unclaimed", 5, || {});
        assert_eq!(unclaimed.iter().filter(mine).count(), 4);
        for entry in unclaimed.iter().filter(mine) {
            assert_eq!(entry["listeners"].as_array().map(Vec::len), Some(1), "{entry}");
        }
    });
    for (filter, rows) in [
        ("claimed=true&listening=true", 6),
        ("claimed=true&listening=false", 0),
        ("project=shop&component=c3", 1),
        ("project=shop&service=c3&endpoint=default", 1),
        ("project=other", 0),
        ("classification=idle&project=shop&component=c3", 0),
    ] {
        let found = daemon.get(&format!("/v1/ports?{filter}&workspace={}", root(workspace.path())));
        assert_eq!(found.as_array().map(Vec::len), Some(rows), "{filter}");
    }
    let port = &ports[7];
    assert_eq!(daemon.get(&format!("/v1/ports?port={port}"))[0]["port"], *port);
    assert_eq!(walk(&daemon, &format!("/v1/ports?port={port}"), 1, || {}).len(), 1);
    assert_eq!(daemon.get(&format!("/v1/ports?port={}", free_port())), json!([]));
}

fn root(path: &Path) -> String {
    path.canonicalize().expect("it is there").display().to_string()
}

#[test]
fn logs_are_the_newest_ones_oldest_first_and_whole_by_pages() {
    let daemon = Daemon::start();
    for i in 1..=130 {
        daemon.refused("GET", &format!("/v1/claims/no-{i}"), None);
    }
    let paths = |rows: &Value| -> Vec<String> {
        let rows = rows.as_array().expect("a list").iter();
        rows.map(|e| e["details"]["pathname"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let wanted: Vec<String> = (1..=130).map(|i| format!("/v1/claims/no-{i}")).collect();
    assert_eq!(paths(&daemon.get("/v1/logs")), wanted[30..]);
    assert_eq!(paths(&daemon.get("/v1/logs?limit=3")), wanted[127..]);
    let all = paths(&daemon.get("/v1/logs?limit=10000"));
    assert_eq!(all[all.len() - 130..], wanted);
    let entry = &daemon.get("/v1/logs?limit=1")[0];
    assert_eq!(keys(entry), ["component", "details", "level", "message", "timestamp"]);
    for limit in [1, 7, 200] {
        let mut failing = 0;
        let walked = walk(&daemon, "/v1/logs", limit, || {
            // What is logged meanwhile comes at the end.
            if failing < 5 {
                daemon.refused("GET", "/v1/nope", None);
                failing += 1;
            }
        });
        let walked = paths(&json!(walked));
        let seen: Vec<_> = walked.iter().filter(|p| p.starts_with("/v1/claims")).collect();
        assert_eq!(seen, wanted.iter().collect::<Vec<_>>(), "by pages of {limit}");
    }
}

#[test]
fn a_cursor_of_another_filter_another_list_or_none_at_all_is_refused_by_name() {
    let daemon = Daemon::start();
    let workspace = worktree();
    for i in 0..3 {
        daemon.acquire(workspace.path(), &format!("c{i}"), json!({}));
        daemon.refused("GET", "/v1/nope", None);
    }
    let next = |target: &str| {
        let data = daemon.get(target);
        data["page"]["nextCursor"].as_str().unwrap_or_else(|| panic!("no page after {target}")).to_owned()
    };
    let lists = [
        ("/v1/claims?project=shop", next("/v1/claims?project=shop&limit=1&afterCursor=")),
        ("/v1/claims?component=", next("/v1/claims?limit=1&afterCursor=")),
        ("/v1/ports?claimed=true", next("/v1/ports?claimed=true&limit=1&afterCursor=")),
        ("/v1/history?entityType=lease", next("/v1/history?entityType=lease&limit=1")),
        ("/v1/logs?", next("/v1/logs?limit=1&afterCursor=")),
    ];
    let refused = |target: &str, cursor: &str| {
        let (status, reply) = ask(daemon.socket(), "GET", &format!("{target}&afterCursor={cursor}"), None);
        check_envelope(status, &reply);
        assert_eq!(
            (status, reply["error"]["code"].as_str()),
            (400, Some("invalid_input")),
            "{target} {cursor}"
        );
        assert_eq!(reply["error"]["details"]["field"], "afterCursor", "{reply}");
    };
    let targets = [
        "/v1/claims?project=other",
        "/v1/claims?project=shop&component=c1",
        "/v1/ports?claimed=false",
        "/v1/ports?listening=true",
        "/v1/history?entityType=claim",
        "/v1/history?entityType=lease&eventType=lease.acquired",
        "/v1/logs?",
    ];
    let long = "A".repeat(10_000);
    for target in targets {
        for (own, cursor) in &lists {
            if *own != target {
                refused(target, cursor);
            }
        }
        for garbage in ["!", "%00", "null", "0", "W10", "e30", "WzEsMl0", "%F0%9F%98%80", &long] {
            refused(target, garbage);
        }
        let (_, cursor) = &lists[0];
        refused(target, &cursor[..cursor.len() - 2]);
        refused(target, &format!("{cursor}A"));
    }
    // The limit is no part of what a cursor is bound to.
    let (target, cursor) = &lists[0];
    let rest = daemon.get(&format!("{target}&limit=200&afterCursor={cursor}"));
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(2));
}
