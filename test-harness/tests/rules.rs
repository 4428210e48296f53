//! The rules of [`portreeve_test_harness::rules`] over the real registry, daemon, bridge and dependency graph.
//!
//! None of these tests names a tool: a new domain is under all of them the moment it is on the list.
//! `UPDATE_EXPECT=1 cargo test -p portreeve-test-harness --test rules` writes the lists anew; read the diff.

#[path = "rules/graph.rs"]
mod graph;
#[path = "rules/lists.rs"]
mod lists;
#[path = "rules/sources.rs"]
mod sources;
#[cfg(target_os = "linux")]
#[path = "rules/spawning.rs"]
mod spawning;
#[path = "rules/tools.rs"]
mod tools;
#[path = "rules/wire.rs"]
mod wire;

use portreeve_registry::Registry;

fn registry() -> Registry {
    portreeve_domains::load().expect("what is linked is a registry")
}

/// Fails with every fault, one a line.
#[track_caller]
fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
