//! Deleting a claim: its port goes back to everybody.

use super::claim::{self, Row, Use};
use crate::handler::{Asked, serve};
use crate::history::{self, Entry};
use crate::receipts::{Act, Acting, Change, Purpose, directly, serve_change};
use crate::rows;
use crate::store::Tx;
use portreeve_claims::{
    ClaimDeleted, ClaimRef, DeleteAction, DeleteClaim, DeleteObserved, DeletedClaim, NoProposal,
};
use portreeve_records::{Claim, InventoryEntry};
use portreeve_registry::Failure;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

serve_change!(Delete);
serve!(DeleteClaim => delete);

fn delete(asked: &Asked<'_>, request: ClaimRef) -> Result<ClaimDeleted, Failure> {
    directly::<Delete>(asked, &request)?;
    Ok(ClaimDeleted { changed: true, at: asked.daemon.clock().now().stamp() })
}

enum Delete {}

/// The facts that matter to a deletion.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Facts {
    claim: Row,
    #[serde(flatten)]
    used: Use,
}

struct View {
    claim: Claim,
    inventory: Option<InventoryEntry>,
}

impl Change for Delete {
    type Action = DeleteAction;
    type Ask = ClaimRef;
    type Facts = Facts;
    type View = View;

    const TOOL: &'static str = "claims_delete";
    const COMMAND: &'static str = "portreeve claims delete";

    fn ask(_: &Asked<'_>, request: ClaimRef) -> Result<ClaimRef, Failure> {
        Ok(request)
    }
    fn again(_: &Asked<'_>, target: ClaimRef, _: NoProposal, _: &Value) -> Result<ClaimRef, Failure> {
        Ok(target)
    }
    fn target(ask: &ClaimRef) -> String {
        ask.claim_id.to_string()
    }
    fn target_named(target: &ClaimRef) -> String {
        target.claim_id.to_string()
    }

    fn look(asked: &Asked<'_>, ask: &ClaimRef, purpose: Purpose) -> Result<(Facts, View), Failure> {
        let daemon = asked.daemon;
        let standing = daemon.read(|conn| claim::standing(daemon, conn, ask.claim_id))?;
        let port = standing.claim.assigned_port;
        let used = standing.used(claim::listening(daemon, port)?);
        let inventory = match (purpose, port) {
            (Purpose::Preview, Some(port)) => Some(claim::entry(daemon, port)?),
            _ => None,
        };
        Ok((Facts { claim: Row::of(&standing.claim), used }, View { claim: standing.claim, inventory }))
    }

    fn refusal(ask: &ClaimRef, facts: &Facts) -> Option<Failure> {
        facts.used.refusal(ask.claim_id, facts.claim.assigned_port)
    }
    fn proposal(_: &ClaimRef, _: &Facts, _: &View) -> NoProposal {
        NoProposal {}
    }
    fn observed(_: &Asked<'_>, _: &ClaimRef, _: &Facts, view: View) -> Result<DeleteObserved, Failure> {
        Ok(DeleteObserved { claim: view.claim, inventory: view.inventory })
    }

    fn recheck(at: &Acting, tx: &Tx<'_>, ask: &ClaimRef, facts: &Facts) -> Result<Facts, Failure> {
        let standing = claim::standing(&at.daemon, tx, ask.claim_id)?;
        let used = standing.used(facts.used.listening.clone());
        Ok(Facts { claim: Row::of(&standing.claim), used })
    }

    fn act(at: &Acting, tx: &Tx<'_>, ask: ClaimRef, _: Facts, _: View) -> Result<Act<DeletedClaim>, Failure> {
        claim::clear(at, tx, ask.claim_id)?;
        remove(at, tx, &claim::standing(&at.daemon, tx, ask.claim_id)?.claim, "claim.deleted", "requested")?;
        Ok(Act::Done(DeletedClaim { claim_id: ask.claim_id, deleted: true }))
    }
}

/// Deletes a claim that nobody uses, with its settled leases and runs, and tells history.
pub(super) fn remove(
    at: &Acting,
    tx: &Tx<'_>,
    claim: &Claim,
    event_type: &'static str,
    reason: &str,
) -> Result<(), Failure> {
    let id = claim.id.to_string();
    rows::change(tx, "DELETE FROM claim WHERE id = ?1", [&id])?;
    history::append(
        tx,
        Some(&at.caller),
        &at.now,
        at.daemon.settings().history_maximum_events,
        Entry {
            event_type,
            entity_type: "claim",
            entity_id: &id,
            payload: json!({"claim": claim, "reason": reason}),
        },
    )?;
    if let Some(port) = claim.assigned_port {
        let after = Arc::clone(&at.daemon);
        tx.after_commit(Box::new(move || after.pool().unassign(port.get())));
    }
    Ok(())
}
