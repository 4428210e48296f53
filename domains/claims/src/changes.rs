//! Changing claims for good: another port, deletion, and pruning what no worktree is left for.

use crate::ClaimRef;
use portreeve_records::{Claim, Id, InventoryEntry, PortNumber};
use portreeve_registry::{Action, Issue, NoTarget, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Asks for another port for a claim.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReassignRequest {
    /// The claim.
    pub claim_id: Id,
    /// The port it would rather have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_port: Option<PortNumber>,
    /// The only port it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_port: Option<PortNumber>,
}

operation! {
    /// Gives a claim another port, in one step and without a receipt.
    pub ReassignClaim: Consequential = POST "/v1/claims/{claimId}/reassign" needs "administration-v1",
    ReassignRequest => Claim
}

/// What a reassignment's receipt proposes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReassignProposal {
    /// The port it would rather have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_port: Option<PortNumber>,
    /// The only port it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_port: Option<PortNumber>,
}

/// What was seen, and which port the claim would get.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReassignObserved {
    /// The claim as it is.
    pub claim: Claim,
    /// The port it would get.
    pub port: PortNumber,
    /// The port it would prefer from then on.
    pub preferred_port: Option<PortNumber>,
    /// The port it would insist on from then on.
    pub exact_port: Option<PortNumber>,
    /// All that is known of the port it would get.
    pub inventory: InventoryEntry,
}

/// Giving a claim another port.
#[derive(Clone, Copy, Debug)]
pub enum ReassignAction {}
impl Action for ReassignAction {
    const ACTION: &'static str = "claim.reassign";
    const TARGET: &'static str = "claim";
    const PREVIEW_PATH: &'static str = "/v1/actions/claims/{claimId}/reassign/preview";
    const EXECUTE_PATH: &'static str = "/v1/actions/claims/{claimId}/reassign/execute";
    const CAPABILITY: &'static str = "administration-v1";
    type Target = ClaimRef;
    type Request = ReassignRequest;
    type Proposal = ReassignProposal;
    type Observed = ReassignObserved;
    type Result = Claim;
}
operation! { action ReassignAction }

/// What was done at once, and when.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimDeleted {
    /// Whether this call did it.
    pub changed: bool,
    /// When, UTC.
    pub at: String,
}

operation! {
    /// Deletes a claim, in one step and without a receipt.
    pub DeleteClaim: Consequential = POST "/v1/claims/{claimId}/delete" needs "administration-v1",
    ClaimRef => ClaimDeleted
}

/// A proposal without fields.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct NoProposal {}

/// What was seen of a claim that would go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteObserved {
    /// The claim.
    pub claim: Claim,
    /// All that is known of its port.
    pub inventory: Option<InventoryEntry>,
}

/// A claim that is gone.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedClaim {
    /// The claim.
    pub claim_id: Id,
    /// That it is gone.
    pub deleted: bool,
}

/// Deleting a claim.
#[derive(Clone, Copy, Debug)]
pub enum DeleteAction {}
impl Action for DeleteAction {
    const ACTION: &'static str = "claim.delete";
    const TARGET: &'static str = "claim";
    const PREVIEW_PATH: &'static str = "/v1/actions/claims/{claimId}/delete/preview";
    const EXECUTE_PATH: &'static str = "/v1/actions/claims/{claimId}/delete/execute";
    const CAPABILITY: &'static str = "administration-v1";
    type Target = ClaimRef;
    type Request = ClaimRef;
    type Proposal = NoProposal;
    type Observed = DeleteObserved;
    type Result = DeletedClaim;
}
operation! { action DeleteAction }

/// The oldest age that can be asked for: ten years, in milliseconds.
pub const OLDEST: u64 = 315_576_000_000;

/// How long ago, in milliseconds: at most ten years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Age(#[schemars(range(min = 0, max = 315_576_000_000_u64))] u64);

impl Age {
    /// The age, unless it is over ten years.
    pub const fn new(milliseconds: u64) -> Option<Age> {
        if milliseconds > OLDEST { None } else { Some(Age(milliseconds)) }
    }
    /// Milliseconds.
    pub const fn milliseconds(self) -> u64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Age {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "an age of 0 to 315576000000 milliseconds";
        Age::new(u64::deserialize(deserializer)?).ok_or_else(|| Issue::out_of_bounds(false, &expected))
    }
}

/// Asks to delete the claims of worktrees that are gone.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneRequest {
    /// Only claims that weren't used for so long.
    pub older_than_milliseconds: Age,
    /// Whether only to look.
    pub dry_run: bool,
}

operation! {
    /// Deletes the claims of worktrees that are gone, in one step and without a receipt.
    pub PruneClaims: Consequential = POST "/v1/claims/prune" needs "administration-v1",
    PruneRequest => Pruned
}

/// Which claims to prune.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneProposal {
    /// Only claims that weren't used for so long.
    pub older_than_milliseconds: Age,
    /// How many of each list to show; all of them without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_shown: Option<u32>,
}

/// Why a claim is one to prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PruneReason {
    /// Its worktree's folder is gone.
    WorkspaceMissing,
}

/// A claim to prune.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PruneCandidate {
    /// The claim.
    pub claim: Claim,
    /// Why.
    pub reason: PruneReason,
}

/// A claim that is passed over.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// The claim.
    pub claim_id: Id,
    /// Why: pending_lease, active_run, live_listener, workspace-unreachable, workspace-reappeared.
    pub reason: String,
}

/// How many there are in all, where not all are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PruneTotals {
    /// Claims to prune.
    pub candidates: usize,
    /// Claims that are gone.
    pub deleted: usize,
    /// Claims that are passed over.
    pub skipped: usize,
}

/// What a pruning did or would do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    /// Whether it only looked.
    pub dry_run: bool,
    /// Claims to prune.
    pub candidates: Vec<PruneCandidate>,
    /// Claims that are gone.
    pub deleted_claim_ids: Vec<Id>,
    /// Claims that are passed over.
    pub skipped: Vec<Skipped>,
    /// How many there are in all, where not all are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<PruneTotals>,
}

/// Deleting the claims of worktrees that are gone.
#[derive(Clone, Copy, Debug)]
pub enum PruneAction {}
impl Action for PruneAction {
    const ACTION: &'static str = "claims.prune";
    const TARGET: &'static str = "claim-collection";
    const PREVIEW_PATH: &'static str = "/v1/actions/claims/prune/preview";
    const EXECUTE_PATH: &'static str = "/v1/actions/claims/prune/execute";
    const CAPABILITY: &'static str = "administration-v1";
    type Target = NoTarget;
    type Request = PruneProposal;
    type Proposal = PruneProposal;
    type Observed = Pruned;
    type Result = Pruned;
}
operation! { action PruneAction }
