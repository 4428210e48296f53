//! `claims_reassign_preview` and `claims_reassign_execute`.

use crate::{ClaimItem, ClaimRef, ReassignAction, ReassignObserved, ReassignProposal, ReassignRequest};
use portreeve_records::{Claim, Classification, Id, PortNumber};
use portreeve_registry::{Change, Effect, Example, Executed, Receipt, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Give a claim another port: the one it prefers if that is free, else the next free one; or exactly one.
    /// Only while nobody serves or leases the claim. No server is moved: start it on the new port afterwards.
    pub change ClaimsReassign = "claims_reassign"
}

/// Which claim, and which port.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReassignInput {
    /// The claim.
    pub claim_id: Id,
    /// The port it would rather have.
    #[serde(default)]
    pub preferred_port: Option<PortNumber>,
    /// The only port that will do; not with preferredPort.
    #[serde(default)]
    pub exact_port: Option<PortNumber>,
}

/// What would happen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReassignShown {
    /// The claim as it is.
    pub claim: ClaimItem,
    /// The port it would get.
    pub port: PortNumber,
    /// The port it would prefer from then on.
    pub preferred_port: Option<PortNumber>,
    /// The port it would insist on from then on.
    pub exact_port: Option<PortNumber>,
    /// What that port is now.
    pub classification: Classification,
}

impl Change for ClaimsReassign {
    const EFFECT: Effect = Effect::Reversible;
    type Action = ReassignAction;
    type Input = ReassignInput;
    type Shown = ReassignShown;
    type Done = ClaimItem;

    fn example() -> Example<ReassignInput> {
        Example::of(ReassignInput {
            claim_id: super::example_id(),
            preferred_port: PortNumber::new(3100),
            exact_port: None,
        })
    }
    fn example_target() -> ClaimRef {
        ClaimRef { claim_id: super::example_id() }
    }
    fn request(input: ReassignInput) -> ReassignRequest {
        let ReassignInput { claim_id, preferred_port, exact_port } = input;
        ReassignRequest { claim_id, preferred_port, exact_port }
    }
    fn shown(receipt: Receipt<ReassignProposal, ReassignObserved>) -> ReassignShown {
        let seen = receipt.observed;
        ReassignShown {
            claim: super::item(seen.claim),
            port: seen.port,
            preferred_port: seen.preferred_port,
            exact_port: seen.exact_port,
            classification: seen.inventory.classification,
        }
    }
    fn done(result: Claim) -> ClaimItem {
        super::item(result)
    }
    fn preview_summary(shown: &ReassignShown) -> String {
        let claim = &shown.claim;
        let before = claim.assigned_port.map_or("no port".to_owned(), |port| format!("port {port}"));
        format!(
            "{}/{} of {} has {before}; it would get port {}.",
            claim.component, claim.endpoint, claim.workspace_root, shown.port
        )
    }
    fn execute_summary(done: &Executed<ClaimItem>) -> String {
        let claim = &done.result;
        let port = claim.assigned_port.map_or("no port".to_owned(), |port| format!("port {port}"));
        let text = format!("{}/{} of {} has {port}", claim.component, claim.endpoint, claim.workspace_root);
        if done.replayed { format!("As recorded: {text}.") } else { format!("{text} now.") }
    }
}
