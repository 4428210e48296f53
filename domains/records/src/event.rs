//! History events, and who caused them.

use crate::Id;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Something that happened, in the order of commits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its id.
    pub id: Id,
    /// What happened: `lease.acquired`.
    pub event_type: String,
    /// What it happened to: `lease`.
    pub entity_type: String,
    /// Which one.
    pub entity_id: String,
    /// The facts of it.
    pub payload: Map<String, Value>,
    /// Who caused it. Attribution only: it grants and proves nothing.
    pub origin: Option<Origin>,
    /// When, UTC.
    pub occurred_at: String,
}

/// Who asked, by their own account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    /// Through what.
    pub kind: OriginKind,
    /// The bridge process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Id>,
    /// The host's label, 1 to 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<crate::Named>,
}

/// Through what somebody asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OriginKind {
    /// A client library.
    Library,
    /// The command line.
    Cli,
    /// The window.
    Desktop,
    /// An MCP bridge.
    Mcp,
}
