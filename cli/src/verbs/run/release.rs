//! `portreeve run release`.

use crate::report::Report;
use crate::session::Session;
use crate::values;
use portreeve_leases::{ReleaseRequest, ReleaseRun};
use portreeve_records::Id;
use portreeve_registry::Failure;

const AFTER: &str = "\
Example:
  portreeve run release 0198c0de-0000-7000-8000-000000000000";

/// Say that a run is over, after its server was stopped; refused while the server lives
///
/// No process is ended. The claim keeps its port. A server that dies is noticed without this.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The run's id, as `lease confirm` and `ports inspect` show it
    #[arg(value_parser = values::id)]
    run: Id,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let request = ReleaseRequest { run_id: args.run, if_stopped: Some(true) };
    let released = session.call::<ReleaseRun>(&request).await?;
    let text = if released.changed { "The run is released." } else { "The run was over already." };
    Ok(Report::done(&released, text).unless(released.changed))
}
