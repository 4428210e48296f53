//! An agent: a worktree, and a bridge that it talks MCP to over stdio, as its host would.

use super::children::{Running, this_program};
use super::told::{Ended, Told};
use serde_json::{Map, Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often it is looked whether the tour was interrupted while an answer is awaited.
const LOOK: Duration = Duration::from_millis(50);
/// How many looks make an answer late: 30 seconds, more than any call's own deadline.
const LOOKS: u32 = 600;

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) worktree: PathBuf,
    bridge: Running,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    next_id: u64,
}

/// What a tool answered.
#[derive(Debug)]
pub(super) struct Answered {
    /// Whether it refused.
    pub(super) refused: bool,
    /// The text that an agent reads.
    pub(super) text: String,
    /// The structured content, for a tool that didn't refuse.
    pub(super) content: Map<String, Value>,
}

impl Answered {
    pub(super) fn summary(&self) -> &str {
        self.content.get("summary").and_then(Value::as_str).unwrap_or(&self.text)
    }
    pub(super) fn string(&self, name: &str) -> Result<String, Ended> {
        let found = self.content.get(name).and_then(Value::as_str);
        found
            .map(str::to_owned)
            .ok_or_else(|| Ended::unexpected(format!("no {name} in the answer: {}", self.text)))
    }
    pub(super) fn number(&self, name: &str) -> Result<u16, Ended> {
        let found = self.content.get(name).and_then(Value::as_u64).and_then(|n| u16::try_from(n).ok());
        found.ok_or_else(|| Ended::unexpected(format!("no {name} in the answer: {}", self.text)))
    }
}

impl Agent {
    /// Starts a bridge and greets it.
    pub(super) fn start(
        name: &'static str,
        worktree: &Path,
        socket: &Path,
        told: &Told,
    ) -> Result<Agent, Ended> {
        let mut command = this_program()?;
        command.args(["mcp", "serve", "--label", name, "--socket"]).arg(socket).current_dir(worktree);
        let mut bridge = Running::start(command, format!("the bridge of {name}"))?;
        let (stdin, stdout) = bridge.pipes().ok_or_else(|| Ended::unexpected("a bridge without pipes"))?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({"notJson": line}));
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let worktree = worktree.to_owned();
        let mut agent = Agent { name, worktree, bridge, stdin: Some(stdin), lines, next_id: 0 };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": name, "version": env!("CARGO_PKG_VERSION")}});
        agent.ask("initialize", hello, told)?;
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(agent)
    }

    /// How many tools the bridge offers.
    pub(super) fn tools(&mut self, told: &Told) -> Result<usize, Ended> {
        let listed = self.ask("tools/list", json!({}), told)?;
        let tools = listed.get("tools").and_then(Value::as_array);
        tools.map(Vec::len).ok_or_else(|| Ended::unexpected(format!("no list of tools: {listed}")))
    }

    /// Calls a tool; a refusal is an answer.
    pub(super) fn call(&mut self, tool: &str, arguments: Value, told: &Told) -> Result<Answered, Ended> {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}), told)?;
        let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default().to_owned();
        let content = result.get("structuredContent").and_then(Value::as_object).cloned().unwrap_or_default();
        Ok(Answered { refused: result.get("isError") == Some(&Value::Bool(true)), text, content })
    }

    fn send(&mut self, message: &Value) -> Result<(), Ended> {
        let stdin = self.stdin.as_mut().ok_or_else(|| Ended::unexpected("the bridge was closed"))?;
        let sent = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        sent.map_err(|error| Ended::unexpected(format!("the bridge of {} takes nothing: {error}", self.name)))
    }

    fn ask(&mut self, method: &str, params: Value, told: &Told) -> Result<Value, Ended> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        for _ in 0..LOOKS {
            told.check()?;
            let message = match self.lines.recv_timeout(LOOK) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Ended::unexpected(format!("the bridge of {} is gone", self.name)));
                }
            };
            if message.get("id") != Some(&id.into()) {
                // A notification.
                continue;
            }
            return match message.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(Ended::unexpected(format!("{method}: {message}"))),
            };
        }
        Err(Ended::unexpected(format!("{method} of {} was never answered", self.name)))
    }

    /// Closes the bridge's stdin, as a host that ends does, and expects that the bridge ends well.
    pub(super) fn end(mut self, told: &Told) -> Result<(), Ended> {
        self.stdin.take();
        self.bridge.ends_well(told)
    }
}
