//! `GET /v1/claims` and `GET /v1/claims/{claimId}`.

use crate::fault::not_found;
use crate::handler::{Asked, serve};
use crate::rows;
use portreeve_claims::{ClaimFilter, ClaimKey, ClaimRef, GetClaim, ListClaims};
use portreeve_records::Claim;
use portreeve_registry::{Cut, Failure, PageOf};
use rusqlite::ToSql;

serve!(GetClaim => get);
serve!(list ListClaims => list);

fn get(asked: &Asked<'_>, request: ClaimRef) -> Result<Claim, Failure> {
    asked
        .daemon
        .read(|conn| rows::find_claim(conn, "id = ?1", [request.claim_id.to_string()]))?
        .ok_or_else(|| not_found("Claim", request.claim_id, "claims_list", "portreeve claims list"))
}

/// Pages by the key that is unique anyway, so a page costs the same however many claims there are.
fn list(asked: &Asked<'_>, filter: &ClaimFilter, cut: &Cut<ClaimKey>) -> Result<PageOf<Claim>, Failure> {
    let mut conditions = vec!["1"];
    let mut values: Vec<&dyn ToSql> = Vec::new();
    let project = filter.project.as_ref().map(|n| n.as_str());
    let component = filter.component.as_ref().map(|n| n.as_str());
    let endpoint = filter.endpoint.as_ref().map(|n| n.as_str());
    if let Some(project) = &project {
        conditions.push("project = ?");
        values.push(project);
    }
    if let Some(root) = &filter.workspace_root {
        conditions.push("workspace_root = ?");
        values.push(root);
    }
    if let Some(component) = &component {
        conditions.push("component = ?");
        values.push(component);
    }
    if let Some(endpoint) = &endpoint {
        conditions.push("endpoint = ?");
        values.push(endpoint);
    }
    if let Some(ClaimKey(project, root, component, endpoint)) = cut.after() {
        conditions.push("(project, workspace_root, component, endpoint) > (?, ?, ?, ?)");
        values.extend([project as &dyn ToSql, root, component, endpoint]);
    }
    let sql = format!(
        "SELECT {} FROM claim WHERE {} ORDER BY project, workspace_root, component, endpoint LIMIT {}",
        rows::CLAIM,
        conditions.join(" AND "),
        i64::try_from(cut.fetch()).unwrap_or(i64::MAX)
    );
    let claims = asked.daemon.read(|conn| rows::all(conn, &sql, values.as_slice(), rows::claim))?;
    cut.page(claims.into_iter().map(|claim| {
        let identity = &claim.identity;
        let key = ClaimKey(
            identity.project.to_string(),
            identity.workspace_root.to_string(),
            identity.component.to_string(),
            identity.endpoint.to_string(),
        );
        Ok((key, claim))
    }))
}
