//! A server that does what a test tells it, connection by connection.

use portreeve_client::{Client, Options};
use portreeve_records::{Id, Named, Origin, OriginKind};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// What a healthy daemon announces.
pub(crate) const CAPABILITIES: [&str; 5] =
    ["claims-v1", "two-phase-allocation-v1", "listener-evidence-v1", "observability-v1", "paged-lists-v1"];

pub(crate) struct Server {
    directory: TempDir,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Runs `script` for each connection, on a thread of its own, with its number from 0.
    pub(crate) fn start(script: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> Server {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let listener = UnixListener::bind(directory.path().join("s")).expect("a socket");
        let connections = Arc::new(AtomicUsize::new(0));
        let (script, counter) = (Arc::new(script), Arc::clone(&connections));
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let script = Arc::clone(&script);
                let mut peer = Peer { stream: stream.expect("a connection"), pending: Vec::new() };
                std::thread::spawn(move || script(number, &mut peer));
            }
        });
        Server { directory, connections }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.path())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub(crate) fn client(socket: &Path) -> Client {
    client_within(socket, Duration::from_secs(20))
}

pub(crate) fn client_within(socket: &Path, deadline: Duration) -> Client {
    let origin = Origin {
        kind: OriginKind::Mcp,
        run_id: Id::parse("0198c0de-0000-7000-8000-000000000001"),
        label: Some(Named::parse("büro").expect("a name")),
    };
    Client::new(Options { deadline, ..Options::new(socket.to_owned(), origin, "9.9.9") })
}

/// One connection's other end.
pub(crate) struct Peer {
    pub(crate) stream: UnixStream,
    pending: Vec<u8>,
}

/// A request as it came.
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
    pub(crate) fn id(&self) -> &str {
        self.header("x-portreeve-request-id").expect("each request has an id")
    }
    pub(crate) fn is_for(&self, path: &str) -> bool {
        self.line.split(' ').nth(1).is_some_and(|target| target.split('?').next() == Some(path))
    }
}

impl Peer {
    /// The next request; none when the client has hung up.
    pub(crate) fn next(&mut self) -> Option<Asked> {
        let head_end = loop {
            if let Some(at) = self.pending.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            self.more()?;
        };
        let head = String::from_utf8(self.pending[..head_end].to_vec()).expect("heads are UTF-8");
        let mut lines = head.trim_end().split("\r\n");
        let line = lines.next().expect("a request line").to_owned();
        let headers: Vec<(String, String)> = lines
            .filter_map(|header| header.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, length)| length.parse().expect("a length"));
        while self.pending.len() < head_end + length {
            self.more()?;
        }
        let body = serde_json::from_slice(&self.pending[head_end..head_end + length]).unwrap_or_default();
        self.pending.drain(..head_end + length);
        Some(Asked { line, headers, body })
    }

    fn more(&mut self) -> Option<()> {
        let mut chunk = [0u8; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) | Err(_) => None,
            Ok(read) => {
                self.pending.extend_from_slice(&chunk[..read]);
                Some(())
            }
        }
    }

    /// The next request that isn't the greeting; the greeting is answered as a healthy daemon does.
    pub(crate) fn next_after_greeting(&mut self) -> Option<Asked> {
        let asked = self.next()?;
        if !asked.is_for("/v1/health") {
            return Some(asked);
        }
        self.answer(&asked, health(1, 1, &CAPABILITIES));
        self.next_after_greeting()
    }

    pub(crate) fn answer(&mut self, asked: &Asked, data: Value) {
        self.send(&reply(200, envelope(asked, data)));
    }

    pub(crate) fn refuse(&mut self, asked: &Asked, status: u16, error: Value) {
        let body = json!({"protocolVersion": 1, "requestId": asked.id(), "error": error}).to_string();
        self.send(&reply(status, &body));
    }

    /// Sends bytes; a client that has hung up is no fault of the script.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }
}

pub(crate) fn envelope(asked: &Asked, data: Value) -> String {
    json!({"protocolVersion": 1, "requestId": asked.id(), "data": data}).to_string()
}

pub(crate) fn reply(status: u16, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) fn health(minimum: u32, maximum: u32, capabilities: &[&str]) -> Value {
    json!({"softwareVersion": "1.2.3", "protocol": {"minimum": minimum, "maximum": maximum},
        "capabilities": capabilities, "pid": 7, "mode": "manual"})
}
