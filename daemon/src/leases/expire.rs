//! The end of leases and of ephemeral assignments, by the boot clock.

use crate::Daemon;
use crate::clock::Moment;
use crate::history::{self, Entry};
use crate::rows;
use crate::store::Tx;
use portreeve_registry::Failure;
use rusqlite::params;
use serde_json::json;
use std::sync::Arc;

/// Expires every pending lease whose time is over, and gives ephemeral ports back whose time is over.
///
/// Answers the boot-clock time of the next lease that will expire.
pub(crate) fn expire_due(daemon: &Arc<Daemon>) -> Result<Option<i64>, Failure> {
    let daemon = Arc::clone(daemon);
    let due = Arc::clone(&daemon);
    due.write(move |tx| {
        let now = daemon.clock().now();
        expire_within(&daemon, tx, &now)?;
        assignments(&daemon, tx, &now)?;
        let next =
            rows::one(tx, "SELECT min(expires_boot_ms) FROM lease WHERE state = 'pending'", (), |row| {
                row.get(0)
            })?;
        Ok(next.flatten())
    })
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
        let after = Arc::clone(daemon);
        tx.after_commit(Box::new(move || after.pool().let_go(lease.port.get())));
    }
    Ok(())
}

fn assignments(daemon: &Arc<Daemon>, tx: &Tx<'_>, now: &Moment) -> Result<(), Failure> {
    // A claim that is leased or served is in use; its time starts when that ends.
    let sql = format!(
        "SELECT {} FROM claim WHERE mode = 'ephemeral' AND assigned_port IS NOT NULL \
         AND (assignment_boot_id <> ?1 OR assignment_expires_boot_ms <= ?2) \
         AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.claim_id = claim.id AND lease.state = 'pending') \
         AND NOT EXISTS (SELECT 1 FROM run WHERE run.claim_id = claim.id AND run.state = 'confirmed')",
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
