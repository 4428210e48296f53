//! The real bridge, driven over its pipes one request at a time, and an account of what it has started.

use crate::machine::{PATIENCE, portreeve};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A running `portreeve mcp serve`, ended when dropped.
#[derive(Debug)]
pub struct Bridge {
    process: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    asked: u64,
}

impl Bridge {
    /// Starts one with an empty environment and opens the session.
    ///
    /// # Panics
    /// If it doesn't answer.
    pub fn start(socket: &Path, tools: &str) -> Bridge {
        Bridge::start_of(&portreeve(), socket, tools)
    }

    /// The same of another binary.
    ///
    /// # Panics
    /// If it doesn't answer.
    pub fn start_of(portreeve: &Path, socket: &Path, tools: &str) -> Bridge {
        let mut process = Command::new(portreeve)
            .args(["mcp", "serve", "--label", "rules", "--tools", tools, "--socket"])
            .arg(socket)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the bridge starts");
        let stdin = process.stdin.take().expect("piped");
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut bridge = Bridge { process, stdin, lines, asked: 0 };
        bridge.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "rules", "version": "0"}}),
        );
        bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        bridge
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("the bridge reads");
    }

    /// One request's result.
    ///
    /// # Panics
    /// If it is an error, or doesn't come.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        let line = self.lines.recv_timeout(PATIENCE).expect("the bridge answers");
        let reply: Value = serde_json::from_str(&line).expect("a line is JSON");
        assert_eq!(reply["id"], self.asked, "{reply}");
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].clone()
    }

    /// What `tools/list` shows.
    ///
    /// # Panics
    /// As [`Bridge::ask`].
    pub fn tools(&mut self) -> Vec<Value> {
        self.ask("tools/list", json!({}))["tools"].as_array().expect("a list").clone()
    }

    /// A tool's result, whether it went well or not.
    ///
    /// # Panics
    /// As [`Bridge::ask`].
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// A tool's structured content.
    ///
    /// # Panics
    /// If the call failed.
    pub fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// What the bridge has started so far: see [`offspring`].
    pub fn offspring(&self) -> Vec<String> {
        offspring(self.process.id())
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Every sign that a process has ever started another, by the kernel's account of it (proc(5)).
///
/// A child that lives, or is dead and not yet waited for, is on its parent's list. One that was waited for left its
/// page faults with its parent (`cminflt`), and none runs without any. Only who ignores SIGCHLD has children that
/// leave no trace, so that counts as a sign too.
///
/// # Panics
/// If the process is gone.
pub fn offspring(pid: u32) -> Vec<String> {
    let read = |file: &str| {
        let path = format!("/proc/{pid}/{file}");
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let mut signs = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives") {
        let thread = thread.expect("a folder can be read").file_name();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{}/children", thread.display()));
        // A thread may be gone by now.
        if let Ok(children) = children.map(|children| children.trim().to_owned())
            && !children.is_empty()
        {
            signs.push(format!("has the children {children}"));
        }
    }
    let stat = read("stat");
    let (_, fields) = stat.rsplit_once(')').expect("proc(5)");
    // The fields after the name start with the third; cminflt is the eleventh.
    let faults = fields.split_whitespace().nth(8).expect("proc(5)");
    if faults != "0" {
        signs.push(format!("has waited for a child, which left {faults} page faults"));
    }
    let status = read("status");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("proc(5)");
    let ignored = u64::from_str_radix(ignored.trim(), 16).expect("proc(5)");
    const SIGCHLD: u32 = 17;
    if ignored & (1 << (SIGCHLD - 1)) != 0 {
        signs.push("ignores SIGCHLD".to_owned());
    }
    signs
}
