//! `portreeve ports list`.

use crate::report::Report;
use crate::session::Session;
use crate::table::{or_dash, table};
use crate::values;
use portreeve_ports::{ListPorts, PortFilter, PortItem, PortsList};
use portreeve_records::{Classification, Named};
use portreeve_registry::{Collection as _, Failure};
use serde_json::{Value, json};
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  portreeve ports list
  portreeve ports list --unclaimed --listening
  portreeve ports list --workspace-root . --json

A state with a ? is what is known: something could not be read, so don't take the port for free.";

/// List the ports that are claimed, leased or listened on
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Only ports of this state: verified, idle, unclaimed, pending, conflicting, mixed or docker-managed
    #[arg(long, value_name = "STATE", value_parser = classification)]
    state: Option<Classification>,
    /// Only ports with a claim
    #[arg(long)]
    claimed: bool,
    /// Only ports without a claim
    #[arg(long, conflicts_with = "claimed")]
    unclaimed: bool,
    /// Only ports that somebody listens on
    #[arg(long)]
    listening: bool,
    /// Only ports that nobody listens on
    #[arg(long, conflicts_with = "listening")]
    silent: bool,
    /// Only ports claimed for this project
    #[arg(long, value_parser = values::name)]
    project: Option<Named>,
    /// Only ports claimed for this worktree
    #[arg(long, value_name = "DIRECTORY")]
    workspace_root: Option<PathBuf>,
    /// Only ports claimed for this component
    #[arg(long, value_parser = values::name)]
    component: Option<Named>,
    /// How many at most
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    limit: u32,
}

fn classification(text: &str) -> Result<Classification, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|_| "there is no such state".to_owned())
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let one_of = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
    let filter = PortFilter {
        classification: args.state,
        claimed: one_of(args.claimed, args.unclaimed),
        listening: one_of(args.listening, args.silent),
        project: args.project,
        workspace: values::workspace_to_find(args.workspace_root)?.map(|root| root.as_str().to_owned()),
        component: args.component,
        ..PortFilter::default()
    };
    let found = session.client.list::<ListPorts>(filter, args.limit as usize).await?;
    let data = json!({"items": found.rows, "more": found.more});
    let rows = found.rows.into_iter().map(|entry| row(&PortsList::item(entry))).collect();
    let headings = ["PORT", "STATE", "PROJECT", "COMPONENT", "WORKTREE", "LISTENER"];
    let mut text = table(&headings, rows, "No port matches.");
    if found.more {
        text.push_str("\nThere are more (--limit).");
    }
    Ok(Report::done(&data, text))
}

fn row(item: &PortItem) -> Vec<String> {
    let component = item.component.as_ref().map(|component| match &item.endpoint {
        Some(endpoint) if endpoint.as_str() != "default" => format!("{component}/{endpoint}"),
        _ => component.to_string(),
    });
    let state = item.classification.as_str();
    let state = if item.complete { state.to_owned() } else { format!("{state}?") };
    vec![
        item.port.to_string(),
        state,
        or_dash(item.project.as_ref()),
        or_dash(component),
        or_dash(item.workspace_root.as_ref()),
        or_dash(item.owner.as_ref()),
    ]
}
