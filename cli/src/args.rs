//! The command line as a whole: what every command takes.

use crate::verbs::Verb;
use clap::{ArgAction, Args, Parser};
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  portreeve serve                     run the daemon in this terminal
  portreeve tour                      see the whole story once, with a daemon of its own
  portreeve mcp setup --host codex    what to tell an agent's host
  portreeve ports list                who has which port

Exit status: 0 done, 10 nothing to change, 20 conflict or not found, 30 daemon unavailable,
40 incompatible, 50 invalid input, 70 internal error, 130 interrupted.";

/// A local authority for TCP ports: every agent's servers get ports of their own, and keep them.
#[derive(Debug, Parser)]
#[command(name = "portreeve", version, after_help = AFTER, propagate_version = true)]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The daemon's socket [default: portreeve.sock in the home; environment: PORTREEVE_SOCKET]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The directory of the daemon's records [default: the user's state directory; environment: PORTREEVE_HOME]
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) home: Option<PathBuf>,
    /// Print one JSON document, errors too
    #[arg(long, global = true, action = ArgAction::SetTrue)]
    pub(crate) json: bool,
}
