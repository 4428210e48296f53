//! `portreeve ports`.

pub(crate) mod inspect;
pub(crate) mod list;

/// Look at ports: who has them, who listens on them
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    List(list::Args),
    Inspect(inspect::Args),
}
