//! Leases and runs: handing ports out, and proving who has them.

mod abandon;
mod acquire;
mod candidates;
mod confirm;
mod expire;
mod release;
mod renew;
mod replace;

pub(crate) use expire::{Due, due, expire_due, expire_within, extend_after_gap, used_until_now};
pub(crate) use release::release;

use crate::rows::{self, LeaseRow};
use portreeve_records::{Id, LeaseState};
use portreeve_registry::{Failure, FailureClass, Secret};
use rusqlite::Connection;

/// One lease by its id.
fn lease(conn: &Connection, id: Id) -> Result<LeaseRow, Failure> {
    rows::find_lease(conn, "id = ?1", [id.to_string()])?.ok_or_else(|| {
        Failure::new(FailureClass::NotFound, format!("Lease {id} was not found."))
            .next("acquire a lease")
            .by(Some("leases_acquire"), Some("portreeve lease acquire".into()))
    })
}

fn check_token(lease: &LeaseRow, token: &Secret) -> Result<(), Failure> {
    if token.matches(&lease.token_hash) {
        Ok(())
    } else {
        Err(Failure::new(FailureClass::CredentialMismatch, "Lease token does not match."))
    }
}

/// The lease is in another state than pending. One whose time ran out says so, swept or not.
fn not_pending(lease: &LeaseRow) -> Failure {
    if lease.state == LeaseState::Expired {
        return expired(lease);
    }
    let state = lease.state.as_str();
    Failure::new(FailureClass::LeaseNotPending, format!("Lease {} is {state}.", lease.id))
        .next("acquire the lease again")
        .by(Some("leases_acquire"), Some("portreeve lease acquire".into()))
}

fn expired(lease: &LeaseRow) -> Failure {
    Failure::new(FailureClass::LeaseExpired, format!("Lease {} expired at {}.", lease.id, lease.expires_at))
        .next("acquire the lease again")
        .by(Some("leases_acquire"), Some("portreeve lease acquire".into()))
}
