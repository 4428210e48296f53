//! `POST /v1/runs/{runId}/release`, and the end of a run that is noticed.

use crate::Daemon;
use crate::clock::Moment;
use crate::handler::{Asked, Caller, serve};
use crate::history::{self, Entry};
use crate::inventory::{self, Recorded};
use crate::rows;
use crate::store::Tx;
use portreeve_leases::{ReleaseRequest, ReleaseRun, Released};
use portreeve_records::{Id, RunState};
use portreeve_registry::{Failure, FailureClass};
use rusqlite::params;
use serde_json::json;
use std::sync::Arc;

serve!(ReleaseRun => serve_release);

fn serve_release(asked: &Asked<'_>, request: ReleaseRequest) -> Result<Released, Failure> {
    if request.if_stopped == Some(true) {
        refuse_while_served(asked.daemon, request.run_id)?;
    }
    let daemon = asked.daemon.clone();
    let caller = asked.caller.clone();
    asked.daemon.write(move |tx| {
        let now = daemon.clock().now();
        let changed = release(&daemon, tx, Some(&caller), &now, request.run_id, None)?;
        Ok(Released { changed, at: now.stamp() })
    })
}

/// Refuses while the run's own server listens, or when that can't be told.
fn refuse_while_served(daemon: &Arc<Daemon>, id: Id) -> Result<(), Failure> {
    let found = daemon.read(|conn| {
        let Some(run) = rows::find_run(conn, "id = ?1 AND state = 'confirmed'", [id.to_string()])? else {
            return Ok::<_, Failure>(None);
        };
        let recorded: Recorded = inventory::recorded(conn, run.view.port)?;
        Ok(Some((run, recorded)))
    })?;
    let Some((run, recorded)) = found else { return Ok(()) };
    let port = run.view.port;
    let entry = inventory::entry(daemon, port, recorded);
    let own: Vec<u32> =
        entry.listeners.iter().filter(|l| l.ownership.verified).map(|l| l.pid.get()).collect();
    if let Some(pid) = own.first() {
        return Err(Failure::new(
            FailureClass::Conflict,
            format!("Run {id} still serves port {port}: process {pid} listens on it."),
        )
        .detail("runId", id.to_string())
        .detail("port", port.get())
        .detail("listeners", json!(own))
        .detail("reason", "live_listener")
        .next(format!("stop your server (pid {pid}), then release the run"))
        .by(Some("leases_release"), Some(format!("portreeve run release {id}"))));
    }
    if !entry.evidence.complete && entry.run.is_some() {
        return Err(Failure::new(
            FailureClass::EvidenceUnavailable,
            format!("whether run {id} still serves port {port} can't be told: not everything could be read"),
        ));
    }
    Ok(())
}

/// Ends the record of a run, if it goes on; whether it did.
pub(crate) fn release(
    daemon: &Arc<Daemon>,
    tx: &Tx<'_>,
    caller: Option<&Caller>,
    now: &Moment,
    id: Id,
    reason: Option<&str>,
) -> Result<bool, Failure> {
    let Some(run) = rows::find_run(tx, "id = ?1", [id.to_string()])? else { return Ok(false) };
    if run.view.state == RunState::Released {
        return Ok(false);
    }
    rows::change(
        tx,
        "UPDATE run SET state = 'released', released_at = ?2, release_reason = ?3 WHERE id = ?1",
        params![id.to_string(), now.stamp(), reason],
    )?;
    super::expire::used_until_now(daemon, tx, now, run.view.claim_id)?;
    let payload = reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}));
    history::append(
        tx,
        caller,
        now,
        daemon.settings().history_maximum_events,
        Entry { event_type: "run.released", entity_type: "run", entity_id: &id.to_string(), payload },
    )?;
    let after = Arc::clone(daemon);
    tx.after_commit(Box::new(move || after.watch().forget(id)));
    Ok(true)
}
