//! `portreeve doctor`.

mod checks;
mod repair;

use crate::args::Global;
use crate::exit::Exit;
use crate::report::Report;
use crate::session::{Session, VERSION};
use crate::table::facts;
use checks::{Check, State};
use portreeve_registry::Failure;
use serde_json::json;

const AFTER: &str = "\
Examples:
  portreeve doctor
  portreeve doctor --json
  portreeve stop; portreeve doctor --repair

--repair keeps the damaged files under a dated name, puts what can be read into a new store, and says by
table what was kept and what was lost. It needs the daemon to be stopped.";

/// Look at everything that PortReeve needs, and say what to do next; repair a damaged store
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Repair the store, after asking
    #[arg(long)]
    repair: bool,
    /// Don't ask
    #[arg(long, requires = "repair")]
    yes: bool,
}

pub(crate) async fn run(args: Args, global: &Global) -> Result<Report, Failure> {
    let session = Session::open(global)?;
    if args.repair {
        return repair::run(&session.places, args.yes);
    }
    let checks = [
        checks::program(),
        checks::places(&session.places),
        checks::daemon(&session).await,
        checks::store(&session.places),
        checks::evidence(),
        checks::containers(),
    ];
    let worst = checks.iter().map(|check| check.state).max().unwrap_or(State::Well);
    let next = checks.iter().filter(|check| check.state == worst).find_map(|check| check.next.clone());
    let next = next.unwrap_or_else(|| "nothing: all is well".to_owned());
    let data = json!({
        "version": VERSION,
        "checks": checks.iter().map(Check::describe).collect::<Vec<_>>(),
        "next": next,
    });
    let rows: Vec<(&str, String)> =
        checks.iter().map(|check| (check.name, format!("{:5} {}", check.state.word(), check.text))).collect();
    let exit = match worst {
        State::Well => Exit::Done,
        State::Away => Exit::Unavailable,
        State::Incompatible => Exit::Incompatible,
        State::Broken => Exit::Internal,
    };
    let text = format!("{}\n\nnext: {}", facts(&rows), crate::text::safe(&next));
    Ok(Report { exit, ..Report::done(&data, text) })
}
