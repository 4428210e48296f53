//! `portreeve claims delete`.

use crate::consent::{Consent, Shown, change};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::table::or_dash;
use crate::values;
use portreeve_claims::{ClaimRef, DeleteAction};
use portreeve_records::Id;
use portreeve_registry::Failure;

const AFTER: &str = "\
Examples:
  portreeve claims delete 0198c0de-0000-7000-8000-000000000000
  portreeve claims delete 0198c0de-0000-7000-8000-000000000000 --yes";

/// Delete a claim, while nobody serves or leases it: its port goes back to everybody
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The claim's id, as `claims list` shows it
    #[arg(value_parser = values::id)]
    claim: Id,
    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(args: Args, session: &Session, json: bool) -> Result<Report, Failure> {
    let target = ClaimRef { claim_id: args.claim };
    change::<DeleteAction>(
        session,
        args.consent,
        json,
        (target, target),
        |receipt| {
            let claim = &receipt.observed.claim;
            let identity = &claim.identity;
            let text = format!(
                "- {}/{} of {}, port {}, last used {}",
                identity.component,
                identity.endpoint,
                identity.workspace_root,
                or_dash(claim.assigned_port),
                claim.last_used_at
            );
            Shown { text, over: None }
        },
        |_| ("The claim is deleted.".to_owned(), Exit::Done),
    )
    .await
}
