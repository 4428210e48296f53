//! `portreeve lease renew`.

use super::file::From;
use crate::report::Report;
use crate::session::Session;
use crate::text::safe;
use portreeve_leases::{RenewLease, RenewRequest};
use portreeve_registry::Failure;

const AFTER: &str = "\
Example:
  portreeve lease renew --lease-file lease.json";

/// Hold a lease's port for another lease time
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    lease: From,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let lease = args.lease.read()?;
    let request = RenewRequest { lease_id: lease.lease_id, lease_token: lease.lease_token };
    let renewed = session.call::<RenewLease>(&request).await?;
    let text = format!("Port {} is held until {}.", lease.port, safe(&renewed.expires_at));
    Ok(Report::done(&renewed, text))
}
