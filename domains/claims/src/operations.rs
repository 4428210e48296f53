//! What the daemon answers of claims.

use portreeve_records::{Claim, Id, Named};
use portreeve_registry::{Listing, Routine, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names one claim.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRef {
    /// The claim's id.
    pub claim_id: Id,
}

operation! {
    /// One claim.
    pub GetClaim: Routine = GET "/v1/claims/{claimId}" needs "claims-v1", ClaimRef => Claim
}

/// Which claims to list. All that are given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimFilter {
    /// Only claims of this project.
    pub project: Option<Named>,
    /// Only claims of this worktree, exactly.
    pub workspace_root: Option<String>,
    /// Only claims of this component.
    pub component: Option<Named>,
    /// Only claims of this endpoint.
    pub endpoint: Option<Named>,
}

/// What claims are ordered by: project, worktree, component, endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimKey(
    /// Project.
    pub String,
    /// Worktree.
    pub String,
    /// Component.
    pub String,
    /// Endpoint.
    pub String,
);

/// Lists claims.
#[derive(Clone, Copy, Debug)]
pub enum ListClaims {}
impl Listing for ListClaims {
    const PATH: &'static str = "/v1/claims";
    const CAPABILITY: &'static str = "claims-v1";
    type Class = Routine;
    type Filter = ClaimFilter;
    type Row = Claim;
    type Key = ClaimKey;
}
operation! { list ListClaims }
