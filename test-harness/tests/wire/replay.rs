//! Recorded exchanges of the existing implementation, played again in a world like the one they were recorded in.
//!
//! `examples.jsonl` holds them. A request is sent as it was recorded, its ids, tokens, ports, pids and paths
//! replaced by this world's, which are learned from the replies.
//! `differences.json` holds every allowed difference with the sentence of the design that asks for it;
//! `not_served.json` the exchanges whose operation isn't there yet. Both lists may only hold what is still true.

use crate::shape::{differences, fits, shape};
use crate::support::{check_envelope, keys};
use crate::world::{Exchange, World};
use portreeve_test_harness::machine::{Daemon, ask};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// The exchange's step, or `*`.
    exchange: String,
    /// The key path; see `shape::fits`.
    path: String,
    /// The design file that asks for it.
    source: String,
    /// Its sentence, verbatim.
    cites: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotServed {
    exchange: String,
    /// What will be announced once it is served.
    capability: String,
    /// The operation is served, but what was recorded tells of operations that aren't.
    #[serde(default)]
    content_only: bool,
}

fn exchanges() -> Vec<Exchange> {
    let lines = include_str!("examples.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("an exchange a line")).collect()
}

fn not_served() -> Vec<NotServed> {
    serde_json::from_str(include_str!("not_served.json")).expect("the list of what isn't served yet")
}

/// What this machine has beside the recorded one, and what isn't announced yet, is left out.
fn comparable(exchange: &Exchange, world: &World, reply: &Value) -> (Value, Value) {
    let (mut recorded, mut came) = (exchange.reply.clone(), reply.clone());
    if exchange.request.starts_with("GET /v1/ports?") || exchange.request == "GET /v1/ports" {
        let known: BTreeSet<u64> = world.names.ports.values().copied().collect();
        if let Some(entries) = came["data"].as_array_mut() {
            entries.retain(|entry| known.contains(&entry["port"].as_u64().unwrap_or_default()));
        }
    }
    if exchange.request == "GET /v1/health" {
        let missing: BTreeSet<String> = not_served().into_iter().map(|n| n.capability).collect();
        if let Some(capabilities) = recorded["data"]["capabilities"].as_array_mut() {
            capabilities.retain(|c| !missing.contains(c.as_str().unwrap_or_default()));
        }
    }
    (recorded, came)
}

#[test]
fn recorded_exchanges_come_out_in_the_same_shape() {
    let allowed: Vec<Difference> =
        serde_json::from_str(include_str!("differences.json")).expect("the list of differences");
    let missing: BTreeSet<String> = not_served().into_iter().map(|n| n.exchange).collect();
    let exchanges: Vec<Exchange> = exchanges().into_iter().filter(|e| !missing.contains(&e.step)).collect();
    // Two recordings: one client by hand, one through tools. Each had its own daemon.
    let split = exchanges.iter().position(|e| e.step == "port-inspect-pending").expect("it is there");
    let mut used = vec![false; allowed.len()];
    let mut unexpected = Vec::new();
    for recording in [&exchanges[..split], &exchanges[split..]] {
        let mut world = World::new();
        for exchange in recording {
            world.before(&exchange.step);
            let (status, reply) = world.play(exchange);
            let (recorded, came) = comparable(exchange, &world, &reply);
            let mut found = differences(&shape("reply", &recorded), &shape("reply", &came));
            if status != exchange.status {
                let status = (exchange.status.to_string(), status.to_string());
                found.push(("status".into(), Some(status.0), Some(status.1)));
            }
            for (path, recorded, came) in found {
                let fitting = allowed.iter().position(|allowed| {
                    (allowed.exchange == "*" || allowed.exchange == exchange.step)
                        && fits(&allowed.path, &path)
                });
                match fitting {
                    Some(at) => used[at] = true,
                    None => unexpected.push(format!("{}: {path}: {recorded:?} → {came:?}", exchange.step)),
                }
            }
        }
    }
    assert!(unexpected.is_empty(), "not as recorded:\n{}", unexpected.join("\n"));
    for (difference, used) in allowed.iter().zip(used) {
        assert!(used, "no longer a difference: {difference:?}");
        assert!(difference.source.ends_with(".md") && difference.cites.len() > 20, "{difference:?}");
    }
}

#[test]
fn what_is_not_served_yet_answers_404_and_is_not_announced() {
    let list = not_served();
    let exchanges = exchanges();
    let daemon = Daemon::start();
    let health = daemon.get("/v1/health");
    let announced = health["capabilities"].as_array().expect("a list");
    for missing in list {
        let exchange = exchanges.iter().find(|e| e.step == missing.exchange).expect("a recorded exchange");
        assert!(
            !announced.contains(&json!(missing.capability)),
            "{} is announced: {} belongs into the replay",
            missing.capability,
            missing.exchange
        );
        let (method, target) = exchange.request.split_once(' ').expect("a method and a target");
        let body = (!exchange.body.is_null()).then(|| exchange.body.clone());
        let (status, reply) = ask(daemon.socket(), method, target, body);
        check_envelope(status, &reply);
        if missing.content_only {
            assert_ne!(status, 404, "{}: {reply}", missing.exchange);
            continue;
        }
        assert_eq!(status, 404, "{} is served: it belongs into the replay", missing.exchange);
        assert_eq!(reply["error"]["failure"]["class"], "daemon.unknown_operation", "{reply}");
        assert_eq!(keys(&reply["error"]["details"]), Vec::<&str>::new(), "{reply}");
    }
}
