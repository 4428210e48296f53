//! The tools of this domain.

use crate::{GetHealth, Health, Mode, Nothing, ProtocolRange};
use portreeve_records::Pid;
use portreeve_registry::{Example, Local, Nature, Read, tool};
use schemars::JsonSchema;
use serde::Serialize;

tool! {
    /// Ask the daemon for its version, protocol and capabilities. If it fails, diagnostics_get says why.
    pub read DiagnosticsHealthGet = "diagnostics_health_get"
}
impl Read for DiagnosticsHealthGet {
    type Operation = GetHealth;
    type Input = Nothing;
    type Output = Health;
    fn example() -> Example<Nothing> {
        Example::of(Nothing {})
    }
    fn request(input: Nothing) -> Nothing {
        input
    }
    fn output(reply: Health) -> Health {
        reply
    }
    fn summary(health: &Health) -> String {
        let mut text = format!("PortReeve {} answers (pid {}).", health.software_version, health.pid);
        if let Some(store) = &health.store {
            text.push_str(&format!(" Its store is out of order: {store}."));
        }
        text
    }
}

tool! {
    /// Find out why PortReeve doesn't answer, and the exact command that mends it. Works without the daemon.
    /// Call it first when any other tool says unavailable or incompatible.
    pub local DiagnosticsGet = "diagnostics_get"
}

/// This bridge, the daemon, and what to do next.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiagnosticsOutput {
    /// This bridge.
    pub bridge: BridgeState,
    /// The daemon.
    pub daemon: DaemonState,
    /// What failed lately in this bridge, newest first.
    #[schemars(length(max = 10))]
    pub recent_failures: Vec<RecentFailure>,
    /// What to do next.
    pub next: Next,
}

/// The bridge that answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BridgeState {
    /// Its version.
    pub version: String,
    /// This process' id in history.
    pub run_id: String,
    /// Its label in history.
    pub label: Option<String>,
    /// The daemon's socket.
    pub socket_path: String,
    /// How long it has run.
    pub uptime_milliseconds: u64,
    /// How many credentials it holds.
    pub credentials_held: u64,
    /// The protocols it speaks.
    pub protocol: ProtocolRange,
}

/// The daemon as this bridge finds it now.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonState {
    /// Whether it answered just now.
    pub reachable: bool,
    /// Whether this bridge may use it.
    pub compatible: bool,
    /// Why it didn't answer.
    pub reason: Option<Unreachable>,
    /// In words.
    pub detail: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its process.
    pub pid: Option<Pid>,
    /// Who started it.
    pub mode: Option<Mode>,
    /// The protocols it speaks.
    pub protocol: Option<ProtocolRange>,
    /// What this bridge's tools need and it can't do.
    #[schemars(length(max = 64))]
    pub missing_capabilities: Vec<String>,
}

/// Why the daemon didn't answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unreachable {
    /// There is no socket.
    SocketMissing,
    /// Nobody listens on the socket.
    Refused,
    /// The socket is another user's.
    WrongOwner,
    /// Unix sockets are blocked here.
    BlockedBySandbox,
    /// It didn't answer in time.
    Timeout,
    /// It answered with something that isn't PortReeve's protocol.
    NotPortreeve,
}

/// A failure of this bridge.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentFailure {
    /// When, UTC.
    pub at: String,
    /// The call's request id.
    pub request_id: String,
    /// The tool.
    pub tool: String,
    /// The failure's class.
    pub class: String,
    /// What happened.
    pub message: String,
}

/// What to do next.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Next {
    /// In words.
    pub text: String,
    /// The command.
    pub command: Option<String>,
}

impl Local for DiagnosticsGet {
    const NATURE: Nature = Nature::Read;
    type Input = Nothing;
    type Output = DiagnosticsOutput;
    fn example() -> Example<Nothing> {
        Example::of(Nothing {})
    }
    fn summary(output: &DiagnosticsOutput) -> String {
        let daemon = &output.daemon;
        let state = match (daemon.reachable, daemon.compatible) {
            (true, true) => "PortReeve answers and is compatible.".to_owned(),
            (true, false) => "PortReeve answers, but this bridge and it don't fit together.".to_owned(),
            (false, _) => match &daemon.detail {
                Some(detail) => format!("PortReeve can't be reached: {detail}."),
                None => "PortReeve can't be reached.".to_owned(),
            },
        };
        match &output.next.command {
            Some(command) => format!("{state} Next: {} ({command}).", output.next.text),
            None => format!("{state} Next: {}.", output.next.text),
        }
    }
}
