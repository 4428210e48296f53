//! `portreeve lease`.

pub(crate) mod abandon;
pub(crate) mod acquire;
pub(crate) mod confirm;
mod file;
pub(crate) mod renew;

/// Hold a port, start a server on it, prove it; for scripts and launchers
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Acquire(acquire::Args),
    Renew(renew::Args),
    Confirm(confirm::Args),
    Abandon(abandon::Args),
}
