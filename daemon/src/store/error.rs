//! What can go wrong with the store, told apart by what a caller would do about it.
//!
//! Nothing here knows the failure taxonomy of the wire; whoever answers maps these variants to it.

use std::sync::Arc;

use rusqlite::ffi::ErrorCode;

/// Why the store did not do what it was asked.
///
/// Cloned to each request of a group that failed together.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another connection holds the store and did not let go within the busy time.
    #[error("the store is busy")]
    Busy(#[source] Cause),
    /// The disk or a quota is full. Nothing was applied; reading goes on.
    #[error("the disk under the store is full")]
    Full(#[source] Cause),
    /// The file, its directory or its file system can't be written.
    #[error("the store can't be written")]
    ReadOnly(#[source] Cause),
    /// The operating system failed a read, a write or a sync.
    #[error("the disk under the store fails")]
    Io(#[source] Cause),
    /// What is in the file is not a whole store of ours. `what` says how that was seen.
    #[error("the store is damaged: {what}")]
    Corrupt {
        /// What was found, as a fragment.
        what: String,
        /// The engine's own word on it, where it was the engine that noticed.
        #[source]
        source: Option<Cause>,
    },
    /// The store was written by a newer PortReeve. It was left as it was.
    #[error("the store has schema {found}, and this version knows up to {known}")]
    SchemaNewer {
        /// The schema in the file.
        found: i64,
        /// The newest schema that this version knows.
        known: i64,
    },
    /// The file is a SQLite database of another program. It was left as it was.
    #[error("the file is another program's database (application id {0:#010x})")]
    NotOurs(i64),
    /// Another request of the same group made SQLite undo the whole group. Nothing was applied.
    #[error("the write was undone together with another one")]
    Undone,
    /// The writer is gone: the store is being closed.
    #[error("the store is closed")]
    Closed,
    /// Any other complaint of SQLite: a broken constraint or a mistake in a statement.
    #[error("the store refused a statement")]
    Sql(#[source] Cause),
}

impl StoreError {
    /// Damage that our own checks saw, rather than the engine.
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), source: None }
    }
}

/// SQLite's error, shared by all who share its failure.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct Cause(Arc<rusqlite::Error>);

impl Cause {
    /// SQLite's own error.
    #[must_use]
    pub fn sqlite(&self) -> &rusqlite::Error {
        &self.0
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error().map(|inner| (inner.code, inner.extended_code));
        let cause = Cause(Arc::new(error));
        let Some((code, extended)) = code else {
            return Self::Sql(cause);
        };
        match code {
            // A short read is a page that the file no longer has.
            _ if extended == rusqlite::ffi::SQLITE_IOERR_SHORT_READ => short(cause),
            // The disk's quota: SQLite reports EDQUOT as a failed write, so only ENOSPC comes as full.
            ErrorCode::DiskFull => Self::Full(cause),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy(cause),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
                Self::ReadOnly(cause)
            }
            ErrorCode::SystemIoFailure => Self::Io(cause),
            ErrorCode::DatabaseCorrupt => {
                Self::Corrupt { what: "a page contradicts another".to_owned(), source: Some(cause) }
            }
            ErrorCode::NotADatabase => {
                Self::Corrupt { what: "the file is no database".to_owned(), source: Some(cause) }
            }
            _ => Self::Sql(cause),
        }
    }
}

fn short(cause: Cause) -> StoreError {
    StoreError::Corrupt { what: "the file is shorter than it says".to_owned(), source: Some(cause) }
}

/// Why a write did not happen. Whatever the variant: nothing of it was applied.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E> {
    /// The closure itself said no.
    #[error("the write was refused")]
    Refused(E),
    /// The closure panicked; the message is the panic's.
    #[error("the write panicked: {0}")]
    Panicked(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
