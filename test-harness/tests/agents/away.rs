//! Daemons that are absent, come later, are replaced by another or have a damaged store; and bridges in odd
//! surroundings.

use crate::support::{House, abandon, cli, confirm, house, port, with_stretch};
use portreeve_test_harness::host::{ERAS, Host};
use portreeve_test_harness::machine::{self, Daemon, Server};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn a_bridge_before_its_daemon_says_how_to_start_it_and_works_once_it_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    machine::give(directory.path());
    let home = directory.path().join("home");
    let mut host = Host::start(&home.join("portreeve.sock"));
    assert!(host.tools.len() >= 13, "everything is listed without a daemon");
    for (tool, arguments) in [
        ("ports_get", json!({"port": 3000})),
        ("leases_acquire", crate::support::claim(directory.path(), "web")),
        ("history_list", json!({})),
    ] {
        let begun = Instant::now();
        let record = host.fails("daemon.socket_absent", tool, arguments);
        assert!(begun.elapsed() < Duration::from_secs(1), "at once");
        assert_eq!(record["outcome"], "not_started");
        assert_eq!(record["nextStep"]["command"], "portreeve serve", "{record}");
    }
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!(told["next"]["command"], "portreeve serve");
    assert_eq!(told["recentFailures"].as_array().map(Vec::len), Some(3));
    machine::prepare(&home, &with_stretch(json!({})));
    let daemon = Daemon::start_in(&home);
    let house = House { daemon, worktree: machine::worktree() };
    let served = house.serve(&mut host, "web");
    assert_eq!(served.run["changed"], true);
    assert_eq!(host.done("diagnostics_get", json!({}))["daemon"]["reachable"], true);
}

#[test]
fn another_home_behind_the_same_socket_is_a_new_world_to_the_same_bridge() {
    let mut house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    house.daemon.kill();
    let home = house.home().to_owned();
    std::fs::rename(&home, home.with_extension("old")).expect("a home can be moved");
    machine::prepare(&home, &with_stretch(json!({})));
    house.start_again();
    let gone = host.call("leases_confirm", confirm(&lease, std::process::id())).expect_err("no such lease");
    let class = gone["class"].as_str().expect("a class");
    assert!(["resolve.not_found", "custody.renewal_failed"].contains(&class), "{gone}");
    let new = host.done("leases_acquire", house.claim("web"));
    assert_ne!(new["leaseId"], lease["leaseId"]);
    assert_ne!(new["credentialHandle"], lease["credentialHandle"]);
    host.done("leases_abandon", abandon(&new, "client-cancelled"));
}

#[test]
fn a_damaged_store_is_named_by_every_tool_and_diagnostics_go_on() {
    let mut house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    house.daemon.kill();
    let store = house.home().join(portreeve_daemon::store::FILE_NAME);
    let mut bytes = std::fs::read(&store).expect("the store is there");
    bytes[..16].copy_from_slice(b"no SQLite at all");
    std::fs::write(&store, bytes).expect("the store can be spoilt");
    house.start_again();
    for (tool, arguments) in [
        ("leases_acquire", house.claim("api")),
        ("leases_confirm", confirm(&lease, std::process::id())),
        ("leases_release", json!({"runId": "0198c0de-0000-7000-8000-000000000000"})),
        ("claims_list", json!({})),
        ("ports_get", json!({"port": 3000})),
        ("settings_get", json!({})),
        ("history_list", json!({})),
    ] {
        let record = host.fails("store.corrupt", tool, arguments);
        assert_ne!(record["retryable"], "yes", "{record}");
        assert!(record["nextStep"].to_string().contains("portreeve doctor"), "{tool}: {record}");
    }
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!(told["daemon"]["reachable"], true);
    assert!(told["next"].to_string().contains("portreeve doctor"), "{told}");
    host.done("diagnostics_health_get", json!({}));
    let said = house.cli(&["ports", "list", "--json"]);
    assert_eq!((said.status, &said.document()["error"]["class"]), (30, &json!("store.corrupt")));
}

/// A bridge with an environment of nothing, for the daemon of `house`.
fn bare(house: &House, directory: &Path) -> std::process::Command {
    let mut command = Host::command(house.socket());
    command.env_clear().current_dir(directory);
    command
}

fn works(house: &House, mut host: Host) {
    let lease = host.done("leases_acquire", house.claim("web"));
    let server = Server::listen("127.0.0.1", port(&lease), house.worktree.path());
    host.done("leases_confirm", confirm(&lease, server.pid()));
    assert_eq!(host.done("diagnostics_get", json!({}))["daemon"]["reachable"], true);
    drop(server);
    host.hang_up();
    assert_eq!(host.exits().code(), Some(0));
}

#[test]
fn a_bridge_works_without_home_or_path_from_the_root_of_the_disk() {
    let house = house();
    works(&house, Host::run(bare(&house, Path::new("/")), ERAS[0]));
}

#[test]
fn a_bridge_works_with_a_home_that_is_nowhere_and_a_path_that_is_empty() {
    let house = house();
    let mut command = bare(&house, Path::new("/"));
    command.env("HOME", "/nonexistent/home").env("PATH", "").env("XDG_STATE_HOME", "relative");
    works(&house, Host::run(command, ERAS[2]));
}

#[test]
fn a_bridge_works_in_a_directory_that_was_deleted() {
    let house = house();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_owned();
    let mut script = std::process::Command::new("/bin/sh");
    let bridge = bare(&house, &path);
    let words: Vec<_> = std::iter::once(bridge.get_program()).chain(bridge.get_args()).collect();
    script.args(["-c", "rmdir \"$0\" && exec \"$@\""]).arg(&path).args(words).env_clear();
    script.env("PATH", "/usr/bin:/bin").current_dir(&path);
    works(&house, Host::run(script, ERAS[0]));
    assert!(!path.exists());
}

#[test]
fn a_bridge_without_a_home_and_without_a_socket_says_what_to_name() {
    let mut command = cli();
    command.env_clear().args(["mcp", "serve"]).env("HOME", "relative").current_dir("/");
    let mut host = Host::run(command, ERAS[0]);
    let failed = host.call("ports_get", json!({"port": 3000}));
    if let Err(record) = failed {
        assert_eq!(record["boundary"], "client", "{record}");
        assert!(record["nextStep"]["text"].as_str().is_some_and(|step| !step.is_empty()));
    }
}
