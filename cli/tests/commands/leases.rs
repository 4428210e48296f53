//! Holding, proving and giving back.

use crate::support::{Place, Server, ports, until};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;

const ACQUIRE: [&str; 6] = ["lease", "acquire", "--project", "shop", "--component", "web"];

fn acquire<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ACQUIRE.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn a_port_is_held_served_proved_and_over_when_its_server_dies() {
    let _ports = ports();
    let place = Place::with_daemon();
    let held = place.run(&acquire(&["--lease-file", "lease.json"]));
    assert_eq!(held.status, 0, "{}", held.stderr);
    let file = place.directory.path().join("lease.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let lease: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let token = lease["leaseToken"].as_str().unwrap();
    assert!(!held.stdout.contains(token));
    let port = lease["port"].as_u64().unwrap();

    let early = place.run(&[
        "lease",
        "confirm",
        "--lease-file",
        "lease.json",
        "--root-pid",
        &std::process::id().to_string(),
    ]);
    assert_eq!(early.status, 20, "nothing listens yet: {}", early.stdout);
    assert!(early.stderr.contains("next: "), "{}", early.stderr);

    let mut server = Server::start(port, place.directory.path());
    let confirm =
        ["lease", "confirm", "--lease-file", "lease.json", "--root-pid", &server.pid(), "--wait", "--json"];
    let run = place.run(&confirm).data()["runId"].as_str().unwrap().to_owned();
    assert_eq!(place.run(&confirm).status, 10, "a repeat changes nothing");
    let again = place.run(&acquire(&["--json"]));
    assert_eq!((again.status, &again.document()["data"]["state"]), (10, &"running".into()));

    let inspected = place.run(&["ports", "inspect", &port.to_string(), "--json"]).data();
    assert_eq!(inspected["classification"], "verified");
    let shown = place.run(&["ports", "inspect", &port.to_string()]).stdout;
    assert!(shown.contains("the run's own") && !shown.contains(token), "{shown}");
    let refused = place.run(&["run", "release", &run]);
    assert_eq!(refused.status, 20, "its server lives");

    server.0.kill().unwrap();
    server.0.wait().unwrap();
    let released = ["history", "--event-type", "run.released", "--entity-id", &run, "--json"];
    until("the end is noticed", || !place.run(&released).data()["items"].as_array().unwrap().is_empty());
    assert_eq!(place.run(&["run", "release", &run]).status, 10);
    let everything = place.run(&["history", "--limit", "1000", "--json"]).stdout
        + &place.run(&["logs", "--limit", "10000", "--json"]).stdout;
    assert!(!everything.contains(token), "a token was told");
}

#[test]
fn a_lease_is_renewed_and_given_back_by_file_or_by_output() {
    let _ports = ports();
    let place = Place::with_daemon();
    let document = place.run(&acquire(&["--json"])).stdout;
    std::fs::write(place.directory.path().join("out.json"), &document).unwrap();
    assert_eq!(place.run(&["lease", "renew", "--lease-file", "out.json"]).status, 0);
    let abandon = ["lease", "abandon", "--lease-file", "out.json", "--reason", "address-in-use"];
    assert_eq!(place.run(&abandon).status, 0);
    assert_eq!(place.run(&abandon).status, 10);
    assert_eq!(place.run(&["lease", "renew", "--lease-file", "out.json"]).status, 20);

    let both = place.run(&acquire(&["--lease-file", "l.json", "--json"]));
    assert!(both.document()["data"]["leaseToken"].is_null(), "the token goes to one place only");
}

#[test]
fn what_cannot_be_a_workspace_is_refused_clearly() {
    let place = Place::with_daemon();
    let refused = |path: std::ffi::OsString, says: &str| {
        let mut command = place.command(&acquire(&["--json", "--workspace-root"]));
        let said = crate::support::Said::of(command.arg(path).output().unwrap());
        assert_eq!(said.status, 50, "{}", said.stdout);
        let message = said.document()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says), "{message}");
    };
    let odd = std::ffi::OsString::from_vec(b"not-utf8-\xff".to_vec());
    place.workspace(&odd);
    refused(odd, "isn't UTF-8");
    refused("not-there".into(), "can't be used");
    std::fs::write(place.directory.path().join("file"), "").unwrap();
    refused("file".into(), "is no directory");

    let nowhere = place.run(&acquire(&[]));
    assert_eq!(nowhere.status, 50);
    assert!(nowhere.stderr.contains("--lease-file"), "{}", nowhere.stderr);
    assert_eq!(place.run(&["claims", "list", "--json"]).data()["items"], serde_json::json!([]));
}

#[test]
fn what_others_named_cannot_move_the_cursor() {
    let _ports = ports();
    let place = Place::with_daemon();
    let evil = place.workspace("evil\u{1b}[2J\u{202e}");
    let evil = evil.to_str().unwrap();
    let held = place.run(&acquire(&[
        "--workspace-root",
        evil,
        "--preferred-port",
        "14999",
        "--lease-file",
        "l.json",
    ]));
    assert_eq!(held.status, 0, "{}", held.stderr);
    let other = place.run(&acquire(&["--preferred-port", "14999", "--lease-file", "m.json"]));
    assert!(other.stdout.contains("Not 14999"), "{}", other.stdout);
    let mut shown = other.stdout;
    for command in [&["ports", "list"][..], &["claims", "list"], &["ports", "inspect", "14999"], &["history"]]
    {
        shown.push_str(&place.run(command).stdout);
    }
    assert!(shown.contains("evil\\u{1b}[2J\\u{202e}"), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}
