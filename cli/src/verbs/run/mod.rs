//! `portreeve run`.

pub(crate) mod release;

/// Runs: servers that were confirmed on their ports
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Release(release::Args),
}
