//! The daemon's one seam for time: wall clock, boot clock and boot id.
//!
//! Everything that expires is measured on the boot clock, which neither a changed wall clock nor a sleeping
//! machine cuts or stretches, and a stored boot-clock time means something only beside the boot id under which
//! it was read.
//! The wall clock is for people: it is shown and stored, and nothing is decided by it.
//! Deadlines of calls and timers of the runtime are not here.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// Where the daemon's times come from.
pub trait Clock: Send + Sync {
    /// The wall clock.
    fn wall(&self) -> Timestamp;

    /// Milliseconds since the machine booted, sleep included.
    fn boot_ms(&self) -> i64;

    /// What names this boot of the machine; constant for the life of the clock.
    fn boot_id(&self) -> &str;

    /// Both clocks, read one right after the other.
    fn now(&self) -> Moment {
        Moment { wall: self.wall(), boot_ms: self.boot_ms() }
    }
}

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// The boot clock, in milliseconds.
    pub boot_ms: i64,
}

impl Moment {
    /// The wall clock as the protocol and the store write it.
    #[must_use]
    pub fn stamp(&self) -> String {
        stamp(self.wall)
    }

    /// The moment `ms` milliseconds later on both clocks.
    ///
    /// The wall side stays where it is when the sum would leave the years that a timestamp can hold.
    #[must_use]
    pub fn plus_ms(&self, ms: i64) -> Self {
        Self {
            wall: self.wall.checked_add(SignedDuration::from_millis(ms)).unwrap_or(self.wall),
            boot_ms: self.boot_ms.saturating_add(ms),
        }
    }
}

/// A timestamp as protocol 1 writes it: UTC, exactly three decimals, `Z`.
///
/// Such texts sort as strings in the order of their times.
#[must_use]
pub fn stamp(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// The machine's own clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    boot_id: Arc<str>,
}

impl SystemClock {
    /// Reads the boot id once; the clocks are read at each question.
    ///
    /// # Errors
    /// The boot id cannot be read. Without it no stored time could be trusted after a restart.
    pub fn new() -> Result<Self, ClockError> {
        let id = boot_id()?;
        let id = id.trim();
        if id.is_empty() {
            return Err(ClockError::Empty);
        }
        Ok(Self { boot_id: id.into() })
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn wall(&self) -> Timestamp {
        // A clock set beyond the years that a timestamp can hold reads as the epoch; nothing is decided by it.
        Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn boot_ms(&self) -> i64 {
        let at = rustix::time::clock_gettime(BOOT_CLOCK);
        at.tv_sec.saturating_mul(1_000).saturating_add(at.tv_nsec / 1_000_000)
    }

    fn boot_id(&self) -> &str {
        &self.boot_id
    }
}

/// Counts on while the machine sleeps: `CLOCK_BOOTTIME` in clock_gettime(2).
#[cfg(target_os = "linux")]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;

/// Counts on while the machine sleeps: macOS's clock_gettime(3) says so of `CLOCK_MONOTONIC`
/// (the clock that stops there is `CLOCK_UPTIME_RAW`).
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[cfg(target_os = "linux")]
fn boot_id() -> Result<String, ClockError> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(ClockError::Unreadable)
}

/// `kern.bootsessionuuid`, not `kern.boottime`: that one moves when the wall clock is set.
#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "sysctlbyname(3) has no safe binding here")]
fn boot_id() -> Result<String, ClockError> {
    let mut text = [0_u8; 64];
    let mut length = text.len();
    // SAFETY: the name is NUL-terminated, and `length` holds the size of the buffer that is written to.
    let result = unsafe {
        libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            text.as_mut_ptr().cast(),
            &mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    if result != 0 {
        return Err(ClockError::Unreadable(std::io::Error::last_os_error()));
    }
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(length.min(text.len()));
    Ok(String::from_utf8_lossy(&text[..end]).into_owned())
}

/// The machine does not say which boot this is.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// The kernel's boot id could not be read.
    #[error("the kernel's boot id could not be read")]
    Unreadable(#[source] std::io::Error),
    /// The kernel's boot id is empty.
    #[error("the kernel's boot id is empty")]
    Empty,
}

/// A clock that stands still until it is told to move: for tests and rehearsals.
#[derive(Debug)]
pub struct SetClock {
    moment: Mutex<Moment>,
    boot_id: String,
}

impl SetClock {
    /// A clock that stands at `moment`, under a boot of the given name.
    #[must_use]
    pub fn new(moment: Moment, boot_id: impl Into<String>) -> Self {
        Self { moment: Mutex::new(moment), boot_id: boot_id.into() }
    }

    /// Time passes: both clocks move on.
    pub fn advance_ms(&self, ms: i64) {
        let mut moment = self.moment.lock().unwrap_or_else(PoisonError::into_inner);
        *moment = moment.plus_ms(ms);
    }

    /// Somebody sets the wall clock; the boot clock doesn't notice.
    pub fn set_wall(&self, wall: Timestamp) {
        self.moment.lock().unwrap_or_else(PoisonError::into_inner).wall = wall;
    }
}

impl Clock for SetClock {
    fn wall(&self) -> Timestamp {
        self.now().wall
    }

    fn boot_ms(&self) -> i64 {
        self.now().boot_ms
    }

    fn boot_id(&self) -> &str {
        &self.boot_id
    }

    fn now(&self) -> Moment {
        *self.moment.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_have_exactly_three_decimals() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_700_000_000_120, "2023-11-14T22:13:20.120Z"),
            (1_700_000_000_999, "2023-11-14T22:13:20.999Z"),
        ] {
            assert_eq!(stamp(Timestamp::from_millisecond(ms).expect("in range")), text);
        }
        let finer = Timestamp::from_nanosecond(1_700_000_000_999_999_999).expect("in range");
        assert_eq!(stamp(finer), "2023-11-14T22:13:20.999Z");
    }

    #[test]
    fn the_machines_clocks_agree_with_the_kernel() {
        let clock = SystemClock::new().expect("the kernel has a boot id");
        assert!(!clock.boot_id().is_empty() && !clock.boot_id().contains('\n'));
        let (first, second) = (clock.now(), clock.now());
        assert!(second.boot_ms >= first.boot_ms);
        #[cfg(target_os = "linux")]
        {
            let uptime = std::fs::read_to_string("/proc/uptime").expect("linux has an uptime");
            let seconds: f64 = uptime.split(' ').next().expect("a field").parse().expect("a number");
            assert!((seconds * 1_000.0 - second.boot_ms as f64).abs() < 5_000.0);
        }
    }

    #[test]
    fn a_set_clock_moves_only_when_told() {
        let start = Moment { wall: Timestamp::UNIX_EPOCH, boot_ms: 5 };
        let clock = SetClock::new(start, "one");
        assert_eq!(clock.now(), start);
        clock.advance_ms(1_500);
        assert_eq!((clock.now().stamp().as_str(), clock.boot_ms()), ("1970-01-01T00:00:01.500Z", 1_505));
        clock.set_wall(Timestamp::UNIX_EPOCH);
        assert_eq!((clock.wall(), clock.boot_ms()), (Timestamp::UNIX_EPOCH, 1_505));
    }
}
