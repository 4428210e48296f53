//! `POST /v1/leases/{leaseId}/renew`

use super::{check_token, expired, lease, not_pending};
use crate::handler::{Asked, serve};
use crate::history::{self, Entry};
use crate::rows;
use portreeve_leases::{RenewLease, RenewRequest, Renewed};
use portreeve_records::LeaseState;
use portreeve_registry::Failure;
use rusqlite::params;
use serde_json::json;

serve!(RenewLease => renew);

fn renew(asked: &Asked<'_>, request: RenewRequest) -> Result<Renewed, Failure> {
    let daemon = asked.daemon.clone();
    let caller = asked.caller.clone();
    let settings = daemon.settings();
    let renewed = asked.daemon.write(move |tx| {
        let now = daemon.clock().now();
        let lease = lease(tx, request.lease_id)?;
        check_token(&lease, &request.lease_token)?;
        if lease.state != LeaseState::Pending {
            return Err(not_pending(&lease));
        }
        if lease.expired(now.boot_ms, daemon.clock().boot_id()) {
            return Err(expired(&lease));
        }
        let ttl = i64::try_from(settings.lease_ttl_milliseconds).unwrap_or(i64::MAX);
        let until = now.plus_ms(ttl);
        rows::change(
            tx,
            "UPDATE lease SET expires_at = ?2, expires_boot_ms = ?3, ttl_ms = ?4 WHERE id = ?1",
            params![lease.id.to_string(), until.stamp(), until.boot_ms, ttl],
        )?;
        history::append(
            tx,
            Some(&caller),
            &now,
            settings.history_maximum_events,
            Entry {
                event_type: "lease.renewed",
                entity_type: "lease",
                entity_id: &lease.id.to_string(),
                payload: json!({"expiresAt": until.stamp()}),
            },
        )?;
        Ok(Renewed { lease_id: lease.id, expires_at: until.stamp() })
    })?;
    asked.daemon.lease_changed();
    Ok(renewed)
}
