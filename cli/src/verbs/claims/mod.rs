//! `portreeve claims`.

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod prune;
pub(crate) mod reassign;
pub(crate) mod show;

/// Look at claims and change them: which component of which worktree has which port
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    List(list::Args),
    Show(show::Args),
    Reassign(reassign::Args),
    Delete(delete::Args),
    Prune(prune::Args),
}
