//! `portreeve status`.

use crate::report::Report;
use crate::session::{Session, VERSION};
use crate::table::facts;
use portreeve_diagnostics::Mode;
use portreeve_registry::Failure;
use serde_json::json;

const AFTER: &str = "\
Examples:
  portreeve status
  portreeve status --json | jq .data.daemon.pid";

/// Show whether the daemon answers, its version, and whether it fits this program
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {}

pub(crate) async fn run(Args {}: Args, session: &Session) -> Result<Report, Failure> {
    let found = session.client.compatibility().await?;
    let health = &found.health;
    let data = json!({
        "socket": session.places.socket.to_string_lossy(),
        "daemon": health,
        "client": {"softwareVersion": VERSION, "protocol": found.client_protocol},
        "compatible": found.speaks(),
        "missingCapabilities": found.missing,
    });
    let mode = match health.mode {
        Mode::Manual => "started by hand",
        Mode::Supervised => "supervised",
    };
    let spoken = |range: portreeve_diagnostics::ProtocolRange| match (range.minimum, range.maximum) {
        (only, most) if only == most => format!("protocol {only}"),
        (least, most) => format!("protocols {least} to {most}"),
    };
    let daemon = spoken(health.protocol);
    let client = spoken(found.client_protocol);
    let mut rows = vec![
        ("daemon", format!("{} ({daemon}), process {}, {mode}", health.software_version, health.pid)),
        ("socket", session.places.socket.to_string_lossy().into_owned()),
        ("program", format!("{VERSION} ({client})")),
    ];
    if let Some(store) = &health.store {
        rows.push(("store", format!("out of order: {store} (portreeve doctor)")));
    }
    if !found.missing.is_empty() {
        rows.push(("missing", format!("{} (restart the older side)", found.missing.join(", "))));
    }
    found.check("")?;
    Ok(Report::done(&data, facts(&rows)))
}
