//! The bridge's one seam for time.
//!
//! Custody is measured on the boot clock, which neither a changed wall clock nor a sleeping machine cuts or
//! stretches. The wall clock is for showing when something ends or happened, and for reading how long the daemon
//! still gives a lease.

use jiff::{SignedDuration, Timestamp};

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

/// What the wall clock shows when the boot clock shows `boot`, if nobody sets it meanwhile.
pub(crate) fn stamp_at(boot: i64) -> String {
    let ahead = SignedDuration::from_millis(boot - boot_ms());
    let at = wall();
    format!("{:.3}", at.checked_add(ahead).unwrap_or(at))
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
        assert!((59_000..=60_001).contains(&until), "{until}");
        assert_eq!(ms_until("soon"), None);
    }
}
