//! `portreeve history`.

use crate::report::Report;
use crate::session::Session;
use crate::table::table;
use portreeve_history::{HistoryFilter, ListHistory, Order};
use portreeve_records::{Event, OriginKind};
use portreeve_registry::Failure;
use serde_json::json;

const AFTER: &str = "\
Examples:
  portreeve history
  portreeve history --entity-type run --limit 20
  portreeve history --event-type run.released --since 2026-01-01T00:00:00Z --json";

/// Show what happened to claims, leases, runs and settings, newest first, and who caused it
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// How many events
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Only events of this type, such as lease.confirmed
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Only events of entities of this type, such as claim, lease or run
    #[arg(long, value_name = "TYPE")]
    entity_type: Option<String>,
    /// Only events of this entity
    #[arg(long, value_name = "ID")]
    entity_id: Option<String>,
    /// Only events from this time on (RFC 3339)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let filter = HistoryFilter {
        event_type: args.event_type,
        entity_type: args.entity_type,
        entity_id: args.entity_id,
        since: args.since,
        order: Order::Desc,
    };
    let found = session.client.list::<ListHistory>(filter, args.limit as usize).await?;
    let data = json!({"items": found.rows, "more": found.more, "pollCursor": found.poll_cursor});
    let rows = found.rows.iter().map(row).collect();
    let mut text = table(&["WHEN", "EVENT", "ENTITY", "WHO", "FACTS"], rows, "No event matches.");
    if found.more {
        text.push_str("\nThere are older events (--limit).");
    }
    Ok(Report::done(&data, text))
}

fn row(event: &Event) -> Vec<String> {
    let who = event.origin.as_ref().map_or_else(
        || "daemon".to_owned(),
        |origin| {
            let kind = match origin.kind {
                OriginKind::Library => "library",
                OriginKind::Cli => "cli",
                OriginKind::Desktop => "desktop",
                OriginKind::Mcp => "mcp",
            };
            origin.label.as_ref().map_or_else(|| kind.to_owned(), |label| format!("{kind} {label}"))
        },
    );
    let facts: Vec<String> = ["port", "rootPid", "reason", "expiresAt"]
        .into_iter()
        .filter_map(|name| Some((name, event.payload.get(name)?)))
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name} {text}"),
            None => format!("{name} {value}"),
        })
        .collect();
    let entity = format!("{} {}", event.entity_type, event.entity_id);
    vec![event.occurred_at.clone(), event.event_type.clone(), entity, who, facts.join(", ")]
}
