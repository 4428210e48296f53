//! `portreeve completions`.

use crate::args::Cli;
use crate::report::Report;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use portreeve_registry::Failure;

const AFTER: &str = "\
Examples:
  portreeve completions bash > ~/.local/share/bash-completion/completions/portreeve
  portreeve completions zsh > ~/.zfunc/_portreeve
  portreeve completions fish > ~/.config/fish/completions/portreeve.fish";

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Report, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "portreeve", &mut script);
    let script = String::from_utf8_lossy(&script).trim_end().to_owned();
    Ok(Report::done(&script, script.clone()))
}

/// The command line without what its help hides: not every generator leaves that out by itself.
fn shown() -> Command {
    let whole = Cli::command();
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("portreeve").version("0").args(whole.get_arguments().cloned()).subcommands(verbs)
}
