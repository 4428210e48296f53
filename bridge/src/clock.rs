//! The bridge's one seam for time.
//!
//! Custody is measured on the boot clock, which neither a changed wall clock nor a sleeping machine cuts or
//! stretches. The wall clock is for showing when something ends or happened, and for reading how long the daemon
//! still gives a lease.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// Counts on while the machine sleeps: `CLOCK_BOOTTIME` in clock_gettime(2).
#[cfg(target_os = "linux")]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;

/// Counts on while the machine sleeps: so macOS's clock_gettime(3) says of `CLOCK_MONOTONIC`.
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// Milliseconds since the machine booted, sleep included.
pub(crate) fn boot_ms() -> i64 {
    let at = rustix::time::clock_gettime(BOOT_CLOCK);
    at.tv_sec.saturating_mul(1_000).saturating_add(at.tv_nsec / 1_000_000)
}

#[expect(clippy::disallowed_methods, reason = "this is the seam")]
fn wall() -> Timestamp {
    // A clock set beyond the years that a timestamp can hold reads as the epoch; nothing is decided by it.
    Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The wall clock as protocol 1 writes it: UTC, exactly three decimals, `Z`.
pub(crate) fn stamp() -> String {
    format!("{:.3}", wall())
}

/// How far the wall clock is ahead of the boot clock, in milliseconds.
///
/// The same answer until the wall clock is set: the two can't be read at one instant, and a time that is said
/// twice should read the same.
fn lead_ms() -> i64 {
    /// No two readings are further apart than this, unless the clock was set.
    const JITTER_MS: i64 = 50;
    static SAID: AtomicI64 = AtomicI64::new(i64::MIN);
    let lead = wall().as_millisecond() - boot_ms();
    let said = SAID.load(Ordering::Relaxed);
    if said != i64::MIN && (lead - said).abs() <= JITTER_MS {
        return said;
    }
    SAID.store(lead, Ordering::Relaxed);
    lead
}

/// What the wall clock shows when the boot clock shows `boot`, if nobody sets it meanwhile.
pub(crate) fn stamp_at(boot: i64) -> String {
    let at = Timestamp::from_millisecond(boot.saturating_add(lead_ms()));
    format!("{:.3}", at.unwrap_or_else(|_| wall()))
}

/// How many milliseconds there are until the time that the daemon wrote; `None` if it isn't a time.
pub(crate) fn ms_until(stamp: &str) -> Option<i64> {
    let at: Timestamp = stamp.parse().ok()?;
    Some(at.as_millisecond() - wall().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_agree() {
        let shown = stamp_at(boot_ms() + 60_000);
        assert_eq!(shown.len(), "1970-01-01T00:00:00.000Z".len());
        let until = ms_until(&shown).expect("a time");
        assert!((59_000..=60_050).contains(&until), "{until}");
        assert_eq!(ms_until("soon"), None);
    }

    #[test]
    fn a_time_that_is_said_again_reads_the_same() {
        let boot = boot_ms() + 60_000;
        let first = stamp_at(boot);
        assert!((0..10_000).all(|_| stamp_at(boot) == first));
    }
}
