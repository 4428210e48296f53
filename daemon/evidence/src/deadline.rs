//! Until when a reading may go on.

use std::time::{Duration, Instant};

use crate::{Reading, Unknown, Why};

/// The moment after which a reading gives up and answers [`Unknown`].
///
/// It is looked at between system calls. A single call that the kernel doesn't come back from (a `stat` on a
/// dead mount, say) isn't interrupted by it, so readings belong on threads that may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub fn after(time: Duration) -> Self {
        let now = Instant::now();
        // An overflow means "longer than the machine will run"; a year is as good.
        Self(now.checked_add(time).unwrap_or(now + Duration::from_secs(31_536_000)))
    }

    /// At this instant.
    pub fn at(instant: Instant) -> Self {
        Self(instant)
    }

    /// The instant.
    pub fn instant(&self) -> Instant {
        self.0
    }

    /// What is left; zero once it has passed.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    pub fn passed(&self) -> bool {
        self.remaining().is_zero()
    }

    /// An error once it has passed, naming what was being read.
    pub(crate) fn check(&self, what: Reading) -> Result<(), Unknown> {
        if self.passed() { Err(Unknown::new(what, Why::Deadline)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_deadline_names_the_reading() {
        let deadline = Deadline::after(Duration::ZERO);
        assert_eq!(
            deadline.check(Reading::Descriptors),
            Err(Unknown::new(Reading::Descriptors, Why::Deadline))
        );
    }

    #[test]
    fn an_endless_deadline_does_not_overflow() {
        assert!(!Deadline::after(Duration::MAX).passed());
    }
}
