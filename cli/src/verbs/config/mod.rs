//! `portreeve config`.

pub(crate) mod get;
pub(crate) mod set;

/// The rules by which ports are handed out
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Get(get::Args),
    Set(set::Args),
}
