//! What each room may not reach, in cargo's resolved graph.

use crate::none;
use portreeve_test_harness::rules::dependencies::{Graph, is_sqlite};

#[test]
fn bridge_and_client_reach_neither_sqlite_nor_the_daemon() {
    let graph = Graph::read();
    let banned = |name: &str, links: &str| {
        is_sqlite(name, links) || name == "portreeve-daemon" || name == "portreeve-evidence"
    };
    none(&graph.ways("portreeve-bridge", banned));
    none(&graph.ways("portreeve-client", banned));
    // That the reading sees such ways where there are some.
    assert!(!graph.ways("portreeve-daemon", is_sqlite).is_empty());
    assert!(!graph.ways("portreeve", banned).is_empty());
}

#[test]
fn the_registry_knows_no_domain_and_no_protocol() {
    let graph = Graph::read();
    let banned = |name: &str, links: &str| {
        name.starts_with("portreeve-") || is_sqlite(name, links) || ["rmcp", "hyper", "tokio"].contains(&name)
    };
    none(&graph.ways("portreeve-registry", banned));
}

#[test]
fn domains_do_no_io() {
    let graph = Graph::read();
    let domains = graph.below("domains");
    assert_eq!(domains.len(), portreeve_domains::ALL.len() + 2, "and the list, and the records: {domains:?}");
    let banned = |name: &str, links: &str| {
        is_sqlite(name, links)
            || ["tokio", "hyper", "hyper-util", "rmcp", "rustix", "async-trait", "jiff", "tracing"]
                .contains(&name)
            || ["portreeve-client", "portreeve-bridge", "portreeve-daemon", "portreeve-evidence"]
                .contains(&name)
    };
    for domain in domains {
        none(&graph.ways(domain, banned));
    }
}
