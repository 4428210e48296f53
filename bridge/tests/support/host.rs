//! A host that can do everything wrong, and waits for nothing longer than [`DEADLINE`].

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// No wait in these tests is longer, on a machine however busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The program under test.
pub(crate) const BRIDGE: &str = env!("CARGO_BIN_EXE_bridge-fixture");

/// A running bridge and the test's ends of its streams.
pub(crate) struct Host {
    pub(crate) pid: Pid,
    pub(crate) stdin: Option<Box<dyn Write + Send>>,
    stdout: Option<Box<dyn Read + Send>>,
    answers: Option<Receiver<String>>,
    stderr: Receiver<String>,
    heard: Vec<String>,
    exited: Receiver<ExitStatus>,
}

/// The edge over toy tools, with an empty environment: no HOME, no PATH.
pub(crate) fn command() -> Command {
    bridge(&["toys"])
}

/// The program under test with an empty environment, in a directory that means nothing to it.
#[expect(clippy::disallowed_methods, reason = "the test is the host that starts the bridge")]
pub(crate) fn bridge(arguments: &[&str]) -> Command {
    let mut command = Command::new(BRIDGE);
    command.args(arguments).env_clear().current_dir("/");
    command
}

impl Host {
    /// Starts the edge over pipes.
    pub(crate) fn start() -> Self {
        Self::run(command())
    }

    /// Starts a command over pipes.
    pub(crate) fn run(mut command: Command) -> Self {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the bridge starts");
        Self::over(child)
    }

    /// Starts the edge over one pair of sockets for each stream, as Node.js does.
    pub(crate) fn start_over_sockets() -> Self {
        let (our_stdin, stdin) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let (our_stdout, stdout) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let child = command()
            .stdin(OwnedFd::from(stdin))
            .stdout(OwnedFd::from(stdout))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the bridge starts");
        let mut host = Self::over(child);
        host.stdin = Some(Box::new(our_stdin));
        host.stdout = Some(Box::new(our_stdout));
        host
    }

    /// Takes over a child whose streams are pipes or nothing.
    pub(crate) fn over(mut child: Child) -> Self {
        let pid = Pid::from_child(&child);
        let stdin = child.stdin.take().map(|pipe| Box::new(pipe) as Box<dyn Write + Send>);
        let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let stderr = lines(child.stderr.take().expect("stderr is piped"));
        let (sender, exited) = channel();
        std::thread::spawn(move || {
            let status = child.wait().expect("the child can be waited for");
            sender.send(status).ok();
        });
        Self { pid, stdin, stdout, answers: None, stderr, heard: Vec::new(), exited }
    }

    /// The same, opened with `initialize` of the last version that has it.
    pub(crate) fn ready() -> Self {
        let mut host = Self::start();
        host.initialize();
        host
    }

    /// Opens the session; the ids 1 to 99 stay free.
    pub(crate) fn initialize(&mut self) {
        self.request(0, "initialize", initialize("2025-11-25"));
        assert_eq!(self.answer()["id"], 0);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("stdin is open").write_all(bytes).expect("the bridge reads");
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub(crate) fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub(crate) fn call(&mut self, id: impl Into<Value>, tool: &str) {
        self.request(id, "tools/call", json!({"name": tool, "arguments": {}}));
    }

    /// Closes stdin.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Closes our end of stdout without having read it.
    pub(crate) fn stop_reading(&mut self) {
        self.stdout.take().expect("stdout is ours and unread");
    }

    /// The next line on stdout, which has to be JSON; `None` when stdout has ended.
    pub(crate) fn answer_or_end(&mut self) -> Option<Value> {
        let stdout = &mut self.stdout;
        let answers =
            self.answers.get_or_insert_with(|| lines(stdout.take().expect("stdout is ours and unread")));
        match answers.recv_timeout(DEADLINE) {
            Ok(line) => {
                Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("a stray line: {line:?}")))
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(error) => panic!("no answer: {error}; stderr: {:?}", self.heard),
        }
    }

    pub(crate) fn answer(&mut self) -> Value {
        self.answer_or_end().expect("an answer before the end of stdout")
    }

    /// Everything until stdout ends.
    pub(crate) fn remaining_answers(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.answer_or_end()).collect()
    }

    /// Waits for a line on stderr that contains `text`.
    pub(crate) fn hears(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(position) = self.heard.iter().position(|line| line.contains(text)) {
                return self.heard.remove(position);
            }
            match self.stderr.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) {
                Ok(line) => self.heard.push(line),
                Err(error) => panic!("{text:?} was not noted: {error}; stderr: {:?}", self.heard),
            }
        }
    }

    /// Everything on stderr once the bridge is gone.
    pub(crate) fn everything_heard(&mut self) -> Vec<String> {
        while let Ok(line) = self.stderr.recv_timeout(DEADLINE) {
            self.heard.push(line);
        }
        std::mem::take(&mut self.heard)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the bridge is alive");
    }

    /// Waits for the exit, which has to be with code 0.
    pub(crate) fn exits(&mut self) {
        let status = self.exited.recv_timeout(DEADLINE).expect("the bridge exits");
        assert_eq!(status.code(), Some(0), "{status}; stderr: {:?}", self.everything_heard());
    }

    /// A line of `/proc/<pid>/status` in KiB.
    pub(crate) fn memory(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        let status = std::fs::read_to_string(path).expect("the bridge is alive");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field is there");
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

/// The parameters of `initialize`.
pub(crate) fn initialize(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "a host", "version": "1"}
    })
}

/// The metadata that each request of the later era carries.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "a host", "version": "1"}
    })
}

/// The lines of a stream, read by a thread of their own.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
