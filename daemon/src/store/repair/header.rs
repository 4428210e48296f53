//! Gives a file its beginning back when that is what was lost.
//!
//! A store is made by the same migrations in the same order, so a new one has the same tables at the same root pages,
//! and its first page stands in for one that can't be read. Where that guess is wrong, reading the rows says so: each
//! goes through its table's constraints.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::super::connection::{self, PAGE_SIZE};
use super::super::damage::HEADER;
use super::super::error::StoreError;

/// Offsets in the header: <https://sqlite.org/fileformat2.html>, 1.3.
const CHANGE_COUNTER: usize = 24;
const PAGE_COUNT: usize = 28;
const FREE_LIST: std::ops::Range<usize> = 32..40;
const VALID_FOR: usize = 92;

/// Makes the schema of the file at `work` readable. True: its first page, or a part of it, is a new store's now.
pub(super) fn mend(work: &Path) -> Result<bool, StoreError> {
    if readable(work) {
        return Ok(false);
    }
    let fresh = super::fresh_pages(work)?;
    let mut file = match fs::read(work) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(connection::on_disk(error)),
    };
    if file.len() < PAGE_SIZE {
        // Nothing is left but what the log may hold, which then has something to be played into.
        write(work, &fresh)?;
        return Ok(true);
    }
    // The header alone first: the schema behind it may be whole, and is surely this file's own.
    file[..HEADER].copy_from_slice(&fresh[..HEADER]);
    count_pages(&mut file);
    write(work, &file)?;
    for page in schema_pages(&fresh) {
        if readable(work) {
            break;
        }
        let at = page * PAGE_SIZE..(page + 1) * PAGE_SIZE;
        if let (Some(old), Some(new)) = (file.get_mut(at.clone()), fresh.get(at)) {
            old.copy_from_slice(new);
        }
        count_pages(&mut file);
        write(work, &file)?;
    }
    Ok(true)
}

/// Can the schema be read?
fn readable(work: &Path) -> bool {
    let look = || -> rusqlite::Result<i64> {
        let conn = Connection::open_with_flags(work, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // Closing must not fold the log into a file that is about to be mended.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // With it, a file that is too short shows what it has.
        conn.execute_batch("PRAGMA writable_schema = ON")?;
        conn.query_row("SELECT count(*) FROM sqlite_schema WHERE sql IS NOT NULL", (), |row| row.get(0))
    };
    look().is_ok_and(|objects| objects > 0)
}

/// The pages of a new store's schema, from 0: the first one and, where that has become an inner page of the tree, its
/// children (fileformat2, 1.6).
fn schema_pages(fresh: &[u8]) -> Vec<usize> {
    const INNER: u8 = 5;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        Some(fresh.get(at..at + bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let mut pages = vec![0];
    if fresh[HEADER] == INNER {
        let cells = number(HEADER + 3, 2).unwrap_or(0);
        let left = (0..cells).filter_map(|cell| number(number(HEADER + 12 + 2 * cell, 2)?, 4));
        pages.extend(left.chain(number(HEADER + 8, 4)).map(|page| page - 1));
    }
    pages
}

/// Puts the file's real length into its header, and no free pages: their list may be what is bad.
fn count_pages(file: &mut [u8]) {
    let pages = u32::try_from(file.len() / PAGE_SIZE).unwrap_or(u32::MAX);
    file[PAGE_COUNT..PAGE_COUNT + 4].copy_from_slice(&pages.to_be_bytes());
    file[FREE_LIST].fill(0);
    // The count is believed only if these two are equal.
    file.copy_within(CHANGE_COUNTER..CHANGE_COUNTER + 4, VALID_FOR);
}

fn write(work: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(work);
    opened.and_then(|file| file.write_all_at(bytes, 0)).map_err(connection::on_disk)
}
