//! What `mcp setup` prints for a host is what the host needs: it starts a bridge that works, wherever the host
//! stands.

use crate::support::{House, cli, house};
use portreeve_test_harness::host::{ERAS, Host};
use portreeve_test_harness::machine::{portreeve, python};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const HOSTS: [&str; 3] = ["generic", "codex", "claude-code"];

/// Starts what a host was told, in odd surroundings, and has a port by it.
fn starts(house: &House, command: &str, arguments: &[String]) {
    let mut told = Command::new(command);
    told.args(arguments).env_clear().env("HOME", "/nonexistent").env("PATH", "").current_dir("/");
    let mut host = Host::run(told, ERAS[0]);
    let told = host.done("diagnostics_get", json!({}));
    assert_eq!(told["daemon"]["reachable"], true, "{told}");
    assert_eq!(told["bridge"]["socketPath"], json!(house.socket()));
    host.done("leases_acquire", house.claim("web"));
    host.hang_up();
    assert_eq!(host.exits().code(), Some(0));
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("text").to_owned()).collect()
}

/// A TOML document as JSON, by Python's parser.
fn toml(text: &str) -> Value {
    let script = "import sys,json,tomllib; print(json.dumps(tomllib.loads(sys.argv[1])))";
    let output = Command::new(python()).args(["-c", script, text]).output().expect("python3 runs");
    assert!(output.status.success(), "no TOML: {text}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The words of a command line, by the shell.
fn words(line: &str) -> Vec<String> {
    let output =
        Command::new("/bin/sh").args(["-c", &format!("for w in {line}; do echo \"$w\"; done")]).output();
    let output = output.expect("sh runs");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn what_is_printed_for_each_host_starts_a_bridge_that_works_anywhere() {
    let house = house();
    for name in HOSTS {
        let data = house.cli(&["mcp", "setup", "--host", name, "--json"]).data();
        let (command, arguments) = (data["command"].as_str().expect("text"), texts(&data["args"]));
        assert!(Path::new(command).is_absolute(), "{command}");
        let exe = portreeve().canonicalize().expect("it is there");
        assert_eq!(Path::new(command).canonicalize().expect("it is there"), exe);
        let socket = arguments.iter().skip_while(|word| *word != "--socket").nth(1).expect("a socket");
        assert_eq!(Path::new(socket), house.socket());
        starts(&house, command, &arguments);

        // The pieces to paste say the same.
        let server = match name {
            "codex" => toml(data["config"].as_str().expect("TOML"))["mcp_servers"]["portreeve"].clone(),
            _ => data["config"]["mcpServers"]["portreeve"].clone(),
        };
        assert_eq!((&server["command"], &server["args"]), (&data["command"], &data["args"]), "{name}");
        if let Some(shell) = data["shell"].as_str() {
            let words = words(shell);
            let at = words.iter().position(|word| word == "--").expect("the command follows --");
            assert_eq!(words[at + 1], command, "{name}");
            assert_eq!(words[at + 2..], arguments, "{name}");
        }
        let people = house.cli(&["mcp", "setup", "--host", name]).stdout;
        let shown = match &data["config"] {
            Value::String(toml) => toml.clone(),
            config => format!("{config:#}"),
        };
        assert!(people.contains(&shown), "{name}: {people}");
    }
}

#[test]
fn a_portable_setup_names_neither_program_nor_socket_by_path() {
    let house = house();
    for name in HOSTS {
        let mut command = cli();
        command.args(["mcp", "setup", "--host", name, "--portable", "--json"]);
        let data = crate::support::Said::of(command).data();
        assert_eq!(data["command"], "portreeve");
        assert!(
            !texts(&data["args"]).iter().any(|word| word == "--socket" || word.starts_with('/')),
            "{data}"
        );
        let mut told = Command::new("/usr/bin/env");
        told.arg("portreeve").args(texts(&data["args"])).env_clear().current_dir("/");
        told.env("PATH", portreeve().parent().expect("a folder")).env("PORTREEVE_SOCKET", house.socket());
        let mut host = Host::run(told, ERAS[0]);
        assert_eq!(host.done("diagnostics_get", json!({}))["daemon"]["reachable"], true);
    }
}

#[test]
fn labels_toolsets_and_odd_paths_survive_into_what_is_printed() {
    let directory = tempfile::Builder::new().prefix("it's \"odd\" \\ $HOME ").tempdir().expect("a directory");
    let socket = directory.path().join("p.sock");
    for name in HOSTS {
        let mut command = cli();
        command.args([
            "mcp",
            "setup",
            "--host",
            name,
            "--label",
            "left 'one'",
            "--tools",
            "core,claims",
            "--json",
        ]);
        let data = crate::support::Said::of({
            command.arg("--socket").arg(&socket);
            command
        })
        .data();
        let arguments = texts(&data["args"]);
        assert!(
            arguments.contains(&"left 'one'".to_owned()) && arguments.contains(&"core,claims".to_owned())
        );
        assert!(arguments.contains(&socket.to_str().expect("text").to_owned()), "{arguments:?}");
        if let Some(text) = data["config"].as_str() {
            assert_eq!(toml(text)["mcp_servers"]["portreeve"]["args"], data["args"]);
        }
        if let Some(shell) = data["shell"].as_str() {
            assert!(words(shell).ends_with(&arguments), "{shell}");
        }
        let mut told = Command::new(data["command"].as_str().expect("text"));
        told.args(&arguments).env_clear().current_dir("/");
        let mut host = Host::run(told, ERAS[1]);
        assert!(host.tools.contains_key("claims_get") && !host.tools.contains_key("settings_get"));
        assert_eq!(host.done("diagnostics_get", json!({}))["bridge"]["label"], "left 'one'");
    }
}
