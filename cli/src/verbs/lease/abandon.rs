//! `portreeve lease abandon`.

use super::file::From;
use crate::report::Report;
use crate::session::Session;
use portreeve_leases::{AbandonLease, AbandonRequest};
use portreeve_records::AbandonReason;
use portreeve_registry::Failure;
use serde_json::Value;

const AFTER: &str = "\
Examples:
  portreeve lease abandon --lease-file lease.json
  portreeve lease abandon --lease-file lease.json --reason address-in-use    another port next time";

/// Give a lease's port back unused
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    lease: From,
    /// Why: client-cancelled, startup-error or address-in-use
    #[arg(long, default_value = "client-cancelled", value_parser = reason)]
    reason: AbandonReason,
}

fn reason(text: &str) -> Result<AbandonReason, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|_| "there is no such reason".to_owned())
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let lease = args.lease.read()?;
    let request = AbandonRequest {
        lease_id: lease.lease_id,
        lease_token: lease.lease_token,
        reason: args.reason,
        answer_settled: Some(true),
    };
    let abandoned = session.call::<AbandonLease>(&request).await?;
    let text = if abandoned.changed {
        format!("Port {} is given back.", lease.port)
    } else {
        "The lease was over already.".to_owned()
    };
    Ok(Report::done(&abandoned, text).unless(abandoned.changed))
}
