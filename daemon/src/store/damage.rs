//! Tells a whole store from a damaged one, another program's or a newer one, before anybody is served.
//!
//! Start-up reads the header, the schema and the length. [`quick_check`] reads every page and runs behind the
//! daemon's back. Mending is `repair.rs`'s.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use rusqlite::Connection;

use super::beside;
use super::connection::{self, APPLICATION_ID, PAGE_SIZE};
use super::error::StoreError;
use super::migrate::{self, NEWEST_SCHEMA};

/// The first bytes of every SQLite database (<https://sqlite.org/fileformat2.html>, 1.3).
pub(super) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The length of SQLite's header.
pub(super) const HEADER: usize = 100;

/// What is at a store's path.
pub(super) enum OnDisk {
    /// No file and no log.
    Absent,
    /// A regular file with a header that can be read.
    Whole,
}

/// Looks at the file without SQLite, which would drop the log of a file that has become empty.
pub(super) fn on_disk(path: &Path) -> Result<OnDisk, StoreError> {
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if log_bytes(path)? > 0 {
                return Err(StoreError::damaged("the file is gone and its log is still there"));
            }
            return Ok(OnDisk::Absent);
        }
        Err(error) => return Err(connection::on_disk(error)),
    };
    if !about.is_file() {
        return Err(StoreError::damaged("what is there is no regular file"));
    }
    let mut header = Vec::with_capacity(HEADER);
    File::open(path)
        .and_then(|file| file.take(HEADER as u64).read_to_end(&mut header))
        .map_err(connection::on_disk)?;
    if header.len() < HEADER || about.len() < PAGE_SIZE as u64 {
        return Err(StoreError::damaged(format!("the file is only {} bytes long", about.len())));
    }
    if header[..MAGIC.len()] != MAGIC[..] {
        return Err(StoreError::damaged("the file does not begin like a database"));
    }
    Ok(OnDisk::Whole)
}

/// The size of the write-ahead log, 0 if there is none.
pub(super) fn log_bytes(path: &Path) -> Result<u64, StoreError> {
    match fs::symlink_metadata(beside(path, "-wal")) {
        Ok(about) => Ok(about.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(connection::on_disk(error)),
    }
}

/// Is the file ours, and of a schema that this version knows? The log counts.
pub(super) fn ours(conn: &Connection) -> Result<(), StoreError> {
    let id: i64 = conn.query_row("PRAGMA application_id", (), |row| row.get(0))?;
    known(id, migrate::version(conn)?)
}

/// The same of a file's own header, which can be read when the rest can't.
pub(super) fn header(path: &Path) -> Result<(), StoreError> {
    // Offsets in the header (fileformat2, 1.3): the user version and the application id.
    const VERSION: usize = 60;
    const ID: usize = 68;
    let mut header = [0_u8; HEADER];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).map_err(connection::on_disk)?;
    if header[..MAGIC.len()] != MAGIC[..] {
        return Err(StoreError::damaged("the file does not begin like a database"));
    }
    let number = |at: usize| {
        i64::from(i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
    };
    known(number(ID), number(VERSION))
}

fn known(id: i64, schema: i64) -> Result<(), StoreError> {
    if id != APPLICATION_ID {
        return Err(StoreError::NotOurs(id));
    }
    match schema {
        found if found > NEWEST_SCHEMA => Err(StoreError::SchemaNewer { found, known: NEWEST_SCHEMA }),
        found if found < 1 => Err(StoreError::damaged(format!("its schema number is {found}"))),
        _ => Ok(()),
    }
}

/// Are the tables and indexes exactly those that the migrations make?
pub(super) fn schema(conn: &Connection) -> Result<(), StoreError> {
    let mut fresh = Connection::open_in_memory()?;
    migrate::up(&mut fresh)?;
    let (wanted, found) = (objects(&fresh)?, objects(conn)?);
    for (name, sql) in &wanted {
        match found.get(name) {
            None => return Err(StoreError::damaged(format!("{name} is missing from the schema"))),
            Some(other) if other != sql => {
                return Err(StoreError::damaged(format!("{name} is another one than the schema's")));
            }
            Some(_) => {}
        }
    }
    match found.keys().find(|name| !wanted.contains_key(*name)) {
        Some(name) => Err(StoreError::damaged(format!("{name} is no part of the schema"))),
        None => Ok(()),
    }
}

/// The schema's objects but the statistics that `ANALYZE` may have left.
fn objects(conn: &Connection) -> Result<BTreeMap<String, Option<String>>, StoreError> {
    let mut statement =
        conn.prepare("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'")?;
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Does the file have all the pages that its header counts? Holds only while the log is empty.
pub(super) fn length(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let pages: u32 = conn.query_row("PRAGMA page_count", (), |row| row.get(0))?;
    let size: u32 = conn.query_row("PRAGMA page_size", (), |row| row.get(0))?;
    let found = fs::metadata(path).map_err(connection::on_disk)?.len();
    let wanted = u64::from(pages) * u64::from(size);
    if log_bytes(path)? == 0 && found < wanted {
        return Err(StoreError::damaged(format!("{found} bytes are left of {wanted}")));
    }
    Ok(())
}

/// Reads every page of the store at `path`, on a connection of its own, beside whoever serves it.
///
/// Takes about a second for 500 MB. Does not see values that changed within a sound page.
///
/// # Errors
/// [`StoreError::Corrupt`] with the first complaint.
pub fn quick_check(path: &Path) -> Result<(), StoreError> {
    let conn = connection::open_reader(path)?;
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", (), |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(StoreError::damaged(verdict)) }
}
