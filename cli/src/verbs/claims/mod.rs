//! `portreeve claims`.

pub(crate) mod list;
pub(crate) mod show;

/// Look at claims: which component of which worktree has which port
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    List(list::Args),
    Show(show::Args),
}
