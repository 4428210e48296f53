//! `portreeve claims reassign`.

use crate::consent::{Consent, Shown, change, diff};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::table::or_dash;
use crate::values;
use portreeve_claims::{ClaimRef, ReassignAction, ReassignRequest};
use portreeve_records::{Id, PortNumber};
use portreeve_registry::Failure;

const AFTER: &str = "\
Examples:
  portreeve claims reassign 0198c0de-0000-7000-8000-000000000000
  portreeve claims reassign 0198c0de-0000-7000-8000-000000000000 --exact-port 3100 --yes";

/// Give a claim another port, while nobody serves or leases it
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The claim's id, as `claims list` shows it
    #[arg(value_parser = values::id)]
    claim: Id,
    /// The port that you would like; another is given if it is taken
    #[arg(long, value_name = "PORT", value_parser = values::port)]
    preferred_port: Option<PortNumber>,
    /// The only port that will do
    #[arg(long, value_name = "PORT", value_parser = values::port, conflicts_with = "preferred_port")]
    exact_port: Option<PortNumber>,
    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(args: Args, session: &Session, json: bool) -> Result<Report, Failure> {
    let Args { claim, preferred_port, exact_port, consent } = args;
    let request = ReassignRequest { claim_id: claim, preferred_port, exact_port };
    change::<ReassignAction>(
        session,
        consent,
        json,
        (request, ClaimRef { claim_id: claim }),
        |receipt| {
            let seen = &receipt.observed;
            let identity = &seen.claim.identity;
            let whose =
                format!("{}/{} of {}", identity.component, identity.endpoint, identity.workspace_root);
            let line = |port: String, prefers: String, insists: String| {
                format!("port {port}, prefers {prefers}, insists on {insists}")
            };
            let before = line(
                or_dash(seen.claim.assigned_port),
                or_dash(seen.claim.preferred_port),
                or_dash(seen.claim.exact_port),
            );
            let after = line(seen.port.to_string(), or_dash(seen.preferred_port), or_dash(seen.exact_port));
            Shown { text: format!("{whose}\n{}", diff(before, after)), over: None }
        },
        |done| (format!("The claim has port {} now.", or_dash(done.result.assigned_port)), Exit::Done),
    )
    .await
}
