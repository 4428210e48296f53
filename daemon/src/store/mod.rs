//! The engine under everything that the daemon remembers: one SQLite file, one writer, a few readers.
//!
//! ```no_run
//! # use portreeve_daemon::store::{Store, StoreError, WriteError};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open("/home/me/.local/state/portreeve/authority.db")?;
//! store.write(|tx| tx.execute("INSERT INTO setting VALUES ('key', '1')", ()))?;
//! let value: String = store.read(|conn| {
//!     Ok::<_, StoreError>(conn.query_row("SELECT value FROM setting WHERE key = 'key'", (), |row| row.get(0))?)
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! A write that was answered is on the disk: it survives `kill -9` and a power cut.
//! Writes that arrive together share one transaction and one sync, each behind a savepoint of its own, so that
//! one that is refused takes nothing else with it.
//! A read sees one snapshot and never waits for the writer.
//!
//! This module knows the schema (`migrations/`) but no rule about what is in it, no wire type and no clock.
//! Whoever opens a store holds the lock of its home: see [`crate::home`].

mod connection;
mod damage;
mod error;
mod migrate;
mod readers;
pub mod repair;
mod writer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use damage::quick_check;
pub use error::{Cause, StoreError, WriteError};
pub use migrate::NEWEST_SCHEMA;
pub use writer::Tx;

use readers::Readers;
use writer::Writer;

/// The store's name in its home. The alpha in JavaScript, which shares the home, uses another one.
pub const FILE_NAME: &str = "authority.db";

/// An open store. Cheap to clone; the last clone closes it, after what is queued.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// The fields are dropped in this order: the writer, which folds the log into the file, goes last.
#[derive(Debug)]
struct Inner {
    readers: Readers,
    writer: Writer,
    path: PathBuf,
}

impl Store {
    /// Opens the store at `path`, makes it if there is none, and brings its schema up to date.
    ///
    /// Header and schema are checked; the pages are not (see [`quick_check`]).
    /// Starts the writer's thread.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for what is no whole store, [`StoreError::SchemaNewer`] and
    /// [`StoreError::NotOurs`] for what is not this version's to touch: these three leave every byte as it was.
    /// Otherwise what the operating system said.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let connection = connection::open(path)?;
        Ok(Self {
            inner: Arc::new(Inner {
                readers: Readers::new(path),
                writer: Writer::start(connection)?,
                path: path.to_owned(),
            }),
        })
    }

    /// Runs `work` in the writer's transaction and returns once it is durable.
    ///
    /// What `work` reads through `tx` is the newest state, its own changes and those of the group before it
    /// included; nobody writes in between. An `Err` undoes this closure's changes alone.
    /// Keep it short: everybody's writes wait behind it.
    ///
    /// # Errors
    /// Whatever the error, nothing of `work` was applied.
    ///
    /// # Panics
    /// When called on a thread of an async runtime: there, use [`Store::write_async`].
    pub fn write<T, E, F>(&self, work: F) -> Result<T, WriteError<E>>
    where
        F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.inner.writer.submit(work).blocking_recv().unwrap_or(Err(WriteError::Store(StoreError::Closed)))
    }

    /// [`Store::write`] for async callers: no thread waits.
    ///
    /// The request is queued by this call, not by the first poll; dropping the future takes nothing back.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_async<T, E, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, WriteError<E>>> + Send + use<T, E, F>
    where
        F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let reply = self.inner.writer.submit(work);
        async move { reply.await.unwrap_or(Err(WriteError::Store(StoreError::Closed))) }
    }

    /// Runs `work` over one snapshot, on the calling thread and a connection that can't write.
    ///
    /// Waits while all the readers' connections are taken.
    ///
    /// # Errors
    /// What `work` returns, or why there is no snapshot.
    pub fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&rusqlite::Connection) -> Result<T, E>,
        E: From<StoreError>,
    {
        self.inner.readers.read(work)
    }

    /// Where the store's file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

/// The version of SQLite that is linked in.
#[must_use]
pub fn engine_version() -> &'static str {
    rusqlite::version()
}

/// The path with something after its file name: SQLite names its side files so.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
