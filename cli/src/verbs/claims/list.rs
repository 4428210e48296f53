//! `portreeve claims list`.

use crate::report::Report;
use crate::session::Session;
use crate::table::{or_dash, table};
use crate::values;
use portreeve_claims::{ClaimFilter, ListClaims};
use portreeve_records::{Claim, Named};
use portreeve_registry::Failure;
use serde_json::json;
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  portreeve claims list
  portreeve claims list --project shop --json
  portreeve claims list --workspace-root .";

/// List claims and the ports they have
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Only claims of this project
    #[arg(long, value_parser = values::name)]
    project: Option<Named>,
    /// Only claims of this worktree
    #[arg(long, value_name = "DIRECTORY")]
    workspace_root: Option<PathBuf>,
    /// Only claims of this component
    #[arg(long, value_parser = values::name)]
    component: Option<Named>,
    /// Only claims of this endpoint
    #[arg(long, value_parser = values::name)]
    endpoint: Option<Named>,
    /// How many at most
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let filter = ClaimFilter {
        project: args.project,
        workspace_root: values::workspace_to_find(args.workspace_root)?.map(|root| root.as_str().to_owned()),
        component: args.component,
        endpoint: args.endpoint,
    };
    let found = session.client.list::<ListClaims>(filter, args.limit as usize).await?;
    let headings = ["PORT", "PROJECT", "COMPONENT", "ENDPOINT", "MODE", "WORKTREE", "CLAIM"];
    let mut text = table(&headings, found.rows.iter().map(row).collect(), "No claim matches.");
    if found.more {
        text.push_str("\nThere are more (--limit).");
    }
    Ok(Report::done(&json!({"items": found.rows, "more": found.more}), text))
}

fn row(claim: &Claim) -> Vec<String> {
    let identity = &claim.identity;
    vec![
        or_dash(claim.assigned_port),
        identity.project.to_string(),
        identity.component.to_string(),
        identity.endpoint.to_string(),
        claim.mode.as_str().to_owned(),
        identity.workspace_root.to_string(),
        claim.id.to_string(),
    ]
}
