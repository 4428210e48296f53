//! Claims: which endpoint of which component in which worktree has which port.
//!
//! Wire types, operations and tools. Deciding is the daemon's.

#![warn(missing_docs)]

mod changes;
mod operations;
mod tools;

pub use changes::{
    Age, ClaimDeleted, DeleteAction, DeleteClaim, DeleteObserved, DeletedClaim, NoProposal, OLDEST,
    PruneAction, PruneCandidate, PruneClaims, PruneProposal, PruneReason, PruneRequest, PruneTotals, Pruned,
    ReassignAction, ReassignClaim, ReassignObserved, ReassignProposal, ReassignRequest, Skipped,
};
pub use operations::{ClaimFilter, ClaimKey, ClaimRef, GetClaim, ListClaims};
pub use tools::delete::{ClaimsDelete, DeleteShown};
pub use tools::prune::{ClaimsPrune, PruneDone, PruneInput, PruneShown};
pub use tools::reassign::{ClaimsReassign, ReassignInput, ReassignShown};
pub use tools::{ClaimItem, ClaimsGet, ClaimsList, ClaimsListFilter};

portreeve_registry::domain!("claims");
