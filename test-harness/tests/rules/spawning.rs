//! The bridge starts no process, whatever it is asked.

use crate::registry;
use portreeve_test_harness::machine::{Daemon, worktree};
use portreeve_test_harness::rules::bridge::{Bridge, offspring};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

#[test]
fn the_bridge_starts_no_process_whatever_it_is_asked() {
    let daemon = Daemon::start();
    let worktree = worktree();
    let mut bridge = Bridge::start(daemon.socket(), "all");
    assert_eq!(bridge.offspring(), [""; 0], "after initialize");
    assert!(!bridge.tools().is_empty());
    assert_eq!(bridge.offspring(), [""; 0], "after tools/list");
    // Every tool once by its example, so one of each kind that there is; most examples name nothing that exists.
    for tool in registry().iter() {
        bridge.call(tool.name(), Value::Object(tool.example()));
        assert_eq!(bridge.offspring(), [""; 0], "after {}", tool.name());
    }
    // And the course of a lease, which goes well: custody is at work in it.
    let claim = json!({"project": "shop", "workspaceRoot": worktree.path(), "component": "web"});
    let handle = bridge.done("leases_acquire", claim)["credentialHandle"].clone();
    bridge.done("leases_custody_extend", json!({"credentialHandle": handle, "custodyMinutes": 20}));
    bridge.done("leases_abandon", json!({"credentialHandle": handle, "reason": "client-cancelled"}));
    bridge.done("ports_list", json!({}));
    drop(daemon);
    bridge.done("diagnostics_get", json!({}));
    assert_eq!(bridge.offspring(), [""; 0], "at the end");
}

/// That a start of a process is seen while it runs, after it was waited for, and after an exec.
#[test]
fn a_process_that_starts_another_is_seen() {
    for script in
        ["sleep 600 & echo ready; wait", "/bin/true; echo ready; read _", "/bin/true; echo ready; exec cat"]
    {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let mut line = String::new();
        let stdout = shell.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
        let signs = offspring(shell.id());
        // The shell's own sleeping child is its to end; it ends with its stdin.
        if let Some(children) = signs.iter().find_map(|sign| sign.strip_prefix("has the children ")) {
            for child in children.split(' ') {
                let child = child.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
                rustix::process::kill_process(child, rustix::process::Signal::KILL).expect("it is ours");
            }
        }
        drop(shell.stdin.take());
        shell.wait().expect("a shell ends");
        assert!(!signs.is_empty(), "{script}");
    }
}
