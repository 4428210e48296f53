//! Exit statuses: what a script can tell apart without reading.

use portreeve_registry::{Code, Failure};
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    /// There was nothing to change.
    Unchanged = 10,
    /// Somebody has it, or it isn't there.
    Conflict = 20,
    /// The daemon, or what it needs, isn't available.
    Unavailable = 30,
    Incompatible = 40,
    Invalid = 50,
    Internal = 70,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    pub(crate) fn of(failure: &Failure) -> Exit {
        match failure.code() {
            Code::InvalidInput | Code::InvalidLeaseToken | Code::InvalidOperationCredential => Exit::Invalid,
            Code::NotFound | Code::Conflict | Code::LeaseExpired | Code::LeaseNotPending => Exit::Conflict,
            Code::IncompatibleProtocol => Exit::Incompatible,
            Code::Unavailable => Exit::Unavailable,
            Code::Internal => Exit::Internal,
        }
    }

    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}
