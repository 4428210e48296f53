//! Many at once: agents bind every port they get, and journal and store agree both ways.

use crate::actor::Actor;
use crate::support::{House, Ports, house, house_with, port, token};
use portreeve_test_harness::machine;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 16;
const CLAIMS: usize = 400;

/// Pending leases in the store: id to port.
fn stored(house: &House) -> BTreeMap<String, u16> {
    let path = house.daemon.home().join(portreeve_daemon::store::FILE_NAME);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = rusqlite::Connection::open_with_flags(path, flags).expect("the store can be read");
    let mut statement = conn.prepare("SELECT id, port FROM lease WHERE state = 'pending'").expect("a table");
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows")
}

#[test]
fn four_hundred_claims_at_once_get_four_hundred_ports() {
    // Above the others' stretches and below the ports of outgoing connections.
    let house = house_with(json!({
        "automaticPortRanges": [{"start": 31_300, "end": 32_700}], "leaseTtlMilliseconds": 120_000,
    }));
    let journal = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // What an agent does with a port: it binds it, and keeps it.
                let mut bound = Vec::new();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= CLAIMS {
                        break;
                    }
                    let lease = house.lease(&format!("component-{n}"), json!({}));
                    let socket = TcpListener::bind(("127.0.0.1", port(&lease)));
                    bound.push(socket.unwrap_or_else(|e| panic!("{lease} can't be bound: {e}")));
                    let id = lease["leaseId"].as_str().expect("an id").to_owned();
                    journal.lock().expect("no thread panicked").insert(id, port(&lease));
                }
                bound
            });
        }
    });
    let journal = journal.into_inner().expect("no thread panicked");
    let ports: std::collections::BTreeSet<u16> = journal.values().copied().collect();
    assert_eq!((journal.len(), ports.len()), (CLAIMS, CLAIMS), "each once");
    assert_eq!(stored(&house), journal, "what was answered is what is stored");
    assert_eq!(house.get("/v1/claims").as_array().map(Vec::len), Some(CLAIMS));
}

#[test]
fn many_requests_for_one_claim_make_one_lease() {
    let house = house();
    let wished = house.ports.wish(0);
    // Without a token: one is given the lease, the others hear of it.
    for allocation in [json!({}), json!({"preferredPort": wished}), json!({"exactPort": wished + 1})] {
        let component = format!("c{}", allocation.to_string().len());
        let answers: Vec<(u16, Value)> = at_once(|| {
            let body = machine::acquire(house.worktree.path(), &component, allocation.clone());
            house.ask("POST", "/v1/leases/acquire", Some(body))
        });
        let (given, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|(status, _)| *status == 200);
        assert_eq!(given.len(), 1, "{answers:?}");
        for (_, body) in refused {
            assert_eq!(body["error"]["details"]["reason"], "claim_pending", "{body}");
            assert_eq!(body["error"]["retryable"], true, "{body}");
        }
    }
    // With one token: all are given the same lease.
    for allocation in [json!({}), json!({"exactPort": wished + 2})] {
        let token = token();
        let component = format!("d{}", allocation.to_string().len());
        let leases: Vec<Value> = at_once(|| house.lease_by(&component, allocation.clone(), &token));
        let made = leases.iter().filter(|lease| lease["changed"] == true).count();
        assert_eq!(made, 1, "{leases:?}");
        assert!(leases.iter().all(|lease| lease["leaseId"] == leases[0]["leaseId"]), "{leases:?}");
    }
    assert_eq!(stored(&house).len(), 5);
}

/// The answers of sixteen threads that ask at once.
fn at_once<T: Send>(ask: impl Fn() -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    ask()
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().expect("answered")).collect()
    })
}

#[test]
fn one_preferred_port_that_many_claims_want_is_given_once() {
    let house = house();
    let wished = house.ports.wish(0);
    let next = AtomicUsize::new(0);
    let leases: Vec<Value> = at_once(|| {
        let n = next.fetch_add(1, Ordering::Relaxed);
        house.lease(&format!("c{n}"), json!({"preferredPort": wished}))
    });
    let got: std::collections::BTreeSet<u16> = leases.iter().map(port).collect();
    assert_eq!(got.len(), THREADS, "{leases:?}");
    assert_eq!(leases.iter().filter(|lease| port(lease) == wished).count(), 1);
    for lease in leases.iter().filter(|lease| port(lease) != wished) {
        assert_eq!(
            (&lease["insteadOf"]["port"], &lease["insteadOf"]["reason"]),
            (&json!(wished), &json!("leased"))
        );
    }
}

#[test]
fn five_hundred_busy_ports_are_passed_over() {
    let start = 30_500;
    let house = house_with(json!({"automaticPortRanges": [{"start": start, "end": start + 599}]}));
    // Listening, or bound and unseen: half and half.
    let steps: Vec<String> = (0..500)
        .map(|n| format!("{}=127.0.0.1,{}", if n % 2 == 0 { "listen" } else { "bind" }, start + n))
        .collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let _busy = Actor::start(std::path::Path::new("/"), &steps);
    assert_eq!(port(&house.lease("web", json!({}))), start + 500);
    assert_eq!(port(&house.lease("api", json!({}))), start + 501);
}

#[test]
fn a_range_that_is_used_up_is_said_to_be() {
    let ports = Ports::reserve();
    let house = house_with(json!({"automaticPortRanges": [{"start": ports.start, "end": ports.start + 1}]}));
    house.lease("web", json!({}));
    let second = house.lease("api", json!({}));
    let error = house.no_lease("worker", json!({}));
    assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(false)), "{error}");
    assert_eq!(house.get("/v1/claims").as_array().map(Vec::len), Some(2), "a refusal leaves no claim");
    house.abandon(&second, "client-cancelled");
    assert_eq!(house.lease("worker", json!({}))["port"], second["port"]);
}
