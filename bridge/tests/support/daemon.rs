//! A daemon that speaks protocol 1 as far as the bridge's tests need it, and breaks where a test tells it to.
//!
//! It remembers leases by their token, so that a repeat gets the same one, and writes down every request.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::{DEADLINE, Host, bridge};

const CAPABILITIES: [&str; 10] = [
    "administration-v1",
    "claims-v1",
    "two-phase-allocation-v1",
    "listener-evidence-v1",
    "reclamation-v1",
    "observability-v1",
    "mcp-foundations-v1",
    "caller-tokens-v1",
    "paged-lists-v1",
    "failure-ledger-v1",
];

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// `POST /v1/leases/acquire`; without the query.
    pub(crate) what: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
    /// The connection it came over.
    pub(crate) connection: usize,
}

impl Asked {
    pub(crate) fn id(&self) -> &str {
        &self.headers["x-portreeve-request-id"]
    }
}

/// What a test wants instead of the daemon's own answer.
pub(crate) enum Fault {
    /// This data.
    Data(Value),
    /// This error, with its status.
    Error(u16, Value),
    /// The daemon does it, and hangs up before its reply.
    LoseReply,
    /// The daemon does nothing and never answers.
    Hang,
    /// These bytes, then a hang-up.
    Bytes(Vec<u8>),
}

type Script = dyn Fn(&Asked) -> Option<Fault> + Send + Sync;

#[derive(Default)]
struct State {
    journal: Vec<Asked>,
    /// Lease id and port by token.
    leases: HashMap<String, (String, u16)>,
    hang_ups: usize,
}

struct Shared {
    script: Box<Script>,
    lease_ms: i64,
    state: Mutex<State>,
    news: Condvar,
}

pub(crate) struct Daemon {
    directory: TempDir,
    shared: Arc<Shared>,
}

impl Daemon {
    /// A daemon that works.
    pub(crate) fn start() -> Self {
        Self::breaking(|_| None)
    }

    /// A daemon whose leases last for `lease_ms` and that does what `script` says, where it says something.
    pub(crate) fn with(
        lease_ms: i64,
        script: impl Fn(&Asked) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        let daemon = Self::absent(lease_ms, script);
        daemon.listen();
        daemon
    }

    pub(crate) fn breaking(script: impl Fn(&Asked) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self::with(15_000, script)
    }

    /// A daemon that isn't there yet.
    pub(crate) fn absent(
        lease_ms: i64,
        script: impl Fn(&Asked) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        let shared =
            Shared { script: Box::new(script), lease_ms, state: Mutex::default(), news: Condvar::new() };
        Self { directory: tempfile::tempdir().expect("a directory"), shared: Arc::new(shared) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// Begins to listen.
    pub(crate) fn listen(&self) {
        let listener = UnixListener::bind(self.socket()).expect("a socket");
        let shared = self.shared.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let shared = shared.clone();
                let Ok(stream) = stream else { return };
                std::thread::spawn(move || connection(&shared, stream, number));
            }
        });
    }

    /// The bridge to this daemon, opened.
    pub(crate) fn bridge(&self) -> Host {
        self.bridge_with(&[])
    }

    pub(crate) fn bridge_with(&self, arguments: &[&str]) -> Host {
        let socket = self.socket();
        let mut all = vec!["serve", "--socket", socket.to_str().expect("UTF-8"), "--label", "a-host"];
        all.extend(arguments);
        let mut host = Host::run(bridge(&all));
        host.initialize();
        host
    }

    /// Waits until the journal shows what `condition` looks for.
    pub(crate) fn wait<T>(&self, what: &str, condition: impl Fn(&[Asked]) -> Option<T>) -> T {
        let begun = Instant::now();
        let mut state = self.shared.state.lock().expect("no poison");
        loop {
            if let Some(found) = condition(&state.journal) {
                return found;
            }
            let left = DEADLINE.checked_sub(begun.elapsed()).unwrap_or_else(|| panic!("waited for {what}"));
            (state, _) = self.shared.news.wait_timeout(state, left).expect("no poison");
        }
    }

    /// Waits for the first request of that kind.
    pub(crate) fn asked(&self, what: &str) -> Asked {
        self.wait(what, |journal| journal.iter().find(|asked| asked.what.starts_with(what)).cloned())
    }

    /// The requests of that kind so far.
    pub(crate) fn all(&self, what: &str) -> Vec<Asked> {
        let state = self.shared.state.lock().expect("no poison");
        state.journal.iter().filter(|asked| asked.what.starts_with(what)).cloned().collect()
    }

    /// Waits until a client has hung up on a request that hangs.
    pub(crate) fn hung_up_on(&self) {
        let begun = Instant::now();
        let mut state = self.shared.state.lock().expect("no poison");
        while state.hang_ups == 0 {
            let left = DEADLINE.checked_sub(begun.elapsed()).expect("the client hangs up");
            (state, _) = self.shared.news.wait_timeout(state, left).expect("no poison");
        }
    }

    /// Every token that crossed the socket.
    pub(crate) fn tokens(&self) -> Vec<String> {
        self.shared.state.lock().expect("no poison").leases.keys().cloned().collect()
    }
}

fn connection(shared: &Shared, mut stream: UnixStream, number: usize) {
    let mut pending = Vec::new();
    while let Some(asked) = read(&mut stream, &mut pending, number) {
        let fault = (shared.script)(&asked);
        let own = match fault {
            None | Some(Fault::LoseReply) => Some(answer(shared, &asked)),
            _ => None,
        };
        {
            let mut state = shared.state.lock().expect("no poison");
            state.journal.push(asked.clone());
            shared.news.notify_all();
        }
        let (status, body) = match (fault, own) {
            (None, Some((status, content))) => (status, envelope(&asked, content)),
            (Some(Fault::Data(data)), _) => (200, envelope(&asked, json!({"data": data}))),
            (Some(Fault::Error(status, error)), _) => (status, envelope(&asked, json!({"error": error}))),
            (Some(Fault::Bytes(bytes)), _) => {
                stream.write_all(&bytes).ok();
                return;
            }
            (Some(Fault::Hang), _) => {
                // Until the client hangs up.
                while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
                shared.state.lock().expect("no poison").hang_ups += 1;
                shared.news.notify_all();
                return;
            }
            _ => return,
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

fn read(stream: &mut UnixStream, pending: &mut Vec<u8>, connection: usize) -> Option<Asked> {
    let end = loop {
        if let Some(at) = pending.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, pending)?;
    };
    let head = String::from_utf8(pending[..end].to_vec()).expect("heads are UTF-8");
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().expect("a request line");
    let headers: HashMap<String, String> = lines
        .filter_map(|header| header.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
    while pending.len() < end + length {
        more(stream, pending)?;
    }
    let body = serde_json::from_slice(&pending[end..end + length]).unwrap_or_default();
    pending.drain(..end + length);
    let mut words = line.split(' ');
    let (method, target) = (words.next().expect("a method"), words.next().expect("a target"));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Some(Asked { what: format!("{method} {path}"), query, headers, body, connection })
}

fn more(stream: &mut UnixStream, pending: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 4096];
    match stream.read(&mut chunk) {
        Ok(0) | Err(_) => None,
        Ok(count) => {
            pending.extend_from_slice(&chunk[..count]);
            Some(())
        }
    }
}

fn envelope(asked: &Asked, content: Value) -> String {
    let mut reply = json!({"protocolVersion": 1, "requestId": asked.id()});
    for (name, value) in content.as_object().expect("data or error") {
        reply[name] = value.clone();
    }
    reply.to_string()
}

/// The daemon's own answer.
fn answer(shared: &Shared, asked: &Asked) -> (u16, Value) {
    let lease_end = || soon(shared.lease_ms);
    let token = asked.body["leaseToken"].as_str().unwrap_or_default().to_owned();
    let words: Vec<&str> = asked.what.split(['/', ' ']).collect();
    match words.as_slice() {
        ["GET", "", "v1", "health"] => (200, json!({"data": health(1)})),
        ["POST", "", "v1", "leases", "acquire"] => {
            let mut state = shared.state.lock().expect("no poison");
            let next = u16::try_from(3000 + state.leases.len()).expect("few leases");
            let changed = !state.leases.contains_key(&token);
            let (lease, port) = state.leases.entry(token.clone()).or_insert_with(|| (id(next), next)).clone();
            let data = json!({
                "claimId": id(1), "leaseId": lease, "leaseToken": token, "port": port,
                "expiresAt": lease_end(), "reusedAssignment": false, "state": "pending", "changed": changed
            });
            (200, json!({"data": data}))
        }
        ["POST", "", "v1", "leases", lease, "renew"] => {
            (200, json!({"data": {"leaseId": lease, "expiresAt": lease_end()}}))
        }
        ["POST", "", "v1", "leases", lease, "confirm"] => {
            let data = json!({
                "claimId": id(1), "leaseId": lease, "runId": id(9), "port": 3000,
                "confirmedAt": soon(0), "addresses": ["127.0.0.1:3000"]
            });
            (200, json!({"data": data}))
        }
        ["POST", "", "v1", "leases", _, "abandon"] => {
            (200, json!({"data": {"changed": true, "at": soon(0)}}))
        }
        ["GET", "", "v1", "ports", port] => (200, json!({"data": entry(port.parse().expect("a port"))})),
        _ => {
            let error =
                json!({"code": "not_found", "message": "nothing there", "retryable": false, "details": {}});
            (404, json!({"error": error}))
        }
    }
}

pub(crate) fn health(protocol: u32) -> Value {
    json!({"softwareVersion": "1.2.3", "protocol": {"minimum": protocol, "maximum": protocol},
        "capabilities": CAPABILITIES, "pid": 7, "mode": "manual"})
}

pub(crate) fn entry(port: u16) -> Value {
    json!({"port": port, "transport": "tcp", "classification": "available", "claim": null, "lease": null,
        "run": null, "docker": null, "listeners": [], "evidence": {"complete": true, "notes": []}})
}

/// An id that can be told from others by its number.
pub(crate) fn id(number: u16) -> String {
    format!("0198c0de-0000-7000-8000-{number:012}")
}

/// A time of protocol 1, that many milliseconds from now.
#[expect(clippy::disallowed_methods, reason = "the scripted daemon has a clock of its own")]
fn soon(ms: i64) -> String {
    let now = std::time::SystemTime::now();
    let at = jiff::Timestamp::try_from(now).expect("a time") + jiff::SignedDuration::from_millis(ms);
    format!("{at:.3}")
}

/// A bound for what should take no time, on a machine however busy.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(3);
