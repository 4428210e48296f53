//! `portreeve logs`.

use crate::report::Report;
use crate::session::Session;
use crate::text::safe;
use portreeve_history::{ListLogs, LogFilter};
use portreeve_registry::Failure;

const AFTER: &str = "\
Examples:
  portreeve logs
  portreeve logs --limit 1000 --json";

/// Show the newest entries of the daemon's own log, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// How many entries
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let entries = session.client.plain::<ListLogs>(LogFilter {}, Some(usize::from(args.limit))).await?;
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| {
            let mut line =
                format!("{} {:5} {}: {}", entry.timestamp, entry.level, entry.component, entry.message);
            for (name, value) in &entry.details {
                line.push_str(&format!(" {name}={value}"));
            }
            safe(&line)
        })
        .collect();
    let text = if lines.is_empty() { "The log is empty.".to_owned() } else { lines.join("\n") };
    Ok(Report::done(&entries, text))
}
