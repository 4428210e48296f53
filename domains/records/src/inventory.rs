//! What is known of one port: who says they have it, and who really does.

use crate::{Claim, LeaseView, Pid, PortNumber, ProcessView, RunView, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a port is, from all that is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Classification {
    /// Nothing is known of it.
    Available,
    /// Every listener belongs to the confirmed run.
    Verified,
    /// Claimed, and nobody listens.
    Idle,
    /// Somebody listens, and nobody claims it.
    Unclaimed,
    /// Leased, and not yet confirmed.
    Pending,
    /// Claimed, but whoever listens isn't proved to be the claim's.
    Conflicting,
    /// Some listeners belong to the confirmed run, some don't.
    Mixed,
    /// A container publishes it.
    DockerManaged,
}

impl Classification {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Classification::Available => "available",
            Classification::Verified => "verified",
            Classification::Idle => "idle",
            Classification::Unclaimed => "unclaimed",
            Classification::Pending => "pending",
            Classification::Conflicting => "conflicting",
            Classification::Mixed => "mixed",
            Classification::DockerManaged => "docker-managed",
        }
    }
}

/// All that is known of one port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InventoryEntry {
    /// The port.
    pub port: PortNumber,
    /// The transport.
    pub transport: Transport,
    /// What it is.
    pub classification: Classification,
    /// The claim that has it.
    pub claim: Option<Claim>,
    /// The pending lease on it.
    pub lease: Option<LeaseView>,
    /// The confirmed run on it.
    pub run: Option<RunView>,
    /// What a container engine says of it.
    pub docker: Option<DockerEvidence>,
    /// The processes that listen on it.
    #[schemars(length(max = 1024))]
    pub listeners: Vec<Listener>,
    /// How complete this picture is.
    #[serde(default)]
    pub evidence: EvidenceState,
    /// Sockets whose holders can't be shown as listeners.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub holders: Vec<HolderView>,
}

/// How complete a picture is. With `complete: false` nobody may take the port for free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceState {
    /// Whether everything was read.
    pub complete: bool,
    /// What stood in the way.
    #[schemars(length(max = 8))]
    pub notes: Vec<EvidenceNote>,
}

/// What stood in the way of a complete picture, or should be known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceNote {
    /// No process that can be seen holds the socket.
    HolderNotVisible,
    /// A process that may hold the socket can't be looked into.
    HolderNotObservable,
    /// The port is settling after a connection (TIME_WAIT).
    Settling,
    /// Somebody answers, and nobody listens here: it is forwarded.
    Forwarded,
    /// The listener is on the other loopback family only.
    OtherFamily,
    /// The container engine didn't answer.
    EngineUnavailable,
    /// The time for looking ran out.
    Deadline,
}

/// A listening socket whose holder isn't a visible process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HolderView {
    /// The address and port it listens on.
    pub name: String,
    /// The user that made the socket.
    pub uid: u32,
    /// Why its holder isn't shown.
    pub note: EvidenceNote,
}

/// A process that listens on the port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Listener {
    /// Its id.
    pub pid: Pid,
    /// The port.
    pub port: PortNumber,
    /// Its name.
    pub command: Option<String>,
    /// The addresses it listens on, with the port.
    #[schemars(length(max = 64))]
    pub names: Vec<String>,
    /// The process.
    pub process: Option<ProcessView>,
    /// Whether it is the confirmed run's.
    pub ownership: Ownership,
}

/// Whether a listener is the confirmed run's, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ownership {
    /// Whether it is.
    pub verified: bool,
    /// Why, or why not.
    pub reason: OwnershipReason,
    /// From the listener's pid up to the root's.
    #[schemars(length(max = 64))]
    pub lineage: Vec<Pid>,
}

/// Why a listener is or isn't the confirmed run's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OwnershipReason {
    /// It is.
    Verified,
    /// There is no confirmed run.
    NoConfirmedRunEvidence,
    /// The process can't be looked into.
    ProcessUnobservable,
    /// The root's pid is another process now.
    RootProcessChanged,
    /// It does not descend from the root.
    NotInRunLineage,
}

/// What a container engine says of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DockerEvidence {
    /// Whether the engine answered.
    pub available: bool,
    /// Why not.
    pub reason: Option<String>,
    /// The containers that publish the port.
    #[schemars(length(max = 64))]
    pub containers: Vec<DockerContainer>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DockerContainer {
    /// Its id.
    pub id: String,
    /// Whether it runs.
    pub running: bool,
    /// PortReeve's labels on it.
    pub labels: BTreeMap<String, String>,
    /// What it publishes.
    #[schemars(length(max = 64))]
    pub ports: Vec<DockerPort>,
}

/// A published port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DockerPort {
    /// Inside.
    pub container_port: u16,
    /// On which host address.
    pub host_ip: String,
    /// On which host port.
    pub host_port: u16,
}
