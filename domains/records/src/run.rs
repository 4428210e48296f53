//! Runs: a server that was confirmed on its port, and what proves it.

use crate::{Id, Pid, PortNumber, ProcessView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What serves the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BindingKind {
    /// A process of this host.
    Process,
    /// A container.
    Docker,
}

impl BindingKind {
    /// The kind as it is stored and sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            BindingKind::Process => "process",
            BindingKind::Docker => "docker",
        }
    }
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It was confirmed and is not over.
    Confirmed,
    /// It is over.
    Released,
}

/// A process that was seen listening when the run was confirmed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmedListener {
    /// The process.
    pub fingerprint: ProcessView,
    /// When it was seen, UTC.
    pub observed_at: String,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// Its id.
    pub id: Id,
    /// The claim it serves.
    pub claim_id: Id,
    /// The lease it was confirmed from.
    pub lease_id: Id,
    /// Its port.
    pub port: PortNumber,
    /// Whether it goes on.
    pub state: RunState,
    /// What serves the port.
    pub binding_kind: BindingKind,
    /// The root of its process tree.
    pub root_pid: Option<Pid>,
    /// The root as it was confirmed.
    pub root_fingerprint: Option<ProcessView>,
    /// Its container.
    pub container_id: Option<String>,
    /// What the container engine said.
    pub provider_evidence: Option<Value>,
    /// When it was confirmed, UTC.
    pub confirmed_at: String,
    /// When it was over, UTC.
    pub released_at: Option<String>,
    /// The processes that were seen listening.
    #[schemars(length(max = 1024))]
    pub confirmed_listener_fingerprints: Vec<ConfirmedListener>,
}
