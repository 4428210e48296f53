//! What the daemon answers of itself.

use portreeve_records::Pid;
use portreeve_registry::operation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request without fields.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// What the daemon is and can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Its version.
    pub software_version: String,
    /// The protocols it speaks.
    pub protocol: ProtocolRange,
    /// What it can do.
    #[schemars(length(max = 64))]
    pub capabilities: Vec<String>,
    /// Its process.
    pub pid: Pid,
    /// Who started it.
    pub mode: Mode,
    /// What is wrong with its store, if anything: then it serves health and diagnostics only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

/// The protocols that a side speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProtocolRange {
    /// The oldest.
    pub minimum: u32,
    /// The newest.
    pub maximum: u32,
}

/// Who started the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Somebody at a terminal.
    Manual,
    /// A supervisor.
    Supervised,
}

operation! {
    /// What the daemon is and can do.
    pub GetHealth: Routine = GET "/v1/health" needs "", Nothing => Health
}

/// When the daemon began to stop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stopped {
    /// Whether this call did it.
    pub changed: bool,
    /// When, UTC.
    pub at: String,
}

operation! {
    /// Stops the daemon.
    pub StopServer: Withheld = POST "/v1/server/stop" needs "lifecycle-control-v1", Nothing => Stopped,
    because "the daemon serves every agent of the user: stopping it is the user's own decision"
}
