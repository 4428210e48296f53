//! `portreeve stop`.

use crate::report::Report;
use crate::session::Session;
use portreeve_diagnostics::{Nothing, StopServer};
use portreeve_registry::{Failure, FailureClass};
use serde_json::json;
use std::time::Duration;

const AFTER: &str = "\
Examples:
  portreeve stop
  portreeve stop && portreeve serve      after an update";

/// How often it is looked whether the daemon is gone.
const LOOK: Duration = Duration::from_millis(5);
/// How long that is waited for.
const LOOKS: u32 = 1000;

/// Stop the daemon; servers go on, and claims keep their ports
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {}

pub(crate) async fn run(Args {}: Args, session: &Session) -> Result<Report, Failure> {
    let away = [FailureClass::DaemonSocketAbsent, FailureClass::DaemonNotListening];
    let none = || Report::done(&json!({"changed": false}), "No daemon is running.").unless(false);
    let stopped = match session.call::<StopServer>(&Nothing {}).await {
        Ok(stopped) => stopped,
        Err(failure) if away.contains(&failure.class) => return Ok(none()),
        Err(failure) => return Err(failure),
    };
    for _ in 0..LOOKS {
        if session.client.compatibility().await.is_err_and(|failure| away.contains(&failure.class)) {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(Report::done(&stopped, "The daemon is stopped."))
}
