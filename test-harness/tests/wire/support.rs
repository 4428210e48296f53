//! What the wire tests share: raw exchanges, homes prepared before a start, what a reply must look like.

use portreeve_daemon::store::{FILE_NAME, Store};
use portreeve_test_harness::machine::{self, Daemon, PATIENCE};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A path below the temp directory that is to be a home, and the directory that keeps it.
pub(crate) fn home() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temp dir can be made");
    machine::give(directory.path());
    let home = directory.path().join("home");
    (directory, home)
}

/// Makes an empty store in `home`, or opens the one that is there, and closes it after `work`. No daemon may
/// have it.
pub(crate) fn in_store(home: &Path, work: impl FnOnce(&Connection)) {
    if !home.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(home).expect("a home can be made");
    }
    let path = home.join(FILE_NAME);
    drop(Store::open(&path).expect("a store can be made"));
    let conn = Connection::open(&path).expect("the store can be opened");
    work(&conn);
    conn.close().expect("the store can be closed");
    machine::give(home);
    for entry in fs::read_dir(home).expect("a home can be read") {
        machine::give(&entry.expect("an entry").path());
    }
}

/// Reads the daemon's store beside it.
pub(crate) fn count(daemon: &Daemon, sql: &str) -> i64 {
    let path = daemon.home().join(FILE_NAME);
    let conn = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("the store can be opened");
    conn.query_row(sql, (), |row| row.get(0)).expect("a number can be read")
}

/// One reply as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Takes the first reply off what a connection gave.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Reply> {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Reply { status, head, body: bytes[end + 4..].to_vec() })
    }

    /// The body as JSON; the test ends here if it is none, or no envelope of protocol 1.
    pub(crate) fn envelope(&self) -> Value {
        let body: Value = serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("no JSON ({e}): {:?} {:?}", self.head, self.body));
        assert!(
            self.head.to_ascii_lowercase().contains("content-type: application/json"),
            "no JSON by its own account: {}",
            self.head
        );
        check_envelope(self.status, &body);
        body
    }
}

/// What every reply has in common.
pub(crate) fn check_envelope(status: u16, body: &Value) {
    assert_eq!(body["protocolVersion"], 1, "{body}");
    assert!(is_id(body["requestId"].as_str().unwrap_or_default()), "no request id: {body}");
    if status == 200 {
        assert_eq!(keys(body), ["data", "protocolVersion", "requestId"], "{body}");
        return;
    }
    assert_eq!(keys(body), ["error", "protocolVersion", "requestId"], "{body}");
    let error = &body["error"];
    assert_eq!(keys(error), ["code", "details", "failure", "message", "retryable"], "{body}");
    assert!(error["details"].is_object() && error["retryable"].is_boolean(), "{body}");
    assert!(!error["message"].as_str().unwrap_or_default().is_empty(), "{body}");
    let wanted = match error["code"].as_str().unwrap_or_default() {
        "invalid_input" | "invalid_lease_token" | "invalid_operation_credential" => 400,
        "not_found" => 404,
        "conflict" | "lease_expired" | "lease_not_pending" => 409,
        "incompatible_protocol" => 426,
        "unavailable" => 503,
        "internal" => 500,
        other => panic!("no code of protocol 1: {other:?}"),
    };
    assert_eq!(status, wanted, "{body}");
    let failure = &error["failure"];
    let class = failure["class"].as_str().and_then(portreeve_registry::FailureClass::parse);
    let class = class.unwrap_or_else(|| panic!("no class: {body}"));
    assert_eq!(failure["boundary"], class.boundary().as_str(), "{body}");
    assert_eq!(failure["phase"], class.phase().as_str(), "{body}");
    assert_eq!(error["retryable"] == true, failure["retry"] == "yes", "{body}");
    assert!(!failure["nextStep"]["text"].as_str().unwrap_or_default().is_empty(), "{body}");
}

/// The names of an object's fields, sorted.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().into_iter().flatten().map(|(k, _)| k.as_str()).collect();
    keys.sort_unstable();
    keys
}

/// A hyphenated UUID of version 1 to 8, in small letters.
pub(crate) fn is_id(text: &str) -> bool {
    let fits = |(i, b): (usize, u8)| match i {
        8 | 13 | 18 | 23 => b == b'-',
        14 => (b'1'..=b'8').contains(&b),
        _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

/// `YYYY-MM-DDTHH:MM:SS.mmmZ`, exactly.
pub(crate) fn is_stamp(text: &str) -> bool {
    let pattern = b"0000-00-00T00:00:00.000Z";
    text.len() == pattern.len()
        && text.bytes().zip(pattern).all(|(b, p)| if *p == b'0' { b.is_ascii_digit() } else { b == *p })
}

/// Writes these very bytes on one connection and reads until the other side closes.
pub(crate) fn exchange(socket: &Path, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    Ok(all)
}

/// The same where the other side needn't take it all: it may have answered and closed before.
pub(crate) fn exchange_cut_short(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).expect("the daemon listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    drop(stream.write_all(bytes));
    let mut all = Vec::new();
    drop(stream.read_to_end(&mut all));
    all
}

/// One whole exchange whose request is a head without its last blank line, and a body.
pub(crate) fn ask_head(socket: &Path, head: &str, body: &[u8]) -> Reply {
    let mut bytes =
        format!("{head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    let all = exchange(socket, &bytes).expect("the daemon answers");
    Reply::parse(&all).unwrap_or_else(|| panic!("no HTTP: {:?}", String::from_utf8_lossy(&all)))
}

/// The daemon lives and serves the next call.
pub(crate) fn lives(daemon: &Daemon) {
    assert_eq!(daemon.get("/v1/health")["pid"], daemon.process.id());
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("the process can be signalled");
}

/// Ends the daemon as a supervisor does, and waits for it.
pub(crate) fn terminate(daemon: &mut Daemon) -> std::process::ExitStatus {
    signal(daemon.process.id(), rustix::process::Signal::TERM);
    machine::until("the daemon ends", || daemon.process.try_wait().expect("a child can be waited for"))
}

/// How long something took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// A token that the caller brings: 43 characters of base64url.
pub(crate) fn token() -> String {
    portreeve_registry::Secret::random().expose().to_owned()
}

/// An acquire with a token of the caller's own.
pub(crate) fn acquire_with(workspace: &Path, component: &str, token: &str) -> Value {
    let mut body = machine::acquire(workspace, component, json!({"mode": "sticky"}));
    body["leaseToken"] = token.into();
    body
}
