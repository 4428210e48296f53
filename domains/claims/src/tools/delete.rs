//! `claims_delete_preview` and `claims_delete_execute`.

use crate::{ClaimItem, ClaimRef, DeleteAction, DeleteObserved, DeletedClaim, NoProposal};
use portreeve_records::Classification;
use portreeve_registry::{Change, Effect, Example, Executed, Receipt, tool};
use schemars::JsonSchema;
use serde::Serialize;

tool! {
    /// Delete a claim: its port goes back to everybody. Only while nobody serves or leases it; it ends no
    /// process. A claim that is needed again is simply made anew by leases_acquire.
    pub change ClaimsDelete = "claims_delete"
}

/// What would happen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeleteShown {
    /// The claim that would go.
    pub claim: ClaimItem,
    /// What its port is now.
    pub classification: Option<Classification>,
}

impl Change for ClaimsDelete {
    const EFFECT: Effect = Effect::Destructive;
    type Action = DeleteAction;
    type Input = ClaimRef;
    type Shown = DeleteShown;
    type Done = DeletedClaim;

    fn example() -> Example<ClaimRef> {
        Example::of(Self::example_target())
    }
    fn example_target() -> ClaimRef {
        ClaimRef { claim_id: super::example_id() }
    }
    fn request(input: ClaimRef) -> ClaimRef {
        input
    }
    fn shown(receipt: Receipt<NoProposal, DeleteObserved>) -> DeleteShown {
        let seen = receipt.observed;
        let classification = seen.inventory.map(|entry| entry.classification);
        DeleteShown { claim: super::item(seen.claim), classification }
    }
    fn done(result: DeletedClaim) -> DeletedClaim {
        result
    }
    fn preview_summary(shown: &DeleteShown) -> String {
        let claim = &shown.claim;
        let port = claim.assigned_port.map_or("no port".to_owned(), |port| format!("port {port}"));
        format!(
            "The claim {}/{} of {} ({port}) would be deleted.",
            claim.component, claim.endpoint, claim.workspace_root
        )
    }
    fn execute_summary(done: &Executed<DeletedClaim>) -> String {
        let id = done.result.claim_id;
        if done.replayed {
            format!("As recorded: claim {id} is deleted.")
        } else {
            format!("Claim {id} is deleted.")
        }
    }
}
