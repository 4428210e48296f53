//! What failed lately: each failure is recorded here once, as it is answered.
//!
//! Kept in memory and bounded, for `diagnostics_get`. What is kept holds no arguments, handles or contents.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use portreeve_registry::{Failure, RequestId};

use crate::clock;
use crate::edge::TransportEvent;

/// Failures that are kept; the oldest go first.
const MOST: usize = 64;

/// One failure, as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// When, UTC.
    pub(crate) at: String,
    /// The call's request id.
    pub(crate) request_id: String,
    /// The tool; empty for what belongs to no call.
    pub(crate) tool: String,
    /// The class.
    pub(crate) class: &'static str,
    /// What happened, for people.
    pub(crate) message: String,
}

/// The failures of this bridge, newest last.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<VecDeque<Recorded>>);

impl Record {
    /// Records the failure that a call is answered with.
    pub(crate) fn failed(&self, request_id: RequestId, tool: &str, failure: &Failure) {
        tracing::warn!(%request_id, tool, class = %failure.class, outcome = %failure.outcome, "a call failed");
        self.keep(request_id.to_string(), tool, failure.class.as_str(), failure.message.clone());
    }

    /// Records what happened to the transport, beside any call.
    pub(crate) fn transport(&self, event: &TransportEvent) {
        match event.class() {
            Some(class) => {
                tracing::warn!(?event, class, "a transport event");
                self.keep(RequestId::fresh().to_string(), "", class, format!("{event:?}"));
            }
            None => tracing::debug!(?event, "a transport event"),
        }
    }

    /// The newest, newest first.
    pub(crate) fn newest(&self, most: usize) -> Vec<Recorded> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().rev().take(most).cloned().collect()
    }

    fn keep(&self, request_id: String, tool: &str, class: &'static str, message: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MOST {
            kept.pop_front();
        }
        kept.push_back(Recorded { at: clock::stamp(), request_id, tool: tool.to_owned(), class, message });
    }
}
