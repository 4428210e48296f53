//! The checked-in lists, and that tools, operations and handlers are the same set.

use crate::{none, registry};
use portreeve_test_harness::machine::Daemon;
use portreeve_test_harness::rules::{bounds, exceptions, operations, surface, workspace};
use std::collections::BTreeSet;
use std::fs;

/// Compares with a checked-in file, or writes it if `UPDATE_EXPECT` is set.
#[track_caller]
fn checked_in(file: &str, found: &str) {
    let path = workspace().join("test-harness").join(file);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, found).expect("a list can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (expected.lines().collect(), found.lines().collect());
    let gone = before.difference(&after).map(|line| format!("- {line}"));
    let diff: Vec<String> = gone.chain(after.difference(&before).map(|line| format!("+ {line}"))).collect();
    assert!(expected == found, "{file} (UPDATE_EXPECT=1 writes it; read the diff):\n{}", diff.join("\n"));
}

#[test]
fn the_tools_are_those_of_the_list() {
    checked_in("tools.txt", &surface::text(&registry()));
}

#[test]
fn the_operations_are_those_of_the_list() {
    checked_in("operations.txt", &operations::text(&registry()));
}

#[test]
fn every_operation_is_declared_once_and_well() {
    none(&operations::malformed(&registry()));
}

#[test]
fn every_tool_is_served() {
    none(&operations::unserved(&registry()));
}

#[test]
fn everything_served_is_declared_and_served_once() {
    none(&operations::undeclared(&registry()));
}

#[test]
fn everything_served_can_be_reached_by_an_agent_or_says_why_not() {
    none(&operations::unreachable(&registry()));
}

#[test]
fn a_daemon_announces_what_it_serves_whole() {
    let health = Daemon::start().get("/v1/health");
    let announced: Vec<String> =
        serde_json::from_value(health["capabilities"].clone()).expect("a list of words");
    none(&operations::announced(&registry(), &announced));
}

/// How long the lists of exceptions may be. When one shrinks, its number here does; none grows.
#[test]
fn the_lists_of_exceptions_only_shrink() {
    for (file, most) in [(operations::WITHOUT_TOOL, 1), (bounds::UNTYPED, 2)] {
        let found = exceptions(file).len();
        assert!(found <= most, "{file} has {found} lines, and never had more than {most}");
        assert!(found == most, "{file} has shrunk to {found} lines: say so in this test");
    }
}

/// A folder that nobody listed would be a domain that nobody linked.
#[test]
fn the_folders_of_domains_are_the_list_of_domains() {
    let listed: BTreeSet<String> =
        portreeve_domains::ALL.iter().map(|domain| domain.name().to_owned()).collect();
    let folders: BTreeSet<String> = fs::read_dir(workspace().join("domains"))
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read"))
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().into_string().expect("plain names"))
        // The nouns that domains share: no operations, no tools.
        .filter(|name| name != "records")
        .collect();
    assert_eq!(folders, listed);
}
