//! How faults of the rooms below become failures on the wire.

use crate::store::{StoreError, WriteError};
use portreeve_evidence::Unknown;
use portreeve_registry::{Failure, FailureClass};
use std::error::Error as _;

/// A store's fault.
pub(crate) fn of_store(error: &StoreError) -> Failure {
    let class = match error {
        StoreError::Busy(_) | StoreError::Undone => FailureClass::StoreBusy,
        StoreError::Full(_) => FailureClass::StoreFull,
        StoreError::ReadOnly(_) | StoreError::Io(_) => FailureClass::StoreIoError,
        StoreError::Corrupt { .. } | StoreError::NotOurs(_) => FailureClass::StoreCorrupt,
        StoreError::SchemaNewer { .. } => FailureClass::StoreSchemaNewer,
        StoreError::Closed => FailureClass::DaemonStopping,
        StoreError::Sql(_) => FailureClass::DaemonInternal,
    };
    let message = match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    Failure::new(class, message)
}

/// A refused, panicked or failed write.
pub(crate) fn of_write(error: WriteError<Failure>) -> Failure {
    match error {
        WriteError::Refused(failure) => failure,
        WriteError::Panicked(text) => {
            Failure::new(FailureClass::DaemonInternal, format!("PortReeve met a fault of its own: {text}"))
                .outcome(portreeve_registry::Outcome::NotApplied)
        }
        WriteError::Store(error) => of_store(&error),
    }
}

/// A fact that could not be read.
pub(crate) fn of_evidence(unknown: &Unknown) -> Failure {
    Failure::new(FailureClass::EvidenceUnavailable, format!("evidence could not be read: {unknown}"))
}

/// A statement's fault inside a transaction or snapshot.
pub(crate) fn of_sql(error: rusqlite::Error) -> Failure {
    of_store(&StoreError::from(error))
}

/// Something that isn't there.
pub(crate) fn not_found(what: &str, id: impl std::fmt::Display, lister: &str, command: &str) -> Failure {
    Failure::new(FailureClass::NotFound, format!("{what} {id} was not found."))
        .next("list what there is")
        .by(Some(lister), Some(command.to_owned()))
}

/// An input that the type let through and a rule refuses.
pub(crate) fn invalid(path: &[&str], code: &'static str, message: impl Into<String>) -> Failure {
    let path = path.iter().map(|step| (*step).into()).collect();
    portreeve_registry::Issue { code, message: message.into(), path }
        .failure(FailureClass::DaemonInvalidInput)
}
