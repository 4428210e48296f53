//! `portreeve ports reclaim`.

use crate::consent::{Consent, Shown, change};
use crate::exit::Exit;
use crate::report::Report;
use crate::session::Session;
use crate::values;
use portreeve_ports::{
    PortRef, PortsReclaim, ReclaimAction, ReclaimActionRequest, ReclaimOutcome, ReclaimPolicy, ReclaimShown,
};
use portreeve_records::PortNumber;
use portreeve_registry::{Change as _, Executed, Failure};
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  portreeve ports reclaim 3000 --dry-run
  portreeve ports reclaim 3000
  portreeve ports reclaim 3000 --force --yes

Only what a confirmed run proves is ended. Exit status 20: refused, or not free in time; 10: free already.";

/// Get a port back by ending the server that a confirmed run proves
///
/// Shows first whose server it is and which processes would be ended, and asks.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The port
    #[arg(value_parser = values::port)]
    port: PortNumber,
    /// The worktree whose server it is; another's is refused
    #[arg(long, value_name = "DIRECTORY")]
    workspace_root: Option<PathBuf>,
    /// Send SIGKILL to what is left after the grace
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(args: Args, session: &Session, json: bool) -> Result<Report, Failure> {
    let policy = if args.force { ReclaimPolicy::ForceAfterGrace } else { ReclaimPolicy::Graceful };
    let workspace_root = values::workspace_to_find(args.workspace_root)?;
    let request = ReclaimActionRequest { port: args.port, policy, workspace_root };
    let target = PortRef { port: args.port };
    change::<ReclaimAction>(
        session,
        args.consent,
        json,
        (request, target),
        |receipt| show(&PortsReclaim::shown(receipt.clone())),
        |done| {
            let exit = end(done.result.outcome);
            let done =
                Executed { changed: done.changed, replayed: done.replayed, result: done.result.clone() };
            let result = PortsReclaim::done(done.result);
            let signals: Vec<String> = result
                .signals
                .iter()
                .map(|s| {
                    format!("{} {:?} to {}", s.at, s.signal, s.pid)
                        .replace("Term", "SIGTERM")
                        .replace("Kill", "SIGKILL")
                })
                .collect();
            let done = Executed { changed: done.changed, replayed: done.replayed, result };
            let mut text = PortsReclaim::execute_summary(&done);
            for signal in signals {
                text.push_str(&format!("\n  {signal}"));
            }
            (text, exit)
        },
    )
    .await
}

fn show(shown: &ReclaimShown) -> Shown {
    let mut text = PortsReclaim::preview_summary(shown);
    for target in &shown.targets {
        let role = if target.listens { "listens on it" } else { "of the same tree" };
        text.push_str(&format!("\n- process {} {} ({role})", target.pid, target.command));
    }
    if shown.target_count > shown.targets.len() {
        text.push_str(&format!("\n- and {} more", shown.target_count - shown.targets.len()));
    }
    let over = (shown.outcome != ReclaimOutcome::WouldTerminate).then(|| end(shown.outcome));
    Shown { text, over }
}

/// How a command ends with this outcome.
pub(super) fn end(outcome: ReclaimOutcome) -> Exit {
    match outcome {
        ReclaimOutcome::Terminated | ReclaimOutcome::WouldTerminate => Exit::Done,
        ReclaimOutcome::AlreadyFree => Exit::Unchanged,
        ReclaimOutcome::Refused | ReclaimOutcome::Timeout | ReclaimOutcome::LauncherActionRequired => {
            Exit::Conflict
        }
    }
}
