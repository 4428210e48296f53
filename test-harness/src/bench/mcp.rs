//! A bridge driven as a host drives it: a child process and JSON lines.

use portreeve_test_harness::machine::portreeve;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// One bridge, ended by closing its stdin.
#[derive(Debug)]
pub(crate) struct Bridge {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Bridge {
    /// Spawns one and says hello.
    pub(crate) fn start(socket: &Path) -> Bridge {
        Bridge::start_of(&portreeve(), socket)
    }

    /// One of this very program file.
    pub(crate) fn start_of(program: &Path, socket: &Path) -> Bridge {
        let mut process = Command::new(program)
            .args(["mcp", "serve", "--socket"])
            .arg(socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the bridge starts");
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        let mut bridge = Bridge { process, stdin, stdout, id: 0 };
        bridge.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}),
        );
        bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        bridge
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("open until dropped");
        let mut line = message.to_string();
        line.push('\n');
        stdin.write_all(line.as_bytes()).expect("the bridge reads");
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).expect("the bridge writes"), 0, "the bridge ended");
            let answer: Value = serde_json::from_str(&line).expect("JSON");
            if answer["id"] == json!(id) {
                return answer["result"].clone();
            }
        }
    }

    /// Calls a tool; its structured content.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_ne!(result["isError"], json!(true), "{tool}: {result}");
        result["structuredContent"].clone()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        drop(self.stdin.take());
        drop(self.process.wait());
    }
}
