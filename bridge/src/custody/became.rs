//! What became of a handle whose credential is wiped, and how that is said.

use portreeve_registry::{Answer, Failure, FailureClass};
use serde_json::{Map, Value};

/// Why a renewal failed.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    pub(super) class: FailureClass,
    pub(super) message: String,
}

/// What became of a handle.
#[derive(Debug)]
pub(super) enum Became {
    /// A transition succeeded, with this result.
    Settled { tool: String, arguments: Map<String, Value>, answer: Answer },
    /// A transition of another handle of the group ended this one too.
    SettledBeside { tool: String },
    /// Its window ended.
    WindowEnded,
    /// What it opened is gone, because renewing it failed.
    Lost(Trouble),
}

impl Became {
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Settled { tool, answer, .. } => Failure::new(
                FailureClass::CustodySettled,
                format!("this handle was settled by {tool}: {}", answer.summary),
            )
            .detail("settledBy", tool.as_str()),
            Self::SettledBeside { tool } => Failure::new(
                FailureClass::CustodySettled,
                format!("this handle was settled when {tool} settled another one of its activation"),
            )
            .detail("settledBy", tool.as_str()),
            Self::WindowEnded => Failure::new(
                FailureClass::CustodyWindowEnded,
                "the time for which this handle was held is over",
            ),
            Self::Lost(trouble) => trouble.failure(),
        }
    }
}

impl Trouble {
    pub(super) fn failure(&self) -> Failure {
        Failure::new(
            FailureClass::CustodyRenewalFailed,
            format!("what this handle opened is gone, because renewing it failed: {}", self.message),
        )
        .detail("cause", self.class.as_str())
    }
}

pub(super) fn unknown() -> Failure {
    Failure::new(FailureClass::CustodyHandleUnknown, "this bridge holds no credential under that handle")
}

/// Whether the daemon says that there is nothing to renew any more.
pub(super) fn is_gone(class: FailureClass) -> bool {
    matches!(
        class,
        FailureClass::LeaseExpired
            | FailureClass::LeaseNotPending
            | FailureClass::NotFound
            | FailureClass::CredentialMismatch
            | FailureClass::OperationCredentialMismatch
    )
}
