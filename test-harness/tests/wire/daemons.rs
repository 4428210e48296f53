//! One daemon a home and a socket: the others end at once and say who is there.

use crate::support::{home, lives, terminate};
use portreeve_client::places::{LONGEST_SOCKET, Places, Surroundings};
use portreeve_test_harness::machine::{
    Daemon, as_user, ask, give, portreeve, raw, spawn, test_uid, until, worktree,
};
use serde_json::json;
use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// A process that is ended when dropped.
struct Started(Child);

impl Started {
    /// How it ended, if it has.
    fn status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a child can be waited for")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts one, and leaves it to the caller whether it lives.
fn start(home: &Path, socket: Option<&Path>) -> Started {
    let mut command = as_user(portreeve());
    command.args(["serve", "--home"]).arg(home);
    if let Some(socket) = socket {
        command.arg("--socket").arg(socket);
    }
    command
        .env_remove("PORTREEVE_HOME")
        .env_remove("PORTREEVE_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Started(spawn(&mut command).expect("portreeve starts"))
}

/// How a daemon ended that could not be the one.
fn ended(mut child: Started) -> Output {
    let status = until("it ends", || child.status());
    let mut stderr = Vec::new();
    child.0.stderr.take().expect("piped").read_to_end(&mut stderr).expect("it has ended");
    Output { status, stdout: Vec::new(), stderr }
}

/// Starts another one beside `daemon`: it ends at once, with a failure that names who is there.
fn is_refused(daemon: &Daemon, home: &Path, socket: Option<&Path>) {
    let start_at = Instant::now();
    let output = ended(start(home, socket));
    assert!(start_at.elapsed() < Duration::from_secs(5), "it took {:?}", start_at.elapsed());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(20), "{said}");
    assert!(said.contains(&daemon.process.id().to_string()), "who is there isn't named: {said}");
    lives(daemon);
}

#[test]
fn a_second_daemon_of_a_home_or_a_socket_ends_at_once_and_names_the_first() {
    let daemon = Daemon::start();
    let (_directory, other) = home();
    is_refused(&daemon, daemon.home(), None);
    is_refused(&daemon, daemon.home(), Some(&other.with_file_name("other.sock")));
    assert!(!other.with_file_name("other.sock").exists());
    let before = daemon.tables();
    let output = ended(start(&other, Some(daemon.socket())));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(20), "{said}");
    assert!(!other.join("authority.db").exists(), "nothing is touched before it is known who is there");
    lives(&daemon);
    assert_eq!(daemon.tables(), before);
}

#[test]
fn of_16_started_at_once_on_a_stale_socket_one_lives() {
    let (_directory, home) = home();
    let mut first = Daemon::start_in(&home);
    first.kill();
    assert!(first.socket().exists(), "a killed daemon leaves its socket");
    let mut children: Vec<Started> = (0..16).map(|_| start(&home, None)).collect();
    until("all but one have ended", || {
        (children.iter_mut().filter_map(|child| child.status()).count() == 15).then_some(())
    });
    let mut left = Vec::new();
    for mut child in children {
        if child.status().is_none() {
            left.push(child);
            continue;
        }
        let output = ended(child);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(20), "{said}");
        assert!(said.contains("held by") || said.contains("served by"), "{said}");
    }
    let survivor = left.pop().expect("one lives");
    let pid = until("it answers", || {
        raw(first.socket(), "GET", "/v1/health", None).ok()?;
        ask(first.socket(), "GET", "/v1/health", None).1["data"]["pid"].as_u64()
    });
    assert_eq!(pid, u64::from(survivor.0.id()));
}

#[test]
fn a_stale_socket_is_replaced_and_what_is_no_socket_is_not() {
    let (_directory, home) = home();
    let mut daemon = Daemon::start_in(&home);
    daemon.kill();
    let mut daemon = Daemon::start_in(&home);
    assert!(terminate(&mut daemon).success());
    std::fs::write(daemon.socket(), "a file").expect("a file can be written");
    let output = ended(start(&home, None));
    assert_eq!(output.status.code(), Some(20));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no socket"));
    assert_eq!(std::fs::read_to_string(daemon.socket()).expect("text"), "a file");
    std::fs::remove_file(daemon.socket()).expect("it can be removed");
    // Somebody else listens there, and answers nothing.
    let stranger = UnixListener::bind(daemon.socket()).expect("it can be bound");
    give(daemon.socket());
    let output = ended(start(&home, None));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(20), "{said}");
    assert!(said.contains(&std::process::id().to_string()), "{said}");
    drop(stranger);
}

#[test]
fn a_socket_path_that_is_too_long_works_on_both_sides() {
    let (directory, _) = home();
    let home = directory.path().join("d".repeat(60)).join("e".repeat(60)).join("home");
    assert!(home.as_os_str().len() + 16 > LONGEST_SOCKET);
    let mut child = start(&home, None);
    let uid = test_uid().unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let around = Surroundings { uid, ..Surroundings::default() };
    let socket = Places::socket(Some(home.clone()), None, &around).expect("a home was given");
    assert!(socket.as_os_str().len() <= LONGEST_SOCKET);
    until("the daemon answers", || raw(&socket, "GET", "/v1/health", None).ok());
    // The command line, as a person runs it.
    let status = as_user(portreeve())
        .arg("--home")
        .arg(&home)
        .args(["ports", "list", "--json"])
        .env_remove("PORTREEVE_HOME")
        .env_remove("PORTREEVE_SOCKET")
        .output()
        .expect("portreeve starts");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let output = ended(start(&home, None));
    assert_eq!(output.status.code(), Some(20), "one daemon a home here too");
    assert_eq!(ask(&socket, "POST", "/v1/server/stop", Some(json!({}))).0, 200);
    assert!(until("it ends", || child.status()).success());
    assert!(!socket.exists());
}

#[test]
fn two_homes_are_two_daemons_that_know_nothing_of_each_other() {
    let (one, two) = (Daemon::start(), Daemon::start());
    let workspace = worktree();
    one.acquire(workspace.path(), "web", json!({}));
    assert_eq!(one.get("/v1/claims").as_array().map(Vec::len), Some(1));
    assert_eq!(two.get("/v1/claims"), json!([]));
}
