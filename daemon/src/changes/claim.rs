//! What the changes of one claim look at: its row, who uses it, and who is on its port.

use crate::Daemon;
use crate::clock::Moment;
use crate::fault::{not_found, of_evidence};
use crate::inventory;
use crate::leases;
use crate::ownership::{self, Life};
use crate::receipts::Acting;
use crate::rows::{self, RunRow};
use crate::store::Tx;
use portreeve_evidence::{Deadline, Socket};
use portreeve_records::{Claim, ClaimIdentity, ClaimMode, Id, InventoryEntry, PortNumber};
use portreeve_registry::{Failure, FailureClass};
use rusqlite::Connection;
use serde::Serialize;

/// A claim as a plan knows it: without its times.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    id: Id,
    identity: ClaimIdentity,
    mode: ClaimMode,
    pub(super) assigned_port: Option<PortNumber>,
    preferred_port: Option<PortNumber>,
    exact_port: Option<PortNumber>,
}

impl Row {
    pub(super) fn of(claim: &Claim) -> Row {
        Row {
            id: claim.id,
            identity: claim.identity.clone(),
            mode: claim.mode,
            assigned_port: claim.assigned_port,
            preferred_port: claim.preferred_port,
            exact_port: claim.exact_port,
        }
    }
}

/// Who uses a claim, and who is on its port. All three forbid changing it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Use {
    /// Its pending lease.
    pub(super) lease: Option<Id>,
    /// Its confirmed run, unless that is conclusively over.
    pub(super) run: Option<Id>,
    /// The addresses on its port that are listened on.
    pub(super) listening: Vec<String>,
}

impl Use {
    /// Why the claim may not be changed now.
    pub(super) fn refusal(&self, id: Id, port: Option<PortNumber>) -> Option<Failure> {
        let refuse = |text: String, reason: &str| {
            Failure::new(FailureClass::Conflict, text)
                .detail("claimId", id.to_string())
                .detail("reason", reason)
        };
        if let Some(run) = self.run {
            let text = format!("Claim {id} is not idle: run {run} serves it.");
            return Some(
                refuse(text, "active_run")
                    .detail("runId", run.to_string())
                    .next("stop its server first; a server that ends is noticed"),
            );
        }
        if let Some(lease) = self.lease {
            let text = format!("Claim {id} is not idle: lease {lease} is pending.");
            return Some(
                refuse(text, "pending_lease")
                    .detail("leaseId", lease.to_string())
                    .retryable()
                    .next("somebody is starting its server: wait until the lease is settled or over"),
            );
        }
        let port = port.filter(|_| !self.listening.is_empty())?;
        let text =
            format!("Claim {id} is not idle: somebody listens on its port, {}.", self.listening.join(", "));
        Some(
            refuse(text, "live_listener")
                .detail("port", port.get())
                .next("see whose it is")
                .by(Some("ports_get"), Some(format!("portreeve ports inspect {port}"))),
        )
    }
}

/// One claim, and its use as the store knows it.
pub(super) struct Standing {
    pub(super) claim: Claim,
    pub(super) lease: Option<Id>,
    pub(super) run: Option<RunRow>,
}

/// Reads them. A pending lease whose time is over, and a run whose processes are all gone, count no more.
pub(super) fn standing(daemon: &Daemon, conn: &Connection, id: Id) -> Result<Standing, Failure> {
    let key = id.to_string();
    let claim = rows::find_claim(conn, "id = ?1", [&key])?
        .ok_or_else(|| not_found("Claim", id, "claims_list", "portreeve claims list"))?;
    let (now, boot_id) = (daemon.clock().boot_ms(), daemon.clock().boot_id());
    let lease = rows::find_lease(conn, "claim_id = ?1 AND state = 'pending'", [&key])?
        .filter(|lease| !lease.expired(now, boot_id))
        .map(|lease| lease.id);
    let run = rows::find_run(conn, "claim_id = ?1 AND state = 'confirmed'", [&key])?
        .filter(|run| ownership::life(run, boot_id, daemon.evidence()) != Life::Over);
    Ok(Standing { claim, lease, run })
}

impl Standing {
    pub(super) fn used(&self, listening: Vec<String>) -> Use {
        Use { lease: self.lease, run: self.run.as_ref().map(|run| run.view.id), listening }
    }
}

/// Everything known of a port, read now.
pub(super) fn entry(daemon: &Daemon, port: PortNumber) -> Result<InventoryEntry, Failure> {
    let recorded = daemon.read(|conn| inventory::recorded(conn, port))?;
    Ok(inventory::entry(daemon, port, recorded))
}

/// The addresses of a port that are listened on: one look-up, filtered in the kernel.
pub(super) fn listening(daemon: &Daemon, port: Option<PortNumber>) -> Result<Vec<String>, Failure> {
    let Some(port) = port else { return Ok(Vec::new()) };
    let deadline = Deadline::after(inventory::ONE);
    let sockets =
        daemon.evidence().listening_on(port.get(), &deadline).map_err(|unknown| of_evidence(&unknown))?;
    Ok(names(&sockets))
}

/// Their addresses, in order, each once.
pub(super) fn names(sockets: &[Socket]) -> Vec<String> {
    let mut names: Vec<String> = sockets.iter().map(inventory::name).collect();
    names.sort();
    names.dedup();
    names
}

/// Ends the record of what is over but still stands in the way: the lease by its time, the run by its processes.
pub(super) fn clear(at: &Acting, tx: &Tx<'_>, claim: Id) -> Result<(), Failure> {
    let now: &Moment = &at.now;
    leases::expire_within(&at.daemon, tx, now)?;
    let left = rows::find_run(tx, "claim_id = ?1 AND state = 'confirmed'", [claim.to_string()])?;
    if let Some(run) = left {
        leases::release(&at.daemon, tx, Some(&at.caller), now, run.view.id, Some("processes-ended"))?;
    }
    Ok(())
}
