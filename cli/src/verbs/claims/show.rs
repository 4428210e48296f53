//! `portreeve claims show`.

use crate::report::Report;
use crate::session::Session;
use crate::table::{facts, or_dash};
use crate::values;
use portreeve_claims::{ClaimRef, GetClaim};
use portreeve_records::Id;
use portreeve_registry::Failure;

const AFTER: &str = "\
Example:
  portreeve claims show 0198c0de-0000-7000-8000-000000000000";

/// Show one claim
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The claim's id, as `claims list` shows it
    #[arg(value_parser = values::id)]
    claim: Id,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let claim = session.call::<GetClaim>(&ClaimRef { claim_id: args.claim }).await?;
    let identity = &claim.identity;
    let mut rows = vec![
        ("claim", claim.id.to_string()),
        ("project", identity.project.to_string()),
        ("worktree", identity.workspace_root.to_string()),
        ("component", format!("{}/{}", identity.component, identity.endpoint)),
        ("mode", claim.mode.as_str().to_owned()),
        ("port", or_dash(claim.assigned_port)),
        ("prefers", or_dash(claim.preferred_port)),
        ("insists on", or_dash(claim.exact_port)),
        ("made", claim.created_at.clone()),
        ("last used", claim.last_used_at.clone()),
    ];
    if let Some(end) = &claim.assignment_expires_at {
        rows.push(("port until", end.clone()));
    }
    let text = facts(&rows);
    Ok(Report::done(&claim, text))
}
