//! What the kernel really says, asked with real sockets and real processes.
//!
//! Runs as any user, also one whose home can't be written; a case that needs root and can't have it prints
//! `not run (needs root): NAME`. As root the whole is run again as an unprivileged user.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "tells which cases could not be run")]

#[path = "evidence/actor.rs"]
mod actor;
#[path = "evidence/holders.rs"]
mod holders;
#[path = "evidence/isolation.rs"]
mod isolation;
#[path = "evidence/ports.rs"]
mod ports;
#[path = "evidence/processes.rs"]
mod processes;
#[path = "evidence/restricted.rs"]
mod restricted;
#[path = "evidence/support.rs"]
mod support;
