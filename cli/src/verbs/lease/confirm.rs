//! `portreeve lease confirm`.

use super::file::From;
use crate::report::Report;
use crate::session::Session;
use crate::text::safe;
use crate::values;
use portreeve_client::LONGEST_WAIT;
use portreeve_leases::{ConfirmLease, ConfirmRequest};
use portreeve_records::Pid;
use portreeve_registry::Failure;

const AFTER: &str = "\
Examples:
  portreeve lease confirm --lease-file lease.json --root-pid 4711
  portreeve lease confirm --lease-file lease.json --root-pid $! --wait";

/// Prove by kernel evidence that a process tree serves a lease's port, and make it a run
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    lease: From,
    /// The root of the server's process tree
    #[arg(long, value_name = "PID", value_parser = values::pid)]
    root_pid: Pid,
    /// Wait up to 60 seconds for the server to listen, and renew the lease meanwhile
    #[arg(long)]
    wait: bool,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let lease = args.lease.read()?;
    let request = ConfirmRequest {
        lease_id: lease.lease_id,
        lease_token: lease.lease_token,
        root_pid: args.root_pid,
        answer_settled: Some(true),
    };
    let confirmed = if args.wait {
        session.client.confirm_when_listening(&request, LONGEST_WAIT).await?
    } else {
        session.call::<ConfirmLease>(&request).await?
    };
    let at = match confirmed.addresses.as_slice() {
        [] => String::new(),
        addresses => format!(" on {}", safe(&addresses.join(", "))),
    };
    let text = format!(
        "Port {} is served by process {}{at}.\nrun {}",
        confirmed.port, args.root_pid, confirmed.run_id
    );
    Ok(Report::done(&confirmed, text).unless(confirmed.changed.unwrap_or(true)))
}
