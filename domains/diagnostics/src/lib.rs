//! Diagnostics: whether the daemon is there, what it can do, and what to do when it isn't.

#![warn(missing_docs)]

mod operations;
mod tools;

pub use operations::{GetHealth, Health, Mode, Nothing, ProtocolRange, StopServer, Stopped};
pub use tools::{
    BridgeState, DaemonState, DiagnosticsGet, DiagnosticsHealthGet, DiagnosticsOutput, Next, RecentFailure,
    Unreachable,
};

portreeve_registry::domain!("diagnostics");
