//! What the daemon answers of leases and runs.

use portreeve_records::{AbandonReason, ClaimIdentity, ClaimMode, Id, Pid, PortNumber};
use portreeve_registry::{Secret, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks for a port for one claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcquireRequest {
    /// What it is for.
    pub claim: ClaimIdentity,
    /// Which port.
    pub allocation: Allocation,
    /// The caller's own token: the same one asks for the same lease again, so a lost reply costs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<Secret>,
    /// Whether a living run of the claim is an answer; without it, it is a conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_running: Option<bool>,
}

/// Which port is wanted.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// How long the claim keeps it.
    #[serde(default)]
    pub mode: ClaimMode,
    /// The port it would rather have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_port: Option<PortNumber>,
    /// The only port it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_port: Option<PortNumber>,
    /// What may be done to whoever has it.
    #[serde(default)]
    pub replacement_policy: ReplacementPolicy,
}

/// What may be done to a confirmed run that has the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplacementPolicy {
    /// Nothing.
    #[default]
    Never,
    /// SIGTERM.
    Graceful,
    /// SIGTERM, then SIGKILL.
    ForceAfterGrace,
}

/// What an acquire answers: a lease, or the run that already serves the claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acquired {
    /// The claim.
    pub claim_id: Id,
    /// The lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<Id>,
    /// The lease's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<Secret>,
    /// The port.
    pub port: PortNumber,
    /// Until when the lease holds it, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whether the claim had this port before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_assignment: Option<bool>,
    /// Which of the two it is; said to those who brought a token or asked for running answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<LeaseStanding>,
    /// Whether this call made the lease; said as `state` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// Why it isn't the port that was asked for or had before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<InsteadOf>,
    /// What should be known of the exact port that was given: browsers refuse it, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<WhyNot>,
    /// The run that serves the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Id>,
    /// Since when, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Whether it listens now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listening: Option<bool>,
    /// The root of its process tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_pid: Option<Pid>,
}

/// What a claim's port is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LeaseStanding {
    /// Held for a server that is about to start.
    Pending,
    /// Served already.
    Running,
}

/// Why the port isn't the one that was asked for or had before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InsteadOf {
    /// That one.
    pub port: PortNumber,
    /// Why not.
    pub reason: WhyNot,
    /// Who has it, as far as that can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

/// Why a port was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum WhyNot {
    /// It is another claim's.
    Assigned,
    /// It is leased to another claim.
    Leased,
    /// Somebody listens on it.
    Listening,
    /// It can't be bound, and who holds it can't be seen.
    HeldUnseen,
    /// Something answers on it without a listener here.
    Forwarded,
    /// The settings exclude it.
    Excluded,
    /// Browsers refuse it.
    BadPort,
    /// This user may not bind it.
    Privileged,
    /// This claim met an unseen holder on it a while ago.
    SetAside,
}

/// Who has a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The claim's worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_root: Option<String>,
    /// The claim's component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The process that listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
    /// Its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Since when, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Whether it is of the asking claim's own worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_workspace: Option<bool>,
}

operation! {
    /// Holds a port for a claim.
    pub AcquireLease: CredentialBearing = POST "/v1/leases/acquire" needs "two-phase-allocation-v1",
    AcquireRequest => Acquired
}

/// Names a lease and proves that it is the caller's.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewRequest {
    /// The lease.
    pub lease_id: Id,
    /// Its token.
    pub lease_token: Secret,
}

/// A lease's new end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Renewed {
    /// The lease.
    pub lease_id: Id,
    /// Until when it holds its port, UTC.
    pub expires_at: String,
}

operation! {
    /// Holds a lease's port for another lease time.
    pub RenewLease: CredentialBearing = POST "/v1/leases/{leaseId}/renew" needs "two-phase-allocation-v1",
    RenewRequest => Renewed
}

/// Says which process tree serves a lease's port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmRequest {
    /// The lease.
    pub lease_id: Id,
    /// Its token.
    pub lease_token: Secret,
    /// The root of the server's process tree.
    pub root_pid: Pid,
    /// Whether a lease that this very token has confirmed already is an answer; without it, it isn't pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_settled: Option<bool>,
}

/// A confirmed run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Confirmed {
    /// The claim.
    pub claim_id: Id,
    /// The lease that it was.
    pub lease_id: Id,
    /// The run that it is now.
    pub run_id: Id,
    /// The port.
    pub port: PortNumber,
    /// When it was proved, UTC.
    pub confirmed_at: String,
    /// Where it listens, address and port: which loopback family works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub addresses: Vec<String>,
    /// False when it was confirmed before; said to those who asked for settled answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

operation! {
    /// Proves by kernel evidence that a process tree serves a lease's port, and makes it a run.
    pub ConfirmLease: CredentialBearing = POST "/v1/leases/{leaseId}/confirm" needs "two-phase-allocation-v1",
    ConfirmRequest => Confirmed
}

/// Gives a lease up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AbandonRequest {
    /// The lease.
    pub lease_id: Id,
    /// Its token.
    pub lease_token: Secret,
    /// Why.
    pub reason: AbandonReason,
    /// Whether a lease that was given up already is an answer; without it, it isn't pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_settled: Option<bool>,
}

/// When a lease was given up.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Abandoned {
    /// Whether this call did it.
    pub changed: bool,
    /// When, UTC.
    pub at: String,
}

operation! {
    /// Gives a lease's port back unused.
    pub AbandonLease: CredentialBearing = POST "/v1/leases/{leaseId}/abandon" needs "two-phase-allocation-v1",
    AbandonRequest => Abandoned
}

/// Says that a run is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRequest {
    /// The run.
    pub run_id: Id,
    /// Whether to refuse while its server lives or can't be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_stopped: Option<bool>,
}

/// When a run was released.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    /// Whether this call did it.
    pub changed: bool,
    /// When, UTC.
    pub at: String,
}

operation! {
    /// Ends the record of a run; its process is not touched.
    pub ReleaseRun: Routine = POST "/v1/runs/{runId}/release" needs "two-phase-allocation-v1",
    ReleaseRequest => Released
}
