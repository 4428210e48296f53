//! `POST /v1/leases/{leaseId}/abandon`

use super::{check_token, expire, expired, lease, not_pending};
use crate::handler::{Asked, serve};
use crate::history::{self, Entry};
use crate::rows;
use portreeve_leases::{AbandonLease, AbandonRequest, Abandoned};
use portreeve_records::{AbandonReason, LeaseState};
use portreeve_registry::Failure;
use rusqlite::params;
use serde_json::json;

serve!(AbandonLease => abandon);

/// How long a port is set aside for a claim that met an unseen holder on it, in milliseconds.
const SET_ASIDE: i64 = 10 * 60 * 1000;

fn abandon(asked: &Asked<'_>, request: AbandonRequest) -> Result<Abandoned, Failure> {
    let daemon = asked.daemon.clone();
    let caller = asked.caller.clone();
    let most = daemon.settings().history_maximum_events;
    let abandoned = asked.daemon.write(move |tx| {
        let now = daemon.clock().now();
        let boot_id = daemon.clock().boot_id();
        let lease = lease(tx, request.lease_id)?;
        if lease.state == LeaseState::Abandoned && request.answer_settled == Some(true) {
            check_token(&lease, &request.lease_token)?;
            let at =
                rows::one(tx, "SELECT settled_at FROM lease WHERE id = ?1", [lease.id.to_string()], |row| {
                    row.get::<_, Option<String>>(0)
                })?;
            return Ok(Abandoned { changed: false, at: at.flatten().unwrap_or_else(|| now.stamp()) });
        }
        if lease.state != LeaseState::Pending {
            return Err(not_pending(&lease));
        }
        check_token(&lease, &request.lease_token)?;
        if lease.expired(now.boot_ms, boot_id) {
            return Err(expired(&lease));
        }
        rows::change(
            tx,
            "UPDATE lease SET state = 'abandoned', settled_at = ?2 WHERE id = ?1",
            [lease.id.to_string(), now.stamp()],
        )?;
        if request.reason == AbandonReason::AddressInUse {
            rows::change(
                tx,
                "INSERT INTO set_aside (claim_id, port, until_boot_ms, boot_id) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (claim_id, port) DO UPDATE SET until_boot_ms = ?3, boot_id = ?4",
                params![lease.claim_id.to_string(), lease.port.get(), now.boot_ms + SET_ASIDE, boot_id],
            )?;
        }
        history::append(
            tx,
            Some(&caller),
            &now,
            most,
            Entry {
                event_type: "lease.abandoned",
                entity_type: "lease",
                entity_id: &lease.id.to_string(),
                payload: json!({"reason": request.reason, "port": lease.port}),
            },
        )?;
        expire::used_until_now(&daemon, tx, &now, lease.claim_id)?;
        let after = daemon.clone();
        tx.after_commit(Box::new(move || after.pool().let_go(lease.port.get())));
        Ok(Abandoned { changed: true, at: now.stamp() })
    })?;
    asked.daemon.lease_changed();
    Ok(abandoned)
}
