//! Who may talk to the daemon: its own user and root, and nobody else whatever the files' modes say.

use crate::support::{check_envelope, is_id};
use portreeve_test_harness::machine::{Daemon, give, python, raw};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Asks for the health as the user `uid`, and gives what came.
fn ask_as(uid: u32, socket: &Path) -> String {
    let script = "import socket,sys\n\
        s=socket.socket(socket.AF_UNIX)\n\
        s.settimeout(20)\n\
        s.connect(sys.argv[1])\n\
        s.sendall(b'GET /v1/health HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n')\n\
        data=b''\n\
        while True:\n    \
            piece=s.recv(65536)\n    \
            if not piece: break\n    \
            data+=piece\n\
        sys.stdout.write(data.decode())\n";
    let output = Command::new("setpriv")
        .arg(format!("--reuid={uid}"))
        .arg(format!("--regid={uid}"))
        .args(["--clear-groups", python(), "-c", script])
        .arg(socket)
        .current_dir("/")
        .output()
        .expect("setpriv starts");
    let printed = String::from_utf8(output.stdout).expect("text");
    if printed.is_empty() { String::from_utf8_lossy(&output.stderr).into_owned() } else { printed }
}

#[test]
fn the_socket_and_its_directory_are_its_owners_alone() {
    let daemon = Daemon::start();
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
    assert_eq!(mode(daemon.home()), 0o700);
    assert_eq!(mode(daemon.socket()), 0o600);
    for entry in fs::read_dir(daemon.home()).expect("a home can be read") {
        let entry = entry.expect("an entry");
        assert_eq!(mode(&entry.path()) & 0o077, 0, "{}", entry.path().display());
    }
}

/// Only root can be somebody else for a moment; as another user there is nothing to show here.
#[test]
fn another_user_is_told_so_even_where_the_modes_would_let_him_in() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temp dir can be made");
    let open = |path: &Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode can be set");
    };
    give(directory.path());
    let mut daemon = Daemon::start_in(&directory.path().join("home"));
    let own = ask_as(0, daemon.socket());
    assert!(own.starts_with("HTTP/1.1 200 "), "{own}");
    let shut = ask_as(65534, daemon.socket());
    assert!(shut.contains("PermissionError"), "{shut}");
    open(directory.path(), 0o755);
    open(daemon.home(), 0o755);
    open(daemon.socket(), 0o666);
    let before = daemon.tables();
    for _ in 0..3 {
        let refused = ask_as(65534, daemon.socket());
        let (head, body) = refused.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no reply: {refused}"));
        assert!(head.starts_with("HTTP/1.1 503 "), "{refused}");
        let body: Value = serde_json::from_str(body).expect("JSON");
        check_envelope(503, &body);
        assert_eq!(body["error"]["failure"]["class"], "daemon.peer_denied");
        assert!(is_id(body["requestId"].as_str().unwrap_or_default()));
        assert!(!refused.contains("capabilities"), "{refused}");
    }
    assert_eq!(daemon.tables(), before);
    assert!(raw(daemon.socket(), "GET", "/v1/health", None).is_ok_and(|(status, _)| status == 200));
    daemon.kill();
}
