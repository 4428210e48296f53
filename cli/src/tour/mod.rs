//! `portreeve tour`: the main job on real input, told as it happens.
//!
//! Everything in it is real: a daemon of its own in a throwaway home, two bridges started as an agent's host
//! starts them, two worktrees, servers that are processes of their own, and the kernel's word on all of it.
//! Each act says what it expects; anything else ends the tour with an exit status that isn't 0.
//!
//! | file | its part |
//! | --- | --- |
//! | `story` | the acts |
//! | `agent` | an MCP client of one bridge, over stdio |
//! | `stage` | home, daemon, worktrees, and the first port |
//! | `children` | processes that end with the tour |
//! | `told` | the transcript, and what was expected |
//! | `server` | the server that agents start (a hidden command) |
//!
//! It ends the processes that it started, each by its own handle, and no others.

mod agent;
mod children;
pub(crate) mod server;
mod stage;
mod story;
mod told;

use crate::exit::Exit;
use crate::report::{self, Report, fault};
use portreeve_registry::Failure;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};
use told::{Ended, Told};

const AFTER: &str = "\
Example:
  portreeve tour

It takes a few seconds, and leaves nothing behind: a daemon of its own in a throwaway home, servers on
loopback only. Your own daemon and its records are not touched.";

/// See the whole story once: two agents, one port, and who gets what and why
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: Args, json: bool) -> ExitCode {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Told::new(!json, Arc::clone(&stop));
    match play(told, &stop) {
        Ok((told, ended)) => {
            let failed = matches!(ended, Ended::Unexpected(_));
            let exit = match &ended {
                Ended::WithTheStory => Exit::Done,
                Ended::Interrupted => Exit::Interrupted,
                Ended::Unexpected(_) => Exit::Internal,
            };
            if json {
                return report::print(
                    "tour",
                    true,
                    Ok(Report { exit, ..Report::done(&told.data(&ended), "") }),
                );
            }
            match ended {
                Ended::WithTheStory => report::end(report::out("\nAll of it went as expected."), exit),
                Ended::Interrupted => exit.code(),
                Ended::Unexpected(what) => {
                    debug_assert!(failed);
                    let text = crate::text::safe_lines(&format!("\nunexpected: {what}"));
                    report::end(report::err(&text), exit)
                }
            }
        }
        Err(failure) => report::print("tour", json, Err(failure)),
    }
}

/// Plays the story on a thread of its own, so that a signal is noticed whatever the story waits for.
fn play(told: Told, stop: &Arc<AtomicBool>) -> Result<(Told, Ended), Failure> {
    let failed = |error: std::io::Error| fault(format!("the tour can't begin: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut signals = Vec::new();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            signals.push(signal(kind).map_err(failed)?);
        }
        for mut signal in signals {
            let stop = Arc::clone(stop);
            tokio::spawn(async move {
                signal.recv().await;
                stop.store(true, Ordering::SeqCst);
            });
        }
        let story = tokio::task::spawn_blocking(move || {
            let mut told = told;
            let ended = match story::tell(&mut told) {
                Ok(()) => Ended::WithTheStory,
                Err(ended) => ended,
            };
            (told, ended)
        });
        story.await.map_err(|error| fault(format!("the tour broke off: {error}")))
    })
}
