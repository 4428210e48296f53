//! What this crate may not reach, read from the lock file.

use std::collections::{BTreeMap, BTreeSet};

/// Every package that `root` can reach, whatever the features: more than is built, never less.
fn reached(lock: &str, root: &str) -> BTreeSet<String> {
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut package = "";
    for line in lock.lines() {
        if let Some(name) = line.strip_prefix("name = ") {
            package = name.trim_matches('"');
        } else if let Some(dependency) = line.strip_prefix(" \"") {
            // `name`, or `name version` where there are several.
            let name = dependency.split(['"', ' ']).next().expect("a split has a first part");
            needs.entry(package).or_default().push(name);
        }
    }
    let mut seen = BTreeSet::new();
    let mut open = vec![root];
    while let Some(package) = open.pop() {
        if seen.insert(package.to_owned()) {
            open.extend(needs.get(package).into_iter().flatten());
        }
    }
    seen
}

#[test]
fn no_way_leads_to_sqlite_or_the_daemon() {
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
    let lock = std::fs::read_to_string(lock).expect("the workspace is locked");
    let bridge = reached(&lock, "portreeve-bridge");
    assert!(bridge.contains("rmcp") && bridge.contains("portreeve-registry"), "{bridge:?}");
    for banned in ["rusqlite", "libsqlite3-sys", "portreeve-daemon", "portreeve-evidence"] {
        assert!(!bridge.contains(banned), "portreeve-bridge reaches {banned}");
    }
    // That the reading sees such a way where there is one.
    assert!(reached(&lock, "portreeve-daemon").contains("libsqlite3-sys"));
}
