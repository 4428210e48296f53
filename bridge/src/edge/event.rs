//! What the edge dropped, refused or lost.
//!
//! Some of these are failures with a class of their own, some are no failure at all; none of them belongs to
//! a call that was accepted. This module names them; it doesn't decide where they are recorded.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ClientNotification};

/// One thing that happened to the transport.
///
/// The texts in it are cut short and hold no message contents beyond a method name, an id, or the position of a
/// syntax error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportEvent {
    /// A line that isn't JSON.
    NotJson {
        /// Where and why the parser stopped.
        detail: String,
    },
    /// A line that isn't UTF-8.
    NotUtf8 {
        /// The offset of the first bad byte.
        offset: usize,
    },
    /// JSON that isn't a JSON-RPC 2.0 message; if it carried an `id`, it was answered with -32600.
    NotJsonRpc {
        /// What is wrong with it.
        detail: String,
    },
    /// A line over [`MAX_LINE`](super::MAX_LINE); none of it was kept.
    TooLarge {
        /// The length of the whole line in bytes.
        bytes: u64,
    },
    /// Stdin ended in the middle of a message.
    PartialAtEof {
        /// How much of it had come.
        bytes: u64,
    },
    /// A request whose id belongs to a request that is not answered yet. It was dropped: an answer to it would
    /// be taken for the answer to the first one.
    DuplicateId {
        /// The id, as JSON.
        id: String,
    },
    /// A notification before the first request, or one that makes no sense here.
    StrayNotification {
        /// Its method.
        method: String,
    },
    /// A response, though the bridge never asks the host anything.
    StrayResponse,
    /// The host hasn't read stdout for this long, and an answer waits.
    OutputStalled {
        /// How long, at the moment of noticing.
        waited: Duration,
    },
    /// Stdout can't be written any more; this answer was lost.
    OutputFailed {
        /// The operating system's reason.
        reason: String,
        /// The id of the request whose answer was lost, as JSON.
        id: Option<String>,
    },
    /// A request came after stdout had failed; it was not accepted, since it could not be answered.
    Unanswerable {
        /// The id, as JSON.
        id: String,
    },
    /// A request was accepted and the house never answered it; the edge did, with -32603.
    Unanswered {
        /// The id, as JSON.
        id: String,
    },
}

impl TransportEvent {
    /// The event for a message that came before the first request.
    pub(super) fn stray(message: &ClientJsonRpcMessage) -> Self {
        let ClientJsonRpcMessage::Notification(notification) = message else {
            return Self::StrayResponse;
        };
        let method = match &notification.notification {
            ClientNotification::CancelledNotification(_) => "notifications/cancelled",
            ClientNotification::ProgressNotification(_) => "notifications/progress",
            ClientNotification::InitializedNotification(_) => "notifications/initialized",
            ClientNotification::RootsListChangedNotification(_) => "notifications/roots/list_changed",
            ClientNotification::CustomNotification(custom) => custom.method.as_str(),
            _ => "unknown",
        };
        Self::StrayNotification { method: cut(method) }
    }

    /// The failure class of this event, or `None` when it is no failure.
    pub fn class(&self) -> Option<&'static str> {
        match self {
            Self::NotJson { .. } | Self::NotUtf8 { .. } | Self::NotJsonRpc { .. } => {
                Some("stdio.malformed_message")
            }
            Self::TooLarge { .. } => Some("stdio.message_too_large"),
            Self::PartialAtEof { .. } => Some("stdio.partial_message_at_eof"),
            Self::DuplicateId { .. } => Some("stdio.duplicate_request_id"),
            Self::OutputFailed { .. } | Self::Unanswerable { .. } => Some("stdio.stdout_write_failed"),
            Self::OutputStalled { .. } => Some("stdio.stdout_backpressure"),
            Self::Unanswered { .. } => Some("stdio.stdin_eof"),
            Self::StrayNotification { .. } | Self::StrayResponse => None,
        }
    }
}

/// Where the edge's events go. Cheap to clone; must not block and must not write to stdout.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(TransportEvent) + Send + Sync>);

impl Notices {
    /// Hands every event to `sink`, on the runtime's thread.
    pub fn new(sink: impl Fn(TransportEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    pub(super) fn note(&self, event: TransportEvent) {
        (self.0)(event);
    }
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notices")
    }
}

/// Cuts a text that the host chose to a length that is safe to keep.
pub(super) fn cut(text: &str) -> String {
    const KEPT: usize = 120;
    match text.char_indices().nth(KEPT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = cut(&"ü".repeat(4000));
        assert_eq!(long.chars().count(), 121);
    }
}
