//! `portreeve ports`.

pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod reclaim;
pub(crate) mod unsafe_evict;

/// Look at ports: who has them, who listens on them
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    List(list::Args),
    Inspect(inspect::Args),
    Reclaim(reclaim::Args),
    UnsafeEvict(unsafe_evict::Args),
}
