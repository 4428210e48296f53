//! Mends a damaged store: keeps the damaged files, and puts what can be read of them into a new one.
//!
//! Asked for by a person (`portreeve doctor --repair`), never by the daemon itself.
//! Nothing is thrown away: the damaged files stay beside the new store under a dated name.
//! Each row that is read goes through the new store's constraints, so what is kept is consistent, and the report
//! says by table what was kept and lost.
//! A table whose root page is gone is lost with all its rows: pages are not searched for rows of a tree that can't be
//! entered.
//!
//! The order of the swap makes a power cut harmless at any point: the new store is whole and on the disk under
//! `authority.db.repaired` before the old files lose their names, and `finish` completes it.

mod header;
mod salvage;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};

pub use salvage::{Lost, TableReport, Unreadable};

use super::connection;
use super::error::StoreError;
use super::migrate::{self, NEWEST_SCHEMA};
use super::{beside, damage};
use crate::clock::Clock;
use crate::home::Home;

/// The whole new store, about to take the old one's name.
const REPAIRED: &str = ".repaired";

/// The copy that rows are read from: reading may write to it.
const WORK: &str = ".repairing";

const SIDE_FILES: [&str; 2] = ["-wal", "-shm"];

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// What was kept and lost, a line a table, in the order in which they were read.
    pub tables: Vec<TableReport>,
    /// Where the damaged files are now; the log's and the index's names are this with `-wal` and `-shm`.
    pub kept_as: PathBuf,
    /// The file's beginning was unreadable and a new store's was put in its place to get at the rest.
    pub header_replaced: bool,
}

impl RepairReport {
    /// Nothing is known to be lost.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.tables.iter().all(|table| table.lost == Lost::default())
    }
}

/// Why nothing was repaired. The store is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// There is no store.
    #[error("{} is not there", path.display())]
    Absent {
        /// Where it would be.
        path: PathBuf,
    },
    /// The store is a newer version's, or another program's.
    #[error("the store is not this version's to repair")]
    NotOurs(#[source] StoreError),
    /// A file could not be copied, renamed or removed.
    #[error("{} could not be {step}", path.display())]
    File {
        /// What was to be done to it.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The new store could not be made.
    #[error("the new store could not be made")]
    New(#[source] StoreError),
}

/// Repairs the store of a home. Holding the home proves that no daemon serves it.
///
/// A healthy store comes out with everything that was in it.
///
/// # Errors
/// See [`RepairError`]: the store is as it was.
pub fn repair(home: &Home, clock: &dyn Clock) -> Result<RepairReport, RepairError> {
    let path = home.store_path();
    finish(&path).map_err(RepairError::New)?;
    if !path.is_file() && damage::log_bytes(&path).map_err(RepairError::NotOurs)? == 0 {
        return Err(RepairError::Absent { path });
    }
    let work = beside(&path, WORK);
    let result = from_copy(&path, &work, clock.wall());
    // What is left of the copy is overwritten by the next repair.
    if let Err(error) = connection::remove(&work) {
        tracing::warn!(%error, "the copy that was read from stays behind");
    }
    result
}

fn from_copy(path: &Path, work: &Path, now: Timestamp) -> Result<RepairReport, RepairError> {
    connection::remove(work).map_err(RepairError::New)?;
    // Without the index: SQLite makes it anew from the log.
    for suffix in ["", "-wal"] {
        let (from, to) = (beside(path, suffix), beside(work, suffix));
        copy(&from, &to)?;
    }
    damage::header(work).or_else(foreign_only).map_err(RepairError::NotOurs)?;
    let header_replaced = header::mend(work).map_err(RepairError::New)?;
    // The log may hold a newer header than the file.
    ours(work).or_else(foreign_only).map_err(RepairError::NotOurs)?;
    let aside = beside(path, ".new");
    let tables = fill(work, &aside).map_err(RepairError::New)?;
    let kept_as = keep(path, now)?;
    connection::publish(&aside, &beside(path, REPAIRED)).map_err(RepairError::New)?;
    finish(path).map_err(RepairError::New)?;
    Ok(RepairReport { tables, kept_as, header_replaced })
}

/// Looks at the copy, so that a store which is refused was not even opened.
fn ours(work: &Path) -> Result<(), StoreError> {
    let conn = Connection::open_with_flags(work, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.execute_batch("PRAGMA writable_schema = ON")?;
    damage::ours(&conn)
}

/// What else is wrong with it is what a repair is for.
fn foreign_only(error: StoreError) -> Result<(), StoreError> {
    match error {
        StoreError::SchemaNewer { .. } | StoreError::NotOurs(_) => Err(error),
        _ => Ok(()),
    }
}

/// Makes a new store at `aside` with what can be read of the one at `work`.
fn fill(work: &Path, aside: &Path) -> Result<Vec<TableReport>, StoreError> {
    let mut new = connection::create(aside)?;
    let mut tables = salvage::salvage(work, &mut new);
    // A log that contradicts its file can hide what the file alone still shows.
    if damage::log_bytes(work)? > 0 && tables.as_ref().map_or(0, |tables| kept(tables)) == 0 {
        connection::close(new)?;
        fs::remove_file(beside(work, "-wal")).map_err(connection::on_disk)?;
        new = connection::create(aside)?;
        tables = salvage::salvage(work, &mut new);
    }
    connection::close(new)?;
    tables
}

fn kept(tables: &[TableReport]) -> u64 {
    tables.iter().map(|table| table.kept).sum()
}

/// Gives the damaged files a second, dated name.
fn keep(path: &Path, now: Timestamp) -> Result<PathBuf, RepairError> {
    let stamp = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let dated = beside(path, &format!(".damaged-{stamp}"));
    let taken = |name: &PathBuf| ["", "-wal", "-shm"].iter().any(|suffix| beside(name, suffix).exists());
    let kept = std::iter::once(dated.clone())
        .chain((2..).map(|count| beside(&dated, &format!("-{count}"))))
        .find(|name| !taken(name))
        .unwrap_or(dated);
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (beside(path, suffix), beside(&kept, suffix));
        match fs::hard_link(&from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Not every file system has hard links.
            Err(_) => copy(&from, &to)?,
        }
    }
    connection::sync_directory(path).map_err(|source| RepairError::File {
        step: "kept",
        path: kept.clone(),
        source,
    })?;
    Ok(kept)
}

/// Copies a file, privately and durably. One that is not there is no error.
fn copy(from: &Path, to: &Path) -> Result<(), RepairError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let copied = || -> io::Result<()> {
        let mut source = match fs::File::open(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let mut target = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
        io::copy(&mut source, &mut target)?;
        target.sync_all()
    };
    copied().map_err(|source| RepairError::File { step: "copied", path: from.to_owned(), source })
}

/// Completes a swap, if one was interrupted: the new store is whole, the old files have their second names.
///
/// The old log goes before the new file comes: SQLite would play it into a file that it does not belong to.
pub(super) fn finish(path: &Path) -> Result<(), StoreError> {
    let repaired = beside(path, REPAIRED);
    if !repaired.exists() {
        return Ok(());
    }
    for suffix in SIDE_FILES {
        match fs::remove_file(beside(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(connection::on_disk(error)),
            _ => {}
        }
    }
    connection::sync_directory(path).map_err(connection::on_disk)?;
    connection::publish(&repaired, path)
}

/// The pages of a new store, for a file that lost its first ones.
fn fresh_pages(near: &Path) -> Result<Vec<u8>, StoreError> {
    let path = beside(near, "-fresh");
    connection::close(connection::create(&path)?)?;
    let pages = fs::read(&path).map_err(connection::on_disk)?;
    connection::remove(&path)?;
    Ok(pages)
}

/// The tables of this version's schema, parents before children.
fn tables(conn: &Connection) -> Result<Vec<String>, StoreError> {
    debug_assert_eq!(migrate::version(conn).ok(), Some(NEWEST_SCHEMA));
    let mut statement = conn.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rootpage",
    )?;
    let names = statement.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(names)
}
