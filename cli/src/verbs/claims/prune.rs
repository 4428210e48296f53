//! `portreeve claims prune`.

use crate::consent::{Consent, Shown, change};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::table::or_dash;
use portreeve_claims::{Age, PruneAction, PruneProposal, Pruned};
use portreeve_registry::{Failure, NoTarget};

const AFTER: &str = "\
Examples:
  portreeve claims prune --dry-run
  portreeve claims prune --older-than-days 30 --yes";

/// How many of each list are shown.
const SHOWN: u32 = 1000;
const DAY: u64 = 24 * 60 * 60 * 1000;

/// Delete the claims whose worktree's folder is gone
///
/// What is leased, served, listened on, or on a folder that merely can't be reached is skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Only claims that weren't used for so many days
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u64).range(0..=3652))]
    older_than_days: u64,
    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(args: Args, session: &Session, json: bool) -> Result<Report, Failure> {
    let age = Age::new(args.older_than_days * DAY).expect("at most 3652 days are under ten years");
    let request = PruneProposal { older_than_milliseconds: age, most_shown: Some(SHOWN) };
    change::<PruneAction>(
        session,
        args.consent,
        json,
        (request, NoTarget {}),
        |receipt| {
            let seen = &receipt.observed;
            let over = seen.candidates.is_empty().then_some(Exit::Unchanged);
            Shown { text: show(seen), over }
        },
        |done| {
            let totals = done.result.totals;
            let deleted = totals.map_or(done.result.deleted_claim_ids.len(), |totals| totals.deleted);
            (format!("{deleted} claims are deleted."), Exit::Done)
        },
    )
    .await
}

fn show(seen: &Pruned) -> String {
    let mut lines: Vec<String> = Vec::new();
    for candidate in &seen.candidates {
        let (claim, identity) = (&candidate.claim, &candidate.claim.identity);
        lines.push(format!(
            "- {}/{} of {}, port {}, last used {}",
            identity.component,
            identity.endpoint,
            identity.workspace_root,
            or_dash(claim.assigned_port),
            claim.last_used_at
        ));
    }
    let hidden = seen.totals.map_or(0, |totals| totals.candidates.saturating_sub(seen.candidates.len()));
    if hidden > 0 {
        lines.push(format!("- and {hidden} more"));
    }
    for skipped in &seen.skipped {
        lines.push(format!("  claim {} is skipped: {}", skipped.claim_id, skipped.reason));
    }
    if seen.candidates.is_empty() {
        lines.push("There is nothing to prune.".to_owned());
    }
    lines.join("\n")
}
