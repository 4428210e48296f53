//! The command line: the preview is shown, somebody is asked, and only then it is done.

use crate::support::{Scene, Started, Temper, listens};
use portreeve_test_harness::machine::{free_port, portreeve, python, worktree};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};

fn run(scene: &Scene, arguments: &[&str]) -> Output {
    let mut command = Command::new(portreeve());
    command.arg("--socket").arg(scene.daemon.socket()).args(arguments).stdin(Stdio::null());
    command.output().expect("portreeve runs")
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("it ends by itself")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it on a terminal of its own, with this typed in; its status and all that the terminal showed.
fn on_a_terminal(scene: &Scene, arguments: &[&str], typed: &str) -> (i32, String) {
    let script = "import os,pty,sys\n\
        pid,fd=pty.fork()\n\
        if pid==0: os.execv(sys.argv[2],sys.argv[2:])\n\
        seen=b''\n\
        while True:\n\
        \x20   try: more=os.read(fd,4096)\n\
        \x20   except OSError: break\n\
        \x20   if not more: break\n\
        \x20   seen+=more\n\
        \x20   if b'[y/N]' in seen and sys.argv[1]:\n\
        \x20       os.write(fd,sys.argv[1].encode()+b'\\n'); sys.argv[1]=''\n\
        sys.stdout.buffer.write(seen)\n\
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid,0)[1]))\n";
    let mut command = Command::new(python());
    command.args(["-c", script, typed]).arg(portreeve()).arg("--socket").arg(scene.daemon.socket());
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("python3 runs");
    (status(&output), text(&output.stdout))
}

#[test]
fn a_dry_run_shows_the_diff_and_stops_there() {
    let scene = Scene::new();
    let before = scene.daemon.tables();
    let output = run(&scene, &["config", "set", "leaseTtlMilliseconds=20000", "--dry-run"]);
    assert_eq!(status(&output), 0);
    assert_eq!(text(&output.stdout), "- leaseTtlMilliseconds 15000\n+ leaseTtlMilliseconds 20000\n");
    assert_eq!(scene.daemon.tables(), before);
    let output = run(&scene, &["--json", "config", "set", "leaseTtlMilliseconds=20000", "--dry-run"]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["data"]["action"], "settings.update");
}

#[test]
fn json_is_no_consent_and_yes_is() {
    let scene = Scene::new();
    for arguments in [
        &["--json", "config", "set", "leaseTtlMilliseconds=20000"][..],
        &["config", "set", "leaseTtlMilliseconds=20000"],
    ] {
        let output = run(&scene, arguments);
        assert_eq!(status(&output), 50, "{}", text(&output.stderr));
        assert_eq!(scene.daemon.get("/v1/config")["leaseTtlMilliseconds"], 15_000);
    }
    let output = run(&scene, &["config", "set", "leaseTtlMilliseconds=20000", "--yes"]);
    assert_eq!((status(&output), text(&output.stdout).as_str()), (0, "The settings are changed.\n"));
    assert_eq!(scene.daemon.get("/v1/config")["leaseTtlMilliseconds"], 20_000);
    let again = run(&scene, &["config", "set", "leaseTtlMilliseconds=20000", "--yes"]);
    assert_eq!(status(&again), 10);
}

#[test]
fn on_a_terminal_it_asks() {
    let scene = Scene::new();
    let set = ["config", "set", "leaseTtlMilliseconds=20000"];
    let (code, seen) = on_a_terminal(&scene, &set, "n");
    assert_eq!(code, 10, "{seen}");
    assert!(seen.contains("+ leaseTtlMilliseconds 20000") && seen.contains("Nothing was done."), "{seen}");
    assert_eq!(scene.daemon.get("/v1/config")["leaseTtlMilliseconds"], 15_000);
    let (code, seen) = on_a_terminal(&scene, &set, "y");
    assert_eq!(code, 0, "{seen}");
    assert_eq!(scene.daemon.get("/v1/config")["leaseTtlMilliseconds"], 20_000);
}

#[test]
fn settings_that_cant_be_are_refused_with_their_bounds() {
    let scene = Scene::new();
    for wrong in ["leaseTtlMilliseconds=5", "home=/x", "excludedPorts=0", "nonsense"] {
        let output = run(&scene, &["config", "set", wrong, "--yes"]);
        assert_eq!(status(&output), 50, "{wrong}: {}", text(&output.stderr));
    }
}

#[test]
fn a_port_is_reclaimed_refused_or_free_by_its_exit_status() {
    let scene = Scene::new();
    let mut served = scene.serve("web", Temper::Plain);
    let port = served.port.to_string();
    let output = run(&scene, &["ports", "reclaim", &port, "--dry-run"]);
    let shown = text(&output.stdout);
    assert_eq!(status(&output), 0);
    let whose = format!("Port {port} is web of shop in {}", scene.root());
    assert!(
        shown.starts_with(&whose) && shown.contains(&format!("- process {}", served.server.pid())),
        "{shown}"
    );
    let stranger = worktree();
    let other = stranger.path().to_str().unwrap();
    let output = run(&scene, &["ports", "reclaim", &port, "--workspace-root", other, "--yes"]);
    assert_eq!(status(&output), 20, "{}", text(&output.stderr));
    assert!(!served.server.ended());
    let output = run(&scene, &["ports", "reclaim", &port, "--yes"]);
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    assert!(served.server.ended() && text(&output.stdout).contains("SIGTERM"), "{}", text(&output.stdout));
    assert_eq!(status(&run(&scene, &["ports", "reclaim", &port, "--yes"])), 10);
    let busy = free_port();
    let mut unproved = Started::listen(busy, Temper::Plain, scene.tree.path());
    let output = run(&scene, &["ports", "reclaim", &busy.to_string(), "--yes"]);
    assert_eq!(status(&output), 20);
    assert!(text(&output.stdout).contains("ownership-unverified") && !unproved.ended());
}

#[test]
fn unsafe_eviction_needs_to_be_said_and_shows_whom_first() {
    let scene = Scene::new();
    let port = free_port();
    let mut stranger = Started::listen(port, Temper::Plain, scene.tree.path());
    let number = port.to_string();
    assert_eq!(status(&run(&scene, &["ports", "unsafe-evict", &number, "--yes"])), 50);
    let output = run(&scene, &["ports", "unsafe-evict", &number, "--unsafe-any-owner", "--dry-run"]);
    assert_eq!(status(&output), 0);
    assert!(text(&output.stdout).contains(&format!("- process {}", stranger.pid())));
    assert_eq!(status(&run(&scene, &["ports", "unsafe-evict", &number, "--unsafe-any-owner"])), 50);
    assert!(!stranger.ended());
    let evict =
        ["ports", "unsafe-evict", &number, "--unsafe-any-owner", "--policy", "force-after-grace", "--yes"];
    assert_eq!(status(&run(&scene, &evict)), 0);
    assert!(stranger.ended() && !listens(port));
    assert_eq!(status(&run(&scene, &evict)), 10);
}

#[test]
fn claims_are_reassigned_deleted_and_pruned() {
    let scene = Scene::new();
    let claimed = scene.claim("web");
    let port = free_port();
    let exact = port.to_string();
    let reassign = ["claims", "reassign", claimed.claim.as_str(), "--exact-port", exact.as_str()];
    let output = run(&scene, &[&reassign[..], &["--dry-run"]].concat());
    let shown = text(&output.stdout);
    assert!(
        shown.contains(&format!("- port {}", claimed.port)) && shown.contains(&format!("+ port {port}")),
        "{shown}"
    );
    assert_eq!(status(&run(&scene, &[&reassign[..], &["--yes"]].concat())), 0);
    assert_eq!(scene.daemon.get(&format!("/v1/claims/{}", claimed.claim))["assignedPort"], port);
    assert_eq!(status(&run(&scene, &[&reassign[..], &["--yes"]].concat())), 20, "unchanged");
    let delete = ["claims", "delete", claimed.claim.as_str(), "--yes"];
    assert_eq!(status(&run(&scene, &delete)), 0);
    assert_eq!(status(&run(&scene, &delete)), 20, "not found");
    let gone = worktree();
    scene.daemon.acquire(gone.path(), "web", json!({}));
    scene.sql("DELETE FROM lease; UPDATE claim SET last_used_at = '2020-01-01T00:00:00.000Z'");
    drop(gone);
    assert_eq!(status(&run(&scene, &["claims", "prune", "--older-than-days", "3650", "--yes"])), 10);
    let output = run(&scene, &["claims", "prune", "--yes"]);
    assert_eq!((status(&output), text(&output.stdout).as_str()), (0, "1 claims are deleted.\n"));
    assert_eq!(scene.daemon.get("/v1/claims"), json!([]));
}
