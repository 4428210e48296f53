//! `portreeve ports unsafe-evict`.

use super::reclaim::end;
use crate::consent::{Consent, Decision};
use crate::report::Report;
use crate::session::Session;
use crate::text::safe_lines;
use crate::values;
use portreeve_ports::{EvictPort, EvictRequest, ExpectedProcess, ReclaimOutcome, ReclaimPolicy, Reclamation};
use portreeve_records::PortNumber;
use portreeve_registry::Failure;

const AFTER: &str = "\
Examples:
  portreeve ports unsafe-evict 3000 --unsafe-any-owner --dry-run
  portreeve ports unsafe-evict 3000 --unsafe-any-owner --policy force-after-grace

Only the processes that were shown are ended. No agent can reach this command's operation.";

/// End whoever holds a port, proved or not: for a person who knows whose it is
///
/// Shows first who holds it, and asks. Never ends PortReeve itself, this terminal or what is above them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The port
    #[arg(value_parser = values::port)]
    port: PortNumber,
    /// Say that it may be anybody's
    #[arg(long, required = true)]
    unsafe_any_owner: bool,
    /// How far it may go
    #[arg(long, value_enum, default_value = "graceful")]
    policy: Policy,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Policy {
    /// SIGTERM, and no more
    Graceful,
    /// SIGTERM, and SIGKILL once the grace has passed
    ForceAfterGrace,
}

pub(crate) async fn run(args: Args, session: &Session, json: bool) -> Result<Report, Failure> {
    let policy = match args.policy {
        Policy::Graceful => ReclaimPolicy::Graceful,
        Policy::ForceAfterGrace => ReclaimPolicy::ForceAfterGrace,
    };
    let mut request = EvictRequest {
        port: args.port,
        unsafe_any_owner: args.unsafe_any_owner,
        policy,
        dry_run: true,
        expected: None,
    };
    let seen = session.call::<EvictPort>(&request).await?;
    if seen.outcome != ReclaimOutcome::WouldTerminate {
        return Ok(report(&seen));
    }
    let mut text = format!("Port {} is held by:", args.port);
    for target in &seen.targets {
        let process = target.process.as_ref();
        let directory = process.map(|p| p.working_directory.as_str()).unwrap_or_default();
        let command = process.map(|p| p.command.as_str()).unwrap_or_default();
        let since = process.map(|p| p.start_time.as_str()).unwrap_or_default();
        text.push_str(&format!("\n- process {} {command} in {directory}, since {since}", target.pid));
    }
    if let Decision::Stop(report) = args.consent.ask(json, &seen, &text)? {
        return Ok(report);
    }
    request.dry_run = false;
    let expected = seen.targets.iter().filter_map(|target| {
        Some(ExpectedProcess { pid: target.pid, start_time: target.process.as_ref()?.start_time.clone() })
    });
    request.expected = Some(expected.collect());
    Ok(report(&session.call::<EvictPort>(&request).await?))
}

fn report(done: &Reclamation) -> Report {
    let port = done.port;
    let reason = done.reason.as_deref().unwrap_or("no reason given");
    let text = match done.outcome {
        ReclaimOutcome::AlreadyFree => format!("Port {port} was free already."),
        ReclaimOutcome::Terminated => format!("Port {port} is free."),
        ReclaimOutcome::WouldTerminate => format!("Whoever holds port {port} would be ended."),
        ReclaimOutcome::Timeout => format!("Port {port} is not free: {reason}."),
        ReclaimOutcome::Refused | ReclaimOutcome::LauncherActionRequired => {
            format!("Nothing was ended on port {port}: {reason}.")
        }
    };
    Report { exit: end(done.outcome), ..Report::done(done, safe_lines(&text)) }
}
