//! The bridge's end: why it began, and how long calls may still take.
//!
//! A value shared by everybody who has to do something when the bridge ends: the reader stops, the server answers
//! what is open, custody gives its leases back. This module only tells them; it ends nothing itself.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

pub use super::parent::Parent;

/// Why the bridge ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The host closed stdin: calls in flight get one second.
    StdinEnded,
    /// A signal asked for it (SIGTERM, SIGHUP or SIGINT): 300 ms.
    Signal(&'static str),
    /// The process that started the bridge is gone: 300 ms.
    ParentGone,
}

impl Reason {
    /// How long a call in flight may still take.
    pub fn grace(self) -> Duration {
        match self {
            Self::StdinEnded => Duration::from_secs(1),
            Self::Signal(_) | Self::ParentGone => Duration::from_millis(300),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StdinEnded => f.write_str("the host closed stdin"),
            Self::Signal(name) => write!(f, "the bridge was ended by {name}"),
            Self::ParentGone => f.write_str("the process that started the bridge is gone"),
        }
    }
}

/// The end that has begun.
#[derive(Debug, Clone, Copy)]
struct End {
    reason: Reason,
    grace_over: Instant,
}

/// Whether the bridge is ending. Clones share one state; it never goes back.
#[derive(Debug, Clone)]
pub struct Closing {
    end: watch::Sender<Option<End>>,
}

impl Default for Closing {
    fn default() -> Self {
        Self::new()
    }
}

impl Closing {
    /// A bridge that isn't ending.
    pub fn new() -> Self {
        Self { end: watch::Sender::new(None) }
    }

    /// Begins the end, with the grace that belongs to the reason.
    /// A later reason can only shorten the grace; the first one stays the reason.
    pub fn begin(&self, reason: Reason) {
        self.begin_within(reason, reason.grace());
    }

    pub(super) fn begin_within(&self, reason: Reason, grace: Duration) {
        let grace_over = Instant::now() + grace;
        self.end.send_if_modified(|end| match end {
            Some(end) if end.grace_over <= grace_over => false,
            Some(end) => {
                end.grace_over = grace_over;
                true
            }
            None => {
                *end = Some(End { reason, grace_over });
                true
            }
        });
    }

    /// The reason, once the end has begun.
    pub fn reason(&self) -> Option<Reason> {
        (*self.end.borrow()).map(|end| end.reason)
    }

    /// Waits until the end has begun.
    pub async fn begun(&self) {
        self.first_end().await;
    }

    /// Waits until no call may take any longer.
    pub async fn grace_over(&self) -> Reason {
        self.over_by(Duration::ZERO).await
    }

    /// Waits until the grace has been over for `margin`.
    pub(super) async fn overdue(&self, margin: Duration) {
        self.over_by(margin).await;
    }

    async fn over_by(&self, margin: Duration) -> Reason {
        let mut end = self.first_end().await;
        let mut changes = self.end.subscribe();
        loop {
            if let Some(latest) = *changes.borrow_and_update() {
                end = latest;
            }
            tokio::select! {
                () = tokio::time::sleep_until(end.grace_over + margin) => return end.reason,
                // The sender is this value's own, so the only change is a shorter grace.
                _ = changes.changed() => {}
            }
        }
    }

    async fn first_end(&self) -> End {
        let mut changes = self.end.subscribe();
        let end = changes.wait_for(Option::is_some).await.expect("the sender is this value's own");
        end.expect("waited for some")
    }
}

/// Begins `closing` on SIGTERM, SIGHUP, SIGINT and on the end of `parent`.
///
/// # Errors
/// When the signal handlers can't be installed.
pub fn watch(closing: &Closing, parent: Parent) -> io::Result<()> {
    for (kind, name) in [
        (SignalKind::terminate(), "SIGTERM"),
        (SignalKind::hangup(), "SIGHUP"),
        (SignalKind::interrupt(), "SIGINT"),
    ] {
        let mut signals = signal(kind)?;
        let closing = closing.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                closing.begin(Reason::Signal(name));
            }
        });
    }
    let closing = closing.clone();
    tokio::spawn(async move {
        parent.ended().await;
        closing.begin(Reason::ParentGone);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_later_reason_shortens_the_grace_and_never_lengthens_it() {
        let closing = Closing::new();
        assert_eq!(closing.reason(), None);
        closing.begin_within(Reason::StdinEnded, Duration::from_secs(3600));
        let waiting = tokio::spawn({
            let closing = closing.clone();
            async move { closing.grace_over().await }
        });
        tokio::task::yield_now().await;
        closing.begin_within(Reason::Signal("SIGTERM"), Duration::ZERO);
        closing.begin_within(Reason::ParentGone, Duration::from_secs(3600));
        assert_eq!(waiting.await.unwrap(), Reason::StdinEnded);
    }
}
