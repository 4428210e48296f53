//! `portreeve mcp serve`.

use crate::args::Global;
use crate::exit::Exit;
use crate::logging;
use crate::report::{self, fault};
use crate::values;
use portreeve_bridge::Toolset;
use portreeve_records::Named;
use std::process::ExitCode;

const AFTER: &str = "\
Examples:
  portreeve mcp serve --socket /home/me/.local/state/portreeve/portreeve.sock --label codex
  portreeve mcp serve --tools core

An agent's host starts this; `portreeve mcp setup` prints what to tell it.
Toolsets: all (the default), core (what a port needs), or domains: portreeve tools lists them.";

/// Serve MCP on standard input and output, for the agent's host that starts this
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Who this host is in history
    #[arg(long, value_parser = values::name)]
    label: Option<Named>,
    /// Which tools: names of toolsets, with commas between
    #[arg(long, value_name = "SETS", default_value = "all")]
    tools: Toolset,
}

/// Standard output belongs to the host: what goes wrong is said on stderr.
pub(crate) fn run(args: Args, global: Global) -> ExitCode {
    logging::to_stderr();
    let options = portreeve_bridge::Options {
        home: global.home,
        socket: global.socket,
        label: args.label,
        tools: args.tools,
    };
    match portreeve_bridge::serve(options) {
        Ok(()) => Exit::Done.code(),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            let failure = fault(format!("{error}{}", cause.unwrap_or_default()));
            report::print("mcp serve", false, Err(failure))
        }
    }
}
