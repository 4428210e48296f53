//! What a tool answers: its fields, and the envelope that its kind adds.

use serde_json::{Map, Value};

/// An answer, complete: what becomes structured content.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// One or two sentences that stand alone.
    pub summary: String,
    /// The output's fields, with `summary` and what else the kind adds.
    pub content: Map<String, Value>,
}

impl Answer {
    pub(crate) fn new(summary: String, mut content: Map<String, Value>) -> Answer {
        content.insert("summary".into(), summary.as_str().into());
        Answer { summary, content }
    }

    /// The answer with `changed: false`, for a repeat of what was already done.
    pub fn unchanged(mut self) -> Answer {
        if let Some(changed) = self.content.get_mut("changed") {
            *changed = false.into();
        }
        self
    }
}

/// A page for an agent, still to be cut to size.
#[derive(Debug)]
pub struct Listed {
    /// The answer for all items that arrived.
    pub answer: Answer,
    /// The size of each item as compact JSON, in bytes.
    pub sizes: Vec<usize>,
}

/// What a spend brought.
#[derive(Debug)]
pub struct Spent {
    /// The answer.
    pub answer: Answer,
    /// The subjects of the group that are still pending, where the operation settles siblings.
    pub pending: Option<Vec<String>>,
}
