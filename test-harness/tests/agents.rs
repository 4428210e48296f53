//! The real bridge before the real daemon, driven as hosts drive it, with real servers; and the command line
//! beside both.
//!
//! What holds for every answer (the output schema, a failure's text and record, one answer to one call) is held
//! by the host itself: see `portreeve_test_harness::host`.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "tells which cases could not be run")]

#[path = "agents/arguments.rs"]
mod arguments;
#[path = "agents/away.rs"]
mod away;
#[path = "agents/canary.rs"]
mod canary;
#[path = "agents/command.rs"]
mod command;
#[path = "agents/crowd.rs"]
mod crowd;
#[path = "agents/custody.rs"]
mod custody;
#[path = "agents/envelope.rs"]
mod envelope;
#[path = "agents/failures.rs"]
mod failures;
#[path = "agents/flow.rs"]
mod flow;
#[path = "agents/lost.rs"]
mod lost;
#[path = "agents/pages.rs"]
mod pages;
#[path = "agents/repeats.rs"]
mod repeats;
#[path = "agents/setup.rs"]
mod setup;
#[path = "agents/support.rs"]
mod support;
#[path = "agents/usage.rs"]
mod usage;
