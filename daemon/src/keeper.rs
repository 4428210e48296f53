//! The keeper of leases: wakes while one is pending, and otherwise only when an unused ephemeral port is to be
//! given back.

use crate::Daemon;
use crate::leases::{self, Due};
use portreeve_registry::Failure;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long settled leases are kept, in days.
const LEASE_DAYS: i64 = 1;
/// How long released runs and settled receipts are kept, in days.
const RUN_DAYS: i64 = 7;
/// How long to wait after a round that failed.
const AFTER_A_FAILURE: Duration = Duration::from_secs(5);
/// How often old records are swept at most, in milliseconds.
const SWEEP_EVERY: i64 = 10 * 60 * 1000;

/// Runs until the daemon stops.
pub(crate) async fn keep(daemon: Arc<Daemon>) {
    let mut swept = None;
    loop {
        let at = Arc::clone(&daemon);
        let round = tokio::task::spawn_blocking(move || round(&at, swept)).await;
        let next = match round {
            Ok(Ok((next, when))) => {
                swept = Some(when);
                next
            }
            Ok(Err(failure)) => {
                tracing::warn!(%failure, "leases could not be looked after");
                Next { leased: true, wait: Some(AFTER_A_FAILURE) }
            }
            Err(_) => return,
        };
        if next.leased {
            // From now on a gap is looked for.
            daemon.idle.store(false, Ordering::Release);
        } else {
            daemon.idle.store(true, Ordering::Release);
            // A lease may have come between the look and the flag.
            if !matches!(due(&daemon), Ok(Due { lease: None, .. })) {
                continue;
            }
        }
        match next.wait {
            Some(wait) if next.leased => tokio::time::sleep(wait).await,
            // A lease that comes, or a use that ends, changes what is next.
            Some(wait) => drop(tokio::time::timeout(wait, daemon.leases.notified()).await),
            None => daemon.leases.notified().await,
        }
    }
}

/// What the keeper waits for.
struct Next {
    /// Whether a lease is pending.
    leased: bool,
    /// How long; for ever without.
    wait: Option<Duration>,
}

/// One round: extends after a gap, expires what is due, sweeps now and then. Answers what to wait for.
fn round(daemon: &Arc<Daemon>, swept: Option<i64>) -> Result<(Next, i64), Failure> {
    daemon.after_a_gap();
    let now = daemon.clock().boot_ms();
    daemon.awake.store(now, Ordering::Release);
    let mut next = due(daemon)?;
    if next.lease.into_iter().chain(next.assignment).any(|next| next <= now) {
        leases::expire_due(daemon)?;
        next = due(daemon)?;
    }
    let mut when = swept.unwrap_or(now);
    if swept.is_none() || now - when >= SWEEP_EVERY {
        sweep(daemon)?;
        when = now;
    }
    let ttl = i64::try_from(daemon.settings().lease_ttl_milliseconds).unwrap_or(i64::MAX);
    // Awake at least three times a lease time, so that a gap is seen as one.
    let lease = next.lease.map(|next| (next - now).clamp(1, (ttl / 3).max(1)));
    let assignment = next.assignment.map(|next| (next - now).max(1));
    let wait = lease.into_iter().chain(assignment).min();
    let wait = wait.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(1)));
    Ok((Next { leased: lease.is_some(), wait }, when))
}

/// When something ends next; never, of a store that can't be served from.
fn due(daemon: &Arc<Daemon>) -> Result<Due, Failure> {
    if daemon.broken().is_some() {
        return Ok(Due { lease: None, assignment: None });
    }
    daemon.read(leases::due)
}

/// Drops what is long settled.
fn sweep(daemon: &Arc<Daemon>) -> Result<(), Failure> {
    if daemon.broken().is_some() {
        return Ok(());
    }
    let at = Arc::clone(daemon);
    daemon.write(move |tx| {
        let now = at.clock().now();
        let day = 24 * 60 * 60 * 1000;
        let leases = now.plus_ms(-LEASE_DAYS * day).stamp();
        let runs = now.plus_ms(-RUN_DAYS * day).stamp();
        for (sql, before) in [
            ("DELETE FROM lease WHERE settled_at < ?1", &leases),
            ("DELETE FROM run WHERE released_at < ?1", &runs),
        ] {
            crate::rows::change(tx, sql, [before])?;
        }
        crate::receipts::sweep(tx, &runs, &leases)
    })
}
