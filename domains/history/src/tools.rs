//! The tools of this domain.

use crate::{HistoryFilter, ListHistory, Order};
use portreeve_records::{Event, Id};
use portreeve_registry::{Collection, Example, Page, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Narrows the history; all that are given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryListFilter {
    /// Only events of this type, such as lease.confirmed.
    #[schemars(length(min = 1, max = 128))]
    pub event_type: Option<String>,
    /// Only events of entities of this type, such as lease.
    #[schemars(length(min = 1, max = 128))]
    pub entity_type: Option<String>,
    /// Only events of this entity.
    #[schemars(length(min = 1, max = 4096))]
    pub entity_id: Option<String>,
    /// Only events from this time on, RFC 3339.
    #[schemars(length(min = 1, max = 64))]
    pub since: Option<String>,
    /// desc (default): newest first. asc: what came after afterCursor, oldest first.
    pub order: Option<Order>,
}

/// One event in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryItem {
    /// Its id.
    pub id: Id,
    /// What happened.
    pub event_type: String,
    /// What it happened to.
    pub entity_type: String,
    /// Which one.
    pub entity_id: String,
    /// The facts of it.
    pub payload: Map<String, Value>,
    /// Who caused it, by their own account.
    pub origin: Option<String>,
    /// When, UTC.
    pub occurred_at: String,
}

tool! {
    /// List what happened to claims, leases, runs and settings, newest first, and who caused it.
    /// To poll for changes, call again with order asc and the last pollCursor as afterCursor: no event is
    /// missed or seen twice; gap true means older ones were already pruned.
    pub collection HistoryList = "history_list"
}
impl Collection for HistoryList {
    type Listing = ListHistory;
    type Filter = HistoryListFilter;
    type Item = HistoryItem;
    const POLLED: bool = true;
    fn example() -> Example<HistoryListFilter> {
        Example::of(HistoryListFilter { entity_type: Some("lease".into()), ..HistoryListFilter::default() })
    }
    fn filter(filter: HistoryListFilter) -> HistoryFilter {
        HistoryFilter {
            event_type: filter.event_type,
            entity_type: filter.entity_type,
            entity_id: filter.entity_id,
            since: filter.since,
            order: filter.order.unwrap_or_default(),
        }
    }
    fn item(event: Event) -> HistoryItem {
        let origin = event.origin.map(|origin| {
            let kind = serde_json::to_value(origin.kind).ok().and_then(|k| k.as_str().map(str::to_owned));
            let kind = kind.unwrap_or_default();
            origin.label.map_or(kind.clone(), |label| format!("{kind} {label}"))
        });
        HistoryItem {
            id: event.id,
            event_type: event.event_type,
            entity_type: event.entity_type,
            entity_id: event.entity_id,
            payload: event.payload,
            origin,
            occurred_at: event.occurred_at,
        }
    }
    fn summary(page: &Page<HistoryItem>) -> String {
        match page.items() {
            [] => "No event matches.".to_owned(),
            [only] => format!("1 event: {} at {}.", only.event_type, only.occurred_at),
            [first, .., last] => {
                format!("{} events, {} to {}.", page.items().len(), first.occurred_at, last.occurred_at)
            }
        }
    }
}
