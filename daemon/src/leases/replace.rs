//! Replacement, as protocol 1's acquire offers it: the claim's own confirmed run is ended first.

use crate::handler::{Asked, written};
use crate::reclaim;
use crate::rows::RunRow;
use portreeve_leases::ReplacementPolicy;
use portreeve_ports::{ReclaimOutcome, ReclaimPolicy};
use portreeve_registry::{Failure, FailureClass};

/// How far the replacement may go; `None` for not at all.
pub(super) fn policy(asked: ReplacementPolicy) -> Option<ReclaimPolicy> {
    match asked {
        ReplacementPolicy::Never => None,
        ReplacementPolicy::Graceful => Some(ReclaimPolicy::Graceful),
        ReplacementPolicy::ForceAfterGrace => Some(ReclaimPolicy::ForceAfterGrace),
    }
}

/// Ends the run, or says why not.
pub(super) fn replace(asked: &Asked<'_>, run: &RunRow, policy: ReclaimPolicy) -> Result<(), Failure> {
    let view = &run.view;
    let reclamation = reclaim::replace(asked, view.port, policy)?;
    if reclamation.outcome == ReclaimOutcome::Terminated {
        return Ok(());
    }
    let why = reclamation.reason.as_deref().unwrap_or("it doesn't listen, and still lives");
    let text = format!(
        "Claim {} already has the active run {}, and it was not replaced: {why}.",
        view.claim_id, view.id
    );
    Err(Failure::new(FailureClass::Conflict, text)
        .detail("claimId", view.claim_id.to_string())
        .detail("runId", view.id.to_string())
        .detail("port", view.port.get())
        .detail("reclamation", written(&reclamation)?)
        .next("stop its server, then ask again"))
}
