//! The keeper of leases: wakes when the next lease ends, and only while there is one.

use crate::Daemon;
use crate::fault::of_sql;
use crate::leases;
use portreeve_registry::Failure;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long settled leases are kept, in days.
const LEASE_DAYS: i64 = 1;
/// How long released runs and settled receipts are kept, in days.
const RUN_DAYS: i64 = 7;
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
                Some(Duration::from_secs(5))
            }
            Err(_) => return,
        };
        match next {
            Some(wait) => tokio::time::sleep(wait).await,
            None => {
                daemon.idle.store(true, Ordering::Release);
                // A lease may have come between the look and the flag.
                if !matches!(pending(&daemon), Ok(None)) {
                    daemon.idle.store(false, Ordering::Release);
                    continue;
                }
                daemon.leases.notified().await;
            }
        }
    }
}

/// One round: extends after a gap, expires what is due, sweeps now and then. Answers how long to sleep.
fn round(daemon: &Arc<Daemon>, swept: Option<i64>) -> Result<(Option<Duration>, i64), Failure> {
    daemon.after_a_gap();
    let now = daemon.clock().boot_ms();
    daemon.awake.store(now, Ordering::Release);
    let mut next = pending(daemon)?;
    if next.is_some_and(|next| next <= now) || swept.is_none() {
        next = leases::expire_due(daemon)?;
    }
    let mut when = swept.unwrap_or(now);
    if swept.is_none() || now - when >= SWEEP_EVERY {
        sweep(daemon)?;
        when = now;
    }
    let ttl = i64::try_from(daemon.settings().lease_ttl_milliseconds).unwrap_or(i64::MAX);
    // Awake at least three times a lease time, so that a gap is seen as one.
    let wait = next.map(|next| (next - now).clamp(1, (ttl / 3).max(1)));
    Ok((wait.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(1))), when))
}

/// When the next pending lease ends.
fn pending(daemon: &Arc<Daemon>) -> Result<Option<i64>, Failure> {
    if daemon.broken().is_some() {
        return Ok(None);
    }
    daemon.read(|conn| {
        conn.prepare_cached("SELECT min(expires_boot_ms) FROM lease WHERE state = 'pending'")
            .and_then(|mut s| s.query_row((), |row| row.get(0)))
            .map_err(of_sql)
    })
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
