//! The tools of this domain.

pub(crate) mod delete;
pub(crate) mod prune;
pub(crate) mod reassign;

use crate::{ClaimFilter, ClaimRef, GetClaim, ListClaims};
use portreeve_records::{Claim, ClaimMode, Id, Named, PortNumber, WorkspaceRoot};
use portreeve_registry::{Collection, Example, Page, Read, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Show one claim: whose it is, the port it has, and the ports it prefers or insists on.
    pub read ClaimsGet = "claims_get"
}
impl Read for ClaimsGet {
    type Operation = GetClaim;
    type Input = ClaimRef;
    type Output = Claim;
    fn example() -> Example<ClaimRef> {
        Example::of(ClaimRef { claim_id: example_id() })
    }
    fn request(input: ClaimRef) -> ClaimRef {
        input
    }
    fn output(reply: Claim) -> Claim {
        reply
    }
    fn summary(claim: &Claim) -> String {
        let identity = &claim.identity;
        let port = claim.assigned_port.map_or("no port yet".to_owned(), |port| format!("port {port}"));
        format!("{}/{} of {} has {port}.", identity.component, identity.endpoint, identity.workspace_root)
    }
}

/// Narrows the list of claims; all that are given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimsListFilter {
    /// Only claims of this project.
    pub project: Option<Named>,
    /// Only claims of this worktree.
    pub workspace_root: Option<WorkspaceRoot>,
    /// Only claims of this component.
    pub component: Option<Named>,
    /// Only claims of this endpoint.
    pub endpoint: Option<Named>,
}

/// One claim in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimItem {
    /// Its id.
    pub claim_id: Id,
    /// Its project.
    pub project: Named,
    /// Its worktree.
    pub workspace_root: WorkspaceRoot,
    /// Its component.
    pub component: Named,
    /// Its endpoint.
    pub endpoint: Named,
    /// How long it keeps its port.
    pub mode: ClaimMode,
    /// The port it has.
    pub assigned_port: Option<PortNumber>,
}

tool! {
    /// List claims by project, worktree, component and endpoint: who has which port for what.
    pub collection ClaimsList = "claims_list"
}
impl Collection for ClaimsList {
    type Listing = ListClaims;
    type Filter = ClaimsListFilter;
    type Item = ClaimItem;
    fn example() -> Example<ClaimsListFilter> {
        Example::of(ClaimsListFilter::default())
    }
    fn filter(filter: ClaimsListFilter) -> ClaimFilter {
        ClaimFilter {
            project: filter.project,
            workspace_root: filter.workspace_root.map(|root| root.as_str().to_owned()),
            component: filter.component,
            endpoint: filter.endpoint,
        }
    }
    fn item(claim: Claim) -> ClaimItem {
        item(claim)
    }
    fn summary(page: &Page<ClaimItem>) -> String {
        match page.items().len() {
            0 => "No claim matches.".to_owned(),
            1 => "1 claim.".to_owned(),
            n => format!("{n} claims."),
        }
    }
}

/// A claim, lean.
fn item(claim: Claim) -> ClaimItem {
    ClaimItem {
        claim_id: claim.id,
        project: claim.identity.project,
        workspace_root: claim.identity.workspace_root,
        component: claim.identity.component,
        endpoint: claim.identity.endpoint,
        mode: claim.mode,
        assigned_port: claim.assigned_port,
    }
}

/// An id for examples.
fn example_id() -> Id {
    Id::parse("0198c0de-0000-7000-8000-000000000000").expect("a UUID")
}
