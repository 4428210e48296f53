//! Getting a port back: asking a confirmed run's processes to end, in one step or bound to a receipt.

use crate::PortRef;
use portreeve_records::{Id, InventoryEntry, Listener, Pid, PortNumber, WorkspaceRoot};
use portreeve_registry::{Action, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far ending a process may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ReclaimPolicy {
    /// Nothing is ended.
    Never,
    /// SIGTERM, and no more.
    #[default]
    Graceful,
    /// SIGTERM, and SIGKILL once the grace has passed.
    ForceAfterGrace,
}

/// Asks for a port back in one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimRequest {
    /// The port.
    pub port: PortNumber,
    /// How far it may go.
    pub policy: ReclaimPolicy,
    /// Whether only to look.
    #[serde(default)]
    pub dry_run: bool,
}

/// What kind of reclamation it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimKind {
    /// Of what a confirmed run proves.
    Reclaim,
    /// Of whoever holds the port.
    UnsafeEviction,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ReclaimOutcome {
    /// Nobody had the port.
    AlreadyFree,
    /// The targets would be ended.
    WouldTerminate,
    /// The targets ended, and nobody listens on the port.
    Terminated,
    /// Nothing was ended; the reason says why.
    Refused,
    /// The port wasn't free in time; the reason says why.
    Timeout,
    /// A container has the port: whoever launched it has to stop it.
    LauncherActionRequired,
}

/// What whoever launched a container has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LauncherAction {
    /// `docker`.
    pub kind: String,
    /// `stop-container`.
    pub action: String,
    /// The containers.
    #[schemars(length(max = 64))]
    pub container_ids: Vec<String>,
}

/// A signal's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum SignalName {
    /// Asks to end.
    #[serde(rename = "SIGTERM")]
    Term,
    /// Ends.
    #[serde(rename = "SIGKILL")]
    Kill,
}

/// A signal that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentSignal {
    /// To whom.
    pub pid: Pid,
    /// Which one.
    pub signal: SignalName,
    /// When, UTC.
    pub at: String,
}

/// What came of a reclamation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reclamation {
    /// Its id, under which history tells of it.
    pub operation_id: Id,
    /// What kind it was.
    pub operation: ReclaimKind,
    /// The port.
    pub port: PortNumber,
    /// How far it was allowed to go.
    pub policy: ReclaimPolicy,
    /// Whether it only looked.
    pub dry_run: bool,
    /// What came of it.
    pub outcome: ReclaimOutcome,
    /// Why, where the outcome doesn't say it all.
    pub reason: Option<String>,
    /// What is left to whoever launched a container.
    pub launcher_action: Option<LauncherAction>,
    /// The processes, those that listen first; one that doesn't has no names.
    pub targets: Vec<Listener>,
    /// What was sent.
    pub signals: Vec<SentSignal>,
}

operation! {
    /// Ends a confirmed run's processes to get its port back, in one step and without a receipt.
    pub ReclaimPort: Consequential = POST "/v1/ports/{port}/reclaim" needs "reclamation-v1",
    ReclaimRequest => Reclamation
}

/// A process as whoever asks has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedProcess {
    /// Its id.
    pub pid: Pid,
    /// When it started, as it was shown.
    pub start_time: String,
}

/// Asks for a port back from whoever has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictRequest {
    /// The port.
    pub port: PortNumber,
    /// Must be true: whoever holds the port is ended, proved or not.
    pub unsafe_any_owner: bool,
    /// How far it may go.
    #[serde(default)]
    pub policy: ReclaimPolicy,
    /// Whether only to look.
    #[serde(default)]
    pub dry_run: bool,
    /// The processes that were shown: with them, nobody else is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Vec<ExpectedProcess>>,
}

operation! {
    /// Ends whoever holds a port, proved or not.
    pub EvictPort: Withheld = POST "/v1/ports/{port}/unsafe-evict" needs "reclamation-v1",
    EvictRequest => Reclamation,
    because "it ends processes that nothing proves to be the caller's: for a person at a terminal only"
}

/// Asks what a reclamation would do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimActionRequest {
    /// The port.
    pub port: PortNumber,
    /// How far it may go.
    pub policy: ReclaimPolicy,
    /// The worktree whose server it is: another's port is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_root: Option<WorkspaceRoot>,
}

/// What a reclamation's receipt proposes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimProposal {
    /// How far it may go.
    pub policy: ReclaimPolicy,
    /// The worktree that was named as the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_root: Option<WorkspaceRoot>,
}

/// What was seen of the port, and what would come of the reclamation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimObserved {
    /// The port.
    pub port: PortNumber,
    /// How far it may go.
    pub policy: ReclaimPolicy,
    /// What would come of it.
    pub outcome: ReclaimOutcome,
    /// Why, where the outcome doesn't say it all.
    pub reason: Option<String>,
    /// What is left to whoever launched a container.
    pub launcher_action: Option<LauncherAction>,
    /// The processes that would be ended, those that listen first.
    pub targets: Vec<Listener>,
    /// All that is known of the port.
    pub inventory: InventoryEntry,
    /// Who confirmed the run, by their own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
}

/// Getting a port back from a confirmed run.
#[derive(Clone, Copy, Debug)]
pub enum ReclaimAction {}
impl Action for ReclaimAction {
    const ACTION: &'static str = "port.reclaim";
    const TARGET: &'static str = "port";
    const PREVIEW_PATH: &'static str = "/v1/actions/ports/{port}/reclaim/preview";
    const EXECUTE_PATH: &'static str = "/v1/actions/ports/{port}/reclaim/execute";
    const CAPABILITY: &'static str = "reclamation-v1";
    type Target = PortRef;
    type Request = ReclaimActionRequest;
    type Proposal = ReclaimProposal;
    type Observed = ReclaimObserved;
    type Result = Reclamation;
}
operation! { action ReclaimAction }
