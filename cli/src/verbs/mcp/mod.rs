//! `portreeve mcp`.

pub(crate) mod serve;
pub(crate) mod setup;

/// The bridge to agents' hosts
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Serve(serve::Args),
    Setup(setup::Args),
}
