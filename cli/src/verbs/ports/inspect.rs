//! `portreeve ports inspect`.

use crate::report::Report;
use crate::session::Session;
use crate::table::facts;
use crate::text::safe;
use crate::values;
use portreeve_ports::{GetPort, PortRef, PortsGet};
use portreeve_records::{Listener, OwnershipReason, PortNumber};
use portreeve_registry::{Failure, Read as _};

const AFTER: &str = "\
Examples:
  portreeve ports inspect 3000
  portreeve ports inspect 3000 --json";

/// Show everything known of one port, read from the kernel now
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The port
    #[arg(value_parser = values::port)]
    port: PortNumber,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let entry = session.call::<GetPort>(&PortRef { port: args.port }).await?;
    let mut rows = Vec::new();
    if let Some(claim) = &entry.claim {
        let identity = &claim.identity;
        rows.push(("claim", claim.id.to_string()));
        rows.push(("project", identity.project.to_string()));
        rows.push(("worktree", identity.workspace_root.to_string()));
        rows.push(("component", format!("{}/{}", identity.component, identity.endpoint)));
    }
    if let Some(lease) = &entry.lease {
        rows.push(("lease", format!("{} until {}", lease.id, lease.expires_at)));
    }
    if let Some(run) = &entry.run {
        let root = run.root_pid.map_or_else(String::new, |pid| format!(", root process {pid}"));
        rows.push(("run", format!("{} since {}{root}", run.id, run.confirmed_at)));
    }
    rows.extend(entry.listeners.iter().map(|listener| ("listener", listening(listener))));
    let unseen = |holder: &portreeve_records::HolderView| {
        ("holder", format!("a process of user {} on {} that can't be seen", holder.uid, holder.name))
    };
    rows.extend(entry.holders.iter().map(unseen));
    let summary = safe(&PortsGet::summary(&entry));
    let text = if rows.is_empty() { summary } else { format!("{summary}\n{}", facts(&rows)) };
    Ok(Report::done(&entry, text))
}

fn listening(listener: &Listener) -> String {
    let mut text = format!("process {} on {}", listener.pid, listener.names.join(", "));
    if let Some(process) = &listener.process {
        text.push_str(&format!(": {}", process.command));
        if !process.working_directory.is_empty() {
            text.push_str(&format!(" in {}", process.working_directory));
        }
    }
    text.push_str(match listener.ownership.reason {
        OwnershipReason::Verified => " (the run's own)",
        OwnershipReason::NoConfirmedRunEvidence => " (no confirmed run)",
        OwnershipReason::ProcessUnobservable => " (can't be looked into)",
        OwnershipReason::RootProcessChanged => " (the run's root is another process now)",
        OwnershipReason::NotInRunLineage => " (not of the run)",
    });
    text
}
