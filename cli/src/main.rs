//! The one binary: thin commands through the client; `serve` is the daemon, `mcp serve` the bridge.
//!
//! A command parses its arguments, asks the daemon through [`portreeve_client`], and gives a [`report::Report`]:
//! the data, the text for people and the exit status.
//! [`report`] is the only place that writes to stdout and stderr.
//! No command decides anything about ports.

mod args;
mod consent;
mod exit;
mod logging;
mod report;
mod session;
mod table;
mod text;
mod tour;
mod values;
mod verbs;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match args::Cli::try_parse() {
        Ok(cli) => verbs::run(cli),
        Err(error) => report::usage(&error, report::json_was_asked_for(std::env::args_os())),
    }
}
