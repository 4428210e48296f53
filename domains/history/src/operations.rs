//! What the daemon answers of what happened.

use portreeve_records::Event;
use portreeve_registry::{Listing, Routine, Withheld, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// In which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Order {
    /// Newest first.
    #[default]
    Desc,
    /// Oldest first: what was committed after the cursor.
    Asc,
}

/// Which events to list. All that are given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryFilter {
    /// Only events of this type.
    pub event_type: Option<String>,
    /// Only events of entities of this type.
    pub entity_type: Option<String>,
    /// Only events of this entity.
    pub entity_id: Option<String>,
    /// Only events from this time on, RFC 3339.
    pub since: Option<String>,
    /// In which order.
    #[serde(default)]
    pub order: Order,
}

/// An event's place in the order of commits, and where the walk that came to it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HistoryKey(
    /// The event's number.
    pub i64,
    /// The newest event's number when the walk began: a poll goes on from there.
    pub i64,
);

/// Lists history events.
#[derive(Clone, Copy, Debug)]
pub enum ListHistory {}
impl Listing for ListHistory {
    const PATH: &'static str = "/v1/history";
    const CAPABILITY: &'static str = "observability-v1";
    const ALWAYS_PAGED: bool = true;
    type Class = Routine;
    type Filter = HistoryFilter;
    type Row = Event;
    type Key = HistoryKey;

    /// A poll goes on from a page of either order, so the order is no part of what a cursor is bound to.
    fn bound_filter(filter: &HistoryFilter) -> Value {
        json!([filter.event_type, filter.entity_type, filter.entity_id, filter.since])
    }
}
operation! { list ListHistory }

/// Which log entries: all of them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct LogFilter {}

/// One entry of the daemon's diagnostic log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogEntry {
    /// When, UTC.
    pub timestamp: String,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Which part of the daemon.
    pub component: String,
    /// What.
    pub message: String,
    /// The facts of it.
    pub details: Map<String, Value>,
}

/// Lists the daemon's diagnostic log: in the plain form the newest entries, oldest first.
#[derive(Clone, Copy, Debug)]
pub enum ListLogs {}
impl Listing for ListLogs {
    const PATH: &'static str = "/v1/logs";
    const CAPABILITY: &'static str = "observability-v1";
    const PLAIN_LIMIT: bool = true;
    const PLAIN_MAXIMUM: usize = 10_000;
    type Class = Withheld;
    type Filter = LogFilter;
    type Row = LogEntry;
    /// The entry's number.
    type Key = u64;
}
operation! { list ListLogs,
    because "raw logs hold what other programs put into messages; agents have history and diagnostics"
}
