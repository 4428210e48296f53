//! The command line with input that can't be used, daemons that aren't there and work that is done already: the
//! exit status tells them apart, and `--json` prints one document whatever happens.

use crate::support::{House, Said, abandon, cli, house};
use portreeve_test_harness::host::Host;
use portreeve_test_harness::machine::{Server, raw};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixListener;

const NOBODY: &str = "0198c0de-0000-7000-8000-000000000000";

/// Every verb that asks the daemon, with arguments that are well formed.
fn verbs(lease_file: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["status"],
        vec!["ports", "list"],
        vec!["ports", "inspect", "3000"],
        vec!["claims", "list"],
        vec!["claims", "show", NOBODY],
        vec!["lease", "acquire", "--project", "shop", "--component", "web", "--lease-file", "l.json"],
        vec!["lease", "renew", "--lease-file", lease_file],
        vec!["lease", "confirm", "--lease-file", lease_file, "--root-pid", "1"],
        vec!["lease", "abandon", "--lease-file", lease_file, "--reason", "client-cancelled"],
        vec!["run", "release", NOBODY],
        vec!["config", "get"],
        vec!["history"],
        vec!["logs"],
    ]
}

/// A file that holds a lease which no daemon knows.
fn lease_file(directory: &std::path::Path) -> String {
    let path = directory.join("nobody.json");
    let lease = json!({"leaseId": NOBODY, "leaseToken": "A".repeat(43), "port": 3000, "expiresAt": null});
    std::fs::write(&path, lease.to_string()).expect("a file");
    path.to_str().expect("text").to_owned()
}

/// Runs a verb for people and for machines; both end alike, and the machine's document is an error of this class.
#[track_caller]
fn fails(house: &House, arguments: &[&str], status: i32) -> Value {
    let people = house.cli(arguments);
    assert_eq!((people.status, people.stdout.as_str()), (status, ""), "{arguments:?}: {}", people.stderr);
    assert!(!people.stderr.trim().is_empty(), "{arguments:?} says nothing");
    let machine = house.cli(&[arguments, &["--json"]].concat());
    let document = machine.document();
    assert_eq!(machine.status, status, "{arguments:?}: {document}");
    let error = document["error"].clone();
    assert!(document.get("data").is_none() && error["message"].is_string(), "{arguments:?}: {document}");
    for field in ["class", "code", "outcome"] {
        assert!(error[field].is_string(), "{arguments:?}: no {field}: {error}");
    }
    assert!(error["next"]["text"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    error
}

#[test]
fn without_a_daemon_every_verb_ends_with_30_and_says_how_to_start_it() {
    let mut house = house();
    house.daemon.kill();
    let file = lease_file(house.worktree.path());
    for verb in verbs(&file) {
        let error = fails(&house, &verb, 30);
        assert_eq!(error["class"], "daemon.not_listening", "{verb:?}");
        assert_eq!(error["next"]["command"], "portreeve serve", "{verb:?}");
    }
    std::fs::remove_file(house.socket()).expect("the socket was left");
    assert_eq!(fails(&house, &["ports", "list"], 30)["class"], "daemon.socket_absent");
    assert_eq!(house.cli(&["stop"]).status, 10, "there is nothing to stop");
}

#[test]
fn what_isnt_there_is_20_and_what_is_done_is_10() {
    let house = house();
    let file = lease_file(house.worktree.path());
    assert_eq!(fails(&house, &["claims", "show", NOBODY], 20)["class"], "resolve.not_found");
    for verb in ["renew", "confirm", "abandon"] {
        let mut arguments = vec!["lease", verb, "--lease-file", &file];
        arguments.extend(match verb {
            "confirm" => vec!["--root-pid", "1"],
            "abandon" => vec!["--reason", "client-cancelled"],
            _ => vec![],
        });
        assert_eq!(fails(&house, &arguments, 20)["class"], "resolve.not_found", "{verb}");
    }
    let released = house.cli(&["run", "release", NOBODY, "--json"]);
    assert_eq!((released.status, &released.document()["data"]["changed"]), (10, &json!(false)));
}

#[test]
fn a_conflict_is_20_and_names_who_has_it() {
    let house = house();
    let mut host = Host::with(house.socket(), &["--label", "other"]);
    let lease = host.done("leases_acquire", house.claim("web"));
    let acquire = |component: &'static str| {
        ["lease", "acquire", "--project", "shop", "--component", component, "--lease-file", "l.json"]
    };
    let error = fails(&house, &acquire("web"), 20);
    assert_eq!((&error["class"], &error["retryable"]), (&json!("resolve.conflict"), &json!(true)));
    assert_eq!(error["details"]["expiresAt"], lease["expiresAt"]);
    let exact = lease["port"].to_string();
    let taken = [&acquire("api")[..], &["--exact-port", &exact]].concat();
    assert_eq!(fails(&house, &taken, 20)["details"]["insteadOf"]["reason"], "leased");
    host.done("leases_abandon", abandon(&lease, "client-cancelled"));
}

#[test]
fn input_that_cannot_be_used_is_50_and_changes_nothing() {
    let house = house();
    let before = house.tables();
    for arguments in [
        &["ports", "inspect", "0"][..],
        &["ports", "inspect", "65536"],
        &["ports", "inspect", "abc"],
        &["ports", "inspect", "-1"],
        &["ports", "inspect", "3000.5"],
        &["ports", "inspect", ""],
        &["ports", "inspect"],
        &["ports", "inspect", "3000", "3001"],
        &["ports", "list", "--state", "broken"],
        &["ports", "list", "--limit", "0"],
        &["ports", "list", "--claimed", "--unclaimed"],
        &["ports", "nonsense"],
        &["ports"],
        &["claims", "show", "abc"],
        &["claims", "show", ""],
        &["claims", "show", "0198c0de000070008000000000000000"],
        &["claims", "list", "--project", ""],
        &["claims", "list", "--bogus"],
        &["run", "release", "abc"],
        &["lease", "acquire", "--project", "shop", "--lease-file", "l"],
        &["lease", "acquire", "--project", "a\nb", "--component", "c", "--lease-file", "l"],
        &["lease", "acquire", "--project", "p", "--component", "c", "--exact-port", "0", "--lease-file", "l"],
        &[
            "lease",
            "acquire",
            "--project",
            "p",
            "--component",
            "c",
            "--preferred-port",
            "65536",
            "--lease-file",
            "l",
        ],
        &[
            "lease",
            "acquire",
            "--project",
            "p",
            "--component",
            "c",
            "--workspace-root",
            "/no/such",
            "--lease-file",
            "l",
        ],
        &["lease", "confirm", "--lease-file", "/no/such", "--root-pid", "1"],
        &["lease", "confirm", "--lease-file", "/dev/null", "--root-pid", "1"],
        &["lease", "confirm", "--lease-file", "/dev/null", "--root-pid", "0"],
        &["lease", "confirm", "--lease-file", "/dev/null", "--root-pid", "4294967296"],
        &["lease", "abandon", "--lease-file", "/dev/null", "--reason", "whim"],
        &["lease", "renew", "--lease-file", "/"],
        &["history", "--limit", "0"],
        &["history", "--since", "yesterday"],
        &["logs", "--limit", "10001"],
        &["completions", "csh"],
        &["mcp", "setup", "--host", "emacs"],
        &["mcp", "serve", "--tools", "nonsense"],
        &["mcp", "serve", "--label", ""],
        &["status", "now"],
        &["nonsense"],
    ] {
        fails(&house, arguments, 50);
    }
    assert_eq!(house.tables(), before);
}

#[test]
fn paths_that_are_not_utf8_are_refused_in_words_or_work() {
    let house = house();
    let odd = OsString::from_vec(b"odd-\xff".to_vec());
    let directory = house.worktree.path().join(&odd);
    std::fs::create_dir(&directory).expect("a directory");
    let run = |arguments: &[&str], path: &std::ffi::OsStr| {
        let mut command = cli();
        command.args(arguments).arg(path).arg("--json").arg("--socket").arg(house.socket());
        command.current_dir(house.worktree.path());
        Said::of(command)
    };
    let acquire =
        ["lease", "acquire", "--project", "p", "--component", "c", "--lease-file", "l", "--workspace-root"];
    for arguments in
        [&acquire[..], &["claims", "list", "--workspace-root"], &["ports", "list", "--workspace-root"]]
    {
        let said = run(arguments, &odd);
        assert_eq!(said.status, 50, "{arguments:?}: {}", said.stdout);
        let message = said.document()["error"]["message"].clone();
        assert!(message.as_str().is_some_and(|text| text.contains("UTF-8")), "{message}");
    }
    assert_eq!(run(&["claims", "list", "--project"], &odd).status, 50);
    assert_eq!(run(&["ports", "inspect"], &odd).status, 50);
    // A home and a socket may have any name that the system takes.
    let mut command = cli();
    command.args(["status", "--json", "--socket"]).arg(directory.join("portreeve.sock"));
    assert_eq!(Said::of(command).status, 30);
    let mut command = cli();
    command.args(["mcp", "setup", "--json", "--socket"]).arg(directory.join("portreeve.sock"));
    let said = Said::of(command);
    assert_eq!(said.status, 50, "no host's settings can hold it: {}", said.stdout);
}

#[test]
fn an_incompatible_daemon_is_40() {
    let house = house();
    let socket = house.worktree.path().join("other.sock");
    let (_, health) = raw(house.socket(), "GET", "/v1/health", None).expect("it answers");
    let mut health: Value = serde_json::from_slice(&health).expect("JSON");
    health["data"]["protocol"] = json!({"minimum": 2, "maximum": 3});
    let listener = UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(id) = line.trim().strip_prefix("x-portreeve-request-id: ") {
                    health["requestId"] = id.into();
                }
                line.clear();
            }
            let body = health.to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            drop(write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        }
    });
    for arguments in [&["ports", "list"][..], &["status"], &["claims", "show", NOBODY], &["stop"]] {
        let mut command = cli();
        command.args(arguments).arg("--json").arg("--socket").arg(&socket);
        let said = Said::of(command);
        assert_eq!(said.status, 40, "{arguments:?}: {}", said.stdout);
        let error = said.document()["error"].clone();
        assert_eq!(error["class"], "compat.protocol_incompatible");
        assert!(error["next"]["text"].as_str().is_some_and(|text| text.contains("older side")), "{error}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let house = house();
    for arguments in [&["tools", "--json"][..], &["completions", "bash"], &["ports", "list"], &["--help"]] {
        let mut command = cli();
        command.args(arguments).arg("--socket").arg(house.socket());
        if arguments == ["--help"] {
            command = cli();
            command.arg("--help");
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        command.stdout(writer).stderr(std::process::Stdio::piped());
        drop(reader);
        let mut child = portreeve_test_harness::machine::spawn(&mut command).expect("it starts");
        drop(command);
        let status = child.wait().expect("it ends");
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        assert_eq!((status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn ctrl_c_ends_a_waiting_verb_with_130() {
    let house = house();
    let mut host = house.host();
    let lease = host.done("leases_acquire", house.claim("web"));
    let port = lease["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
    let _server = Server::listen("127.0.0.1", port, house.worktree.path());
    let _stopped = house.stopped();
    for arguments in [&["ports", "list"][..], &["status", "--json"], &["doctor"]] {
        let mut command = cli();
        command.args(arguments).arg("--socket").arg(house.socket());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = portreeve_test_harness::machine::spawn(&mut command).expect("it starts");
        let pid = rustix::process::Pid::from_child(&child);
        // Its handler is there once SIGINT is among the signals that it catches.
        portreeve_test_harness::machine::until("it waits", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
            (caught & 2 != 0).then_some(())
        });
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let status = portreeve_test_harness::machine::until("it ends", || child.try_wait().expect("a child"));
        assert_eq!(status.code(), Some(130), "{arguments:?}");
    }
}
