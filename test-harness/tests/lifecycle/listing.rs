//! The list of ports: the very entries that are answered one by one, cut by filters and pages.

use crate::actor::Actor;
use crate::support::{House, Served, house, port, real};
use portreeve_test_harness::machine;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// One of each kind: verified with a worker, idle, pending, unclaimed by two processes, conflicting.
fn furnished(house: &House) -> (Vec<Served>, Vec<Actor>) {
    let lease = house.lease("web", json!({}));
    let mut server = Actor::serve(house.worktree.path(), port(&lease));
    server.child("");
    let run = house.confirm(&lease, server.pid());
    let verified = Served { lease, server, run };
    let mut idle = house.served("idle", json!({}));
    idle.server.kill();
    house.event("run.released", &idle.run["runId"]);
    house.lease("pending", json!({}));
    let mut stranger = Actor::serve(Path::new("/"), house.ports.wish(0));
    stranger.child("");
    let mut conflicting = house.served("conflicting", json!({}));
    conflicting.server.tell("close");
    (vec![verified, idle, conflicting], vec![stranger])
}

fn ours(house: &House, list: &Value) -> Vec<Value> {
    let stretch = house.ports.start..=house.ports.wish(19);
    let all = list.as_array().expect("a list").iter();
    all.filter(|entry| stretch.contains(&port(entry))).cloned().collect()
}

#[test]
fn each_entry_is_what_is_answered_of_that_port() {
    let house = house();
    let _kept = furnished(&house);
    let list = ours(&house, &house.get("/v1/ports"));
    assert_eq!(list.len(), 5, "{list:?}");
    for entry in &list {
        assert_eq!(&house.port(port(entry)), entry);
    }
    // And once more, now that everything was looked at one by one.
    assert_eq!(ours(&house, &house.get("/v1/ports")), list);
    let ports: Vec<u16> = list.iter().map(port).collect();
    assert!(ports.is_sorted(), "{ports:?}");
}

#[test]
fn filters_cut_and_hold_all_together() {
    let house = house();
    let (served, _strangers) = furnished(&house);
    let other = machine::worktree();
    let elsewhere = house.acquire(other.path(), "web", json!({}));
    let all = ours(&house, &house.get("/v1/ports"));
    let check = |query: &str, holds: &dyn Fn(&Value) -> bool| {
        let expected: Vec<&Value> = all.iter().filter(|entry| holds(entry)).collect();
        let list = ours(&house, &house.get(&format!("/v1/ports?{query}")));
        assert_eq!(list.iter().collect::<Vec<_>>(), expected, "{query}");
        expected.len()
    };
    for classification in ["verified", "idle", "unclaimed", "conflicting"] {
        assert_eq!(
            check(&format!("classification={classification}"), &|e| e["classification"] == classification),
            1
        );
    }
    assert_eq!(check("classification=pending", &|e| e["classification"] == "pending"), 2);
    assert_eq!(check("claimed=true", &|e| !e["claim"].is_null()), 5);
    assert_eq!(check("claimed=false", &|e| e["claim"].is_null()), 1);
    assert_eq!(check("listening=true", &|e| e["listeners"] != json!([])), 2);
    assert_eq!(check("listening=false", &|e| e["listeners"] == json!([])), 4);
    assert_eq!(check("project=shop", &|e| !e["claim"].is_null()), 5);
    assert_eq!(check("project=other", &|_| false), 0);
    assert_eq!(check("component=web", &|e| e["claim"]["identity"]["component"] == "web"), 2);
    assert_eq!(check("service=web", &|e| e["claim"]["identity"]["component"] == "web"), 2);
    assert_eq!(check("service=web&component=idle", &|_| false), 0);
    assert_eq!(check("endpoint=default&listening=true", &|e| e["classification"] == "verified"), 1);
    let root = real(other.path());
    assert_eq!(check(&format!("workspace={root}"), &|e| port(e) == port(&elsewhere)), 1);
    assert_eq!(check(&format!("workspace={root}/"), &|_| false), 0);
    let verified = served[0].port();
    assert_eq!(check(&format!("port={verified}"), &|e| port(e) == verified), 1);
    assert_eq!(check(&format!("port={verified}&classification=idle"), &|_| false), 0);
}

#[test]
fn pages_show_every_port_once() {
    let house = house();
    let _kept = furnished(&house);
    for filter in ["", "&project=shop", "&listening=false"] {
        let (mut cursor, mut seen, mut pages) = (String::new(), Vec::new(), 0);
        loop {
            let page = house.get(&format!("/v1/ports?limit=2&afterCursor={cursor}{filter}"));
            let items = page["items"].as_array().expect("items");
            assert!(items.len() <= 2);
            seen.extend(items.iter().cloned());
            pages += 1;
            match page["page"]["nextCursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        let once: BTreeSet<u16> = seen.iter().map(port).collect();
        assert_eq!(once.len(), seen.len(), "{filter}");
        let whole = ours(&house, &house.get(&format!("/v1/ports?{}", filter.trim_start_matches('&'))));
        assert_eq!(ours(&house, &Value::Array(seen)), whole, "{filter}");
        assert!(pages >= 2);
    }
}
