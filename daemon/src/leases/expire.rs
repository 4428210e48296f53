//! The end of leases and of ephemeral assignments, by the boot clock.

use crate::Daemon;
use crate::clock::Moment;
use crate::history::{self, Entry};
use crate::rows;
use crate::store::Tx;
use portreeve_records::Id;
use portreeve_registry::Failure;
use rusqlite::{Connection, params};
use serde_json::json;
use std::sync::Arc;

/// Expires every pending lease whose time is over, and gives ephemeral ports back whose time is over.
pub(crate) fn expire_due(daemon: &Arc<Daemon>) -> Result<(), Failure> {
    let at = Arc::clone(daemon);
    daemon.write(move |tx| {
        let now = at.clock().now();
        expire_within(&at, tx, &now)?;
        assignments(&at, tx, &now)
    })
}

/// The boot-clock times at which something ends next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// A pending lease.
    pub(crate) lease: Option<i64>,
    /// The assignment of an ephemeral claim that is neither leased nor served.
    pub(crate) assignment: Option<i64>,
}

/// When something ends next.
pub(crate) fn due(conn: &Connection) -> Result<Due, Failure> {
    let least = |sql: &str| Ok::<_, Failure>(rows::one(conn, sql, (), |row| row.get(0))?.flatten());
    Ok(Due {
        lease: least("SELECT min(expires_boot_ms) FROM lease WHERE state = 'pending'")?,
        assignment: least(&format!("SELECT min(assignment_expires_boot_ms) FROM claim WHERE {UNUSED}"))?,
    })
}

/// Ephemeral claims that have a port and don't use it. (A claim that is leased or served is in use; its time starts
/// when that ends.)
const UNUSED: &str = "mode = 'ephemeral' AND assigned_port IS NOT NULL \
     AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.claim_id = claim.id AND lease.state = 'pending') \
     AND NOT EXISTS (SELECT 1 FROM run WHERE run.claim_id = claim.id AND run.state = 'confirmed')";

/// The use of a claim has ended: an ephemeral one keeps its port for its time from now on.
pub(crate) fn used_until_now(
    daemon: &Arc<Daemon>,
    tx: &Tx<'_>,
    now: &Moment,
    claim_id: Id,
) -> Result<(), Failure> {
    let ttl = daemon.settings().ephemeral_assignment_ttl_milliseconds;
    let until = now.plus_ms(i64::try_from(ttl).unwrap_or(i64::MAX));
    let changed = rows::change(
        tx,
        "UPDATE claim SET assignment_expires_at = ?2, assignment_expires_boot_ms = ?3, assignment_boot_id = ?4 \
         WHERE id = ?1 AND mode = 'ephemeral' AND assigned_port IS NOT NULL",
        params![claim_id.to_string(), until.stamp(), until.boot_ms, daemon.clock().boot_id()],
    )?;
    if changed > 0 {
        let after = Arc::clone(daemon);
        tx.after_commit(Box::new(move || after.leases.notify_one()));
    }
    Ok(())
}

/// Expires every pending lease whose time is over, within a transaction.
pub(crate) fn expire_within(daemon: &Arc<Daemon>, tx: &Tx<'_>, now: &Moment) -> Result<(), Failure> {
    let boot_id = daemon.clock().boot_id();
    let sql = format!(
        "SELECT {} FROM lease WHERE state = 'pending' AND (boot_id <> ?1 OR expires_boot_ms <= ?2)",
        rows::LEASE
    );
    for lease in rows::all(tx, &sql, params![boot_id, now.boot_ms], rows::lease)? {
        rows::change(
            tx,
            "UPDATE lease SET state = 'expired', settled_at = ?2 WHERE id = ?1",
            [lease.id.to_string(), now.stamp()],
        )?;
        history::append(
            tx,
            None,
            now,
            daemon.settings().history_maximum_events,
            Entry {
                event_type: "lease.expired",
                entity_type: "lease",
                entity_id: &lease.id.to_string(),
                payload: json!({"claimId": lease.claim_id, "port": lease.port}),
            },
        )?;
        used_until_now(daemon, tx, now, lease.claim_id)?;
        let after = Arc::clone(daemon);
        tx.after_commit(Box::new(move || after.pool().let_go(lease.port.get())));
    }
    Ok(())
}

fn assignments(daemon: &Arc<Daemon>, tx: &Tx<'_>, now: &Moment) -> Result<(), Failure> {
    let sql = format!(
        "SELECT {} FROM claim WHERE {UNUSED} AND (assignment_boot_id <> ?1 OR assignment_expires_boot_ms <= ?2)",
        rows::CLAIM
    );
    for claim in rows::all(tx, &sql, params![daemon.clock().boot_id(), now.boot_ms], rows::claim)? {
        let id = claim.id.to_string();
        rows::change(
            tx,
            "UPDATE claim SET assigned_port = NULL, assignment_expires_at = NULL, \
             assignment_expires_boot_ms = NULL, assignment_boot_id = NULL, updated_at = ?2 WHERE id = ?1",
            [id.as_str(), &now.stamp()],
        )?;
        history::append(
            tx,
            None,
            now,
            daemon.settings().history_maximum_events,
            Entry {
                event_type: "claim.ephemeral_assignment_expired",
                entity_type: "claim",
                entity_id: &id,
                payload: json!({"port": claim.assigned_port}),
            },
        )?;
        let after = Arc::clone(daemon);
        if let Some(port) = claim.assigned_port {
            tx.after_commit(Box::new(move || after.pool().unassign(port.get())));
        }
    }
    Ok(())
}

/// After a gap in which nothing ran (sleep, SIGSTOP): each pending lease gets one more lease time from now, so
/// that its holder, who slept as well, can still renew or confirm it.
pub(crate) fn extend_after_gap(daemon: &Arc<Daemon>) -> Result<(), Failure> {
    let daemon = Arc::clone(daemon);
    let due = Arc::clone(&daemon);
    due.write(move |tx| {
        let now = daemon.clock().now();
        let sql = format!("SELECT {} FROM lease WHERE state = 'pending' AND boot_id = ?1", rows::LEASE);
        for lease in rows::all(tx, &sql, [daemon.clock().boot_id()], rows::lease)? {
            let until = now.plus_ms(lease.ttl_ms);
            if until.boot_ms <= lease.expires_boot_ms {
                continue;
            }
            rows::change(
                tx,
                "UPDATE lease SET expires_at = ?2, expires_boot_ms = ?3 WHERE id = ?1",
                params![lease.id.to_string(), until.stamp(), until.boot_ms],
            )?;
            history::append(
                tx,
                None,
                &now,
                daemon.settings().history_maximum_events,
                Entry {
                    event_type: "lease.renewed",
                    entity_type: "lease",
                    entity_id: &lease.id.to_string(),
                    payload: json!({"expiresAt": until.stamp()}),
                },
            )?;
        }
        Ok(())
    })
}
