//! The one place where this crate reads a clock: the monotonic one, for deadlines and renewals.
//!
//! The wall clock isn't read at all: what it says can jump, and nothing here depends on the time of day.

use std::time::Duration;
use tokio::time::Instant;

/// The point in time that is `after` from now.
pub fn deadline(after: Duration) -> Instant {
    let now = Instant::now();
    // A duration beyond what the clock can express is as good as none: a year.
    now.checked_add(after).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3600))
}

/// Whether `at` has passed.
pub fn has_passed(at: Instant) -> bool {
    Instant::now() >= at
}
