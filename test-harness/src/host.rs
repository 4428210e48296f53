//! An MCP host: starts the bridge as hosts start it, sends it whatever hosts send, and checks all that comes back.
//!
//! Every answer of a tool is held against the rules for all tools ([`told`]): a success fits the schema that this
//! very bridge advertises, a failure is complete in its text and in its record.
//! No answer may come twice, and nothing but JSON-RPC may be on stdout.

mod streams;
pub mod told;

use self::streams::{keep, messages};
use crate::machine::{PATIENCE, as_user, portreeve, spawn};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};

/// How a host begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// `initialize`, of this version of the protocol.
    Initialize(&'static str),
    /// `server/discover`, and metadata on each request.
    Discover,
    /// Metadata on each request, and no introduction at all.
    Straight,
}

/// Each of them.
pub const ERAS: [Era; 4] =
    [Era::Initialize("2025-11-25"), Era::Initialize("2024-11-05"), Era::Discover, Era::Straight];

/// A bridge and this host's ends of its streams.
#[derive(Debug)]
pub struct Host {
    /// The bridge's process.
    pub process: Child,
    /// What is advertised: the output schema of each tool.
    pub tools: BTreeMap<String, Value>,
    /// The errors that answer no request: what was sent was no message.
    pub refusals: Vec<Value>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    messages: Option<Receiver<Value>>,
    printed: Arc<Mutex<Vec<u8>>>,
    later: bool,
    asked: u64,
    calls: HashMap<u64, String>,
    came: HashMap<u64, Value>,
    answered: HashSet<u64>,
}

impl Host {
    /// The command by which a host starts the bridge.
    pub fn command(socket: &Path) -> Command {
        let mut command = as_user(portreeve());
        command.env_remove("PORTREEVE_HOME").env_remove("PORTREEVE_SOCKET");
        command.args(["mcp", "serve", "--socket"]).arg(socket);
        command
    }

    /// A bridge for the daemon at `socket`, introduced.
    pub fn start(socket: &Path) -> Host {
        Host::run(Host::command(socket), ERAS[0])
    }

    /// The same, with further arguments.
    pub fn with(socket: &Path, arguments: &[&str]) -> Host {
        let mut command = Host::command(socket);
        command.args(arguments);
        Host::run(command, ERAS[0])
    }

    /// A bridge by a command of the test's own, introduced.
    pub fn run(command: Command, era: Era) -> Host {
        let mut host = Host::silent(command);
        host.open(era);
        host
    }

    /// A bridge to which nothing was said, and of which nothing is read before an answer is waited for.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn silent(mut command: Command) -> Host {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = spawn(&mut command).expect("the bridge starts");
        let printed = Arc::new(Mutex::new(Vec::new()));
        keep(process.stderr.take().expect("piped"), printed.clone());
        Host {
            stdin: process.stdin.take(),
            stdout: process.stdout.take(),
            process,
            tools: BTreeMap::new(),
            refusals: Vec::new(),
            messages: None,
            printed,
            later: false,
            asked: 0,
            calls: HashMap::new(),
            came: HashMap::new(),
            answered: HashSet::new(),
        }
    }

    /// Introduces this host and lists the tools. Going straight it lists none, and takes them from the registry.
    ///
    /// # Panics
    /// If it isn't answered as its era demands.
    pub fn open(&mut self, era: Era) {
        self.later = !matches!(era, Era::Initialize(_));
        match era {
            Era::Initialize(version) => {
                let client = json!({"name": "a host", "version": "1"});
                let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
                let answer = self.ask("initialize", hello);
                assert_eq!(answer["protocolVersion"], version, "{answer}");
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            }
            Era::Discover => {
                let answer = self.ask("server/discover", json!({}));
                assert!(answer.to_string().contains("2026-07-28"), "{answer}");
            }
            Era::Straight => {
                let registry = portreeve_domains::load().expect("a registry");
                let tools = registry.iter();
                self.tools = tools
                    .map(|tool| (tool.name().to_owned(), Value::Object(tool.output_schema().clone())))
                    .collect();
                return;
            }
        }
        let listed = self.ask("tools/list", json!({}));
        for tool in listed["tools"].as_array().expect("tools") {
            let name = tool["name"].as_str().expect("a name").to_owned();
            self.tools.insert(name, tool["outputSchema"].clone());
        }
    }

    /// The bridge's pid.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Writes these very bytes.
    ///
    /// # Panics
    /// If the bridge doesn't take them.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("stdin is open").write_all(bytes).expect("the bridge reads");
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// The pipe to the bridge, for a thread that writes more than it takes.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("stdin is open")
    }

    /// A request as a message, with the id under which its answer is waited for.
    pub fn request(&mut self, method: &str, mut params: Value) -> (u64, Value) {
        self.asked += 1;
        if self.later && params.is_object() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "a host", "version": "1"},
            });
        }
        if method == "tools/call" {
            self.calls.insert(self.asked, params["name"].as_str().unwrap_or_default().to_owned());
        }
        (self.asked, json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}))
    }

    /// Asks without waiting; the id of the request.
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        let (id, message) = self.request(method, params);
        self.send(&message);
        id
    }

    /// Calls a tool without waiting.
    pub fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Takes a request back.
    pub fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id, "reason": "the user pressed escape"});
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }

    /// Waits for the message that answers `id`.
    ///
    /// # Panics
    /// If stdout ends before, or nothing comes.
    pub fn message(&mut self, id: u64) -> Value {
        loop {
            if let Some(message) = self.came.remove(&id) {
                return message;
            }
            assert!(self.read(), "stdout ended before the answer to {id}: {}", self.printed_text());
        }
    }

    /// The result of a request that isn't a tool's call.
    ///
    /// # Panics
    /// If it fails.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let message = self.message(id);
        assert!(message["result"].is_object(), "{method}: {message}");
        message["result"].clone()
    }

    /// Waits for the answer of a call: its structured content, or the record of its failure.
    ///
    /// # Errors
    /// The record.
    ///
    /// # Panics
    /// If the answer breaks a rule for all answers.
    pub fn end(&mut self, id: u64) -> Result<Value, Value> {
        let message = self.message(id);
        let tool = self.calls.get(&id).expect("it was a call").clone();
        told::answer(&tool, &message, &self.tools)
    }

    /// Calls a tool and waits.
    ///
    /// # Errors
    /// The record of its failure.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Value> {
        let id = self.begin_call(tool, arguments);
        self.end(id)
    }

    /// The structured content of a call that succeeds.
    ///
    /// # Panics
    /// If it doesn't.
    #[track_caller]
    pub fn done(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments).unwrap_or_else(|record| panic!("{tool} failed: {record}"))
    }

    /// The record of a call that fails with this class.
    ///
    /// # Panics
    /// If it doesn't.
    #[track_caller]
    pub fn fails(&mut self, class: &str, tool: &str, arguments: Value) -> Value {
        match self.call(tool, arguments) {
            Err(record) if record["class"] == class => record,
            other => panic!("{tool} doesn't fail with {class}: {other:?}"),
        }
    }

    /// Closes stdin.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Every answer not waited for yet, until stdout ends.
    pub fn rest(&mut self) -> HashMap<u64, Value> {
        while self.read() {}
        std::mem::take(&mut self.came)
    }

    /// Waits for the bridge's end.
    ///
    /// # Panics
    /// If it doesn't come.
    pub fn exits(&mut self) -> ExitStatus {
        crate::machine::until("the bridge exits", || {
            self.process.try_wait().expect("a child can be waited for")
        })
    }

    /// Sends the bridge a signal.
    ///
    /// # Panics
    /// If it is gone.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the bridge is there");
    }

    /// Every byte that came from the bridge on stdout and stderr, as far as they were read.
    pub fn printed(&self) -> Vec<u8> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same for people.
    pub fn printed_text(&self) -> String {
        String::from_utf8_lossy(&self.printed()).into_owned()
    }

    /// Reads one message; false at the end of stdout.
    fn read(&mut self) -> bool {
        let (stdout, printed) = (&mut self.stdout, &self.printed);
        let messages = self
            .messages
            .get_or_insert_with(|| messages(stdout.take().expect("stdout is unread"), printed.clone()));
        let message = match messages.recv_timeout(PATIENCE + PATIENCE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("no answer: {}", self.printed_text()),
        };
        assert!(message.get("method").is_none(), "the bridge never asks: {message}");
        let Some(id) = message["id"].as_u64() else {
            assert!(message["id"].is_null() && message["error"].is_object(), "a stray answer: {message}");
            self.refusals.push(message);
            return true;
        };
        assert!(id <= self.asked, "nobody asked that: {message}");
        assert!(self.answered.insert(id), "a second answer: {message}");
        self.came.insert(id, message);
        true
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stdin = None;
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
