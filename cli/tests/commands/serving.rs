//! The daemon as a command.

use crate::support::{Place, Said, portreeve, until};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

#[test]
fn a_second_daemon_says_who_has_the_home() {
    let place = Place::with_daemon();
    let second = place.run(&["serve"]);
    assert_eq!((second.status, second.stdout.as_str()), (20, ""), "{}", second.stderr);
    assert!(
        second.stderr.contains("is held by process") && second.stderr.contains("next: "),
        "{}",
        second.stderr
    );
    let elsewhere = place.run(&["serve", "--socket", "other.sock"]);
    assert_eq!(elsewhere.status, 20, "{}", elsewhere.stderr);
    assert_eq!(place.run(&["status"]).status, 0, "the first one serves on");
}

#[test]
fn sigterm_ends_it_well_and_a_new_one_takes_over() {
    let mut place = Place::with_daemon();
    let acquire =
        ["lease", "acquire", "--project", "p", "--component", "c", "--ephemeral", "--lease-file", "l.json"];
    assert_eq!(place.run(&acquire).status, 0);
    place.terminate();
    assert!(!place.socket().exists(), "the socket is taken away");
    assert_eq!(place.run(&["status"]).status, 30);
    place.serve();
    let renewed = place.run(&["lease", "renew", "--lease-file", "l.json"]);
    assert_eq!(renewed.status, 0, "a lease outlives its daemon: {}", renewed.stderr);
}

/// Only root can become somebody else; elsewhere there is nothing to see.
#[test]
fn another_users_daemon_is_not_believed() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::without_daemon();
    let directory = place.workspace("open");
    std::fs::set_permissions(place.directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    // The build's own directory may be closed to others.
    let binary = directory.join("portreeve");
    std::fs::copy(env!("CARGO_BIN_EXE_portreeve"), &binary).unwrap();
    let mut command = std::process::Command::new(&binary);
    command.args(["serve", "--while-stdin-is-open", "--home"]).arg(directory.join("home"));
    command.env_clear().uid(NOBODY).gid(NOBODY).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut theirs = command.spawn().unwrap();
    let socket = directory.join("home/portreeve.sock");
    until("their daemon answers", || UnixStream::connect(&socket).is_ok());

    let asked =
        || Said::of(portreeve().args(["status", "--json", "--socket"]).arg(&socket).output().unwrap());
    let refused = asked().document()["error"].clone();
    assert_eq!(refused["class"], "daemon.socket_denied", "{refused}");
    // A socket that looks like ours, with somebody else behind it.
    chown(&socket, Some(0), Some(0)).unwrap();
    let refused = asked();
    assert_eq!(refused.status, 30);
    let refused = refused.document()["error"].clone();
    assert_eq!(refused["class"], "daemon.socket_denied", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("a process of user 65534 answers"), "{refused}");
    theirs.kill().unwrap();
    theirs.wait().unwrap();
}
