//! Reads the rows of a damaged store, around what can't be read.
//!
//! Every table is a tree ordered by row id. It is read from the front until a page fails, then from the back; what lies
//! between is halved until the pieces can be read or are single row ids. No index is used for finding rows: it may
//! be the broken one. An index that can be read tells how many rows there were.

use std::path::Path;

use rusqlite::ffi::ErrorCode;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::super::error::StoreError;

/// How many seeks into a gap are made at most, for each table: bounds the time on a file that is mostly gone.
const SEEKS: u32 = 20_000;

/// What became of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReport {
    /// The table.
    pub table: String,
    /// How many of its rows are in the new store.
    pub kept: u64,
    /// What is not.
    pub lost: Lost,
}

/// What of a table is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lost {
    /// Rows that were read but break a rule of the schema: damaged in themselves, or left without the row that they
    /// belong to.
    pub refused: u64,
    /// Rows that could not be read.
    pub unreadable: Unreadable,
}

/// How many rows could not be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// None, as far as the table and its indexes tell.
    #[default]
    None,
    /// So many: an index still counts them.
    Rows(u64),
    /// Some or none: part of the table could not be read, and no index tells how much was there.
    Unknown,
}

/// Copies what can be read of the store at `work` into `new`, in one transaction.
pub(super) fn salvage(work: &Path, new: &mut Connection) -> Result<Vec<TableReport>, StoreError> {
    let tables = super::tables(new)?;
    let old = Connection::open_with_flags(work, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // A schema with one bad entry still shows the others.
    old.execute_batch("PRAGMA writable_schema = ON; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;")
        .unwrap_or_else(|error| tracing::debug!(%error, "the damaged store takes no settings"));
    let tx = new.transaction()?;
    let mut reports = Vec::new();
    for table in tables {
        let mut copy = Copy::new(&old, &tx, table)?;
        let whole = copy.read();
        reports.push(copy.report(whole)?);
    }
    keep_sequence(&old, &tx)?;
    tx.commit()?;
    Ok(reports)
}

/// `event.seq` is never used twice, also not the numbers of events that are lost now.
fn keep_sequence(old: &Connection, new: &Connection) -> Result<(), StoreError> {
    let sequence = "SELECT seq FROM sqlite_sequence WHERE name = 'event'";
    let Ok(last) = old.query_row(sequence, (), |row| row.get::<_, i64>(0)) else { return Ok(()) };
    let changed =
        new.execute("UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'event'", [last])?;
    if changed == 0 {
        new.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('event', ?1)", [last])?;
    }
    Ok(())
}

/// One table on its way.
struct Copy<'conn> {
    old: &'conn Connection,
    new: &'conn Connection,
    table: String,
    columns: String,
    insert: String,
    kept: u64,
    refused: u64,
    seeks: u32,
    /// The new store failed, which ends the whole repair.
    failure: Option<StoreError>,
}

/// A part of a table could not be read; the last row id that could.
struct Gap {
    last: Option<i64>,
}

impl<'conn> Copy<'conn> {
    fn new(old: &'conn Connection, new: &'conn Connection, table: String) -> Result<Self, StoreError> {
        let mut statement = new.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let names = statement.query_map([&table], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        let places = vec!["?"; names.len()].join(", ");
        let columns = names.join(", ");
        let insert = format!("INSERT INTO {table} ({columns}) VALUES ({places})");
        Ok(Self { old, new, table, columns, insert, kept: 0, refused: 0, seeks: 0, failure: None })
    }

    /// Reads the table. True: all of it.
    fn read(&mut self) -> bool {
        // SQLite counts row ids up from 1.
        let Err(front) = self.forward(1, i64::MAX) else { return true };
        let low = front.last.map_or(1, |last| last.saturating_add(1));
        let high = match self.backward(low) {
            Ok(()) => return false,
            Err(Gap { last: Some(last) }) => last.saturating_sub(1),
            // Not even the last row can be read. An index may tell which it is.
            Err(Gap { last: None }) => self.by_index("max(rowid)").unwrap_or(low.saturating_add(1 << 24)),
        };
        self.between(low, high);
        false
    }

    /// Rows from `low` to `high`, ascending, into the new store.
    fn forward(&mut self, low: i64, high: i64) -> Result<(), Gap> {
        let sql = format!(
            "SELECT rowid, {} FROM {} NOT INDEXED WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid",
            self.columns, self.table
        );
        self.copy(&sql, &[low, high])
    }

    /// Rows from the last one down to `low`.
    fn backward(&mut self, low: i64) -> Result<(), Gap> {
        let sql = format!(
            "SELECT rowid, {} FROM {} NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid DESC",
            self.columns, self.table
        );
        self.copy(&sql, &[low])
    }

    fn copy(&mut self, sql: &str, bounds: &[i64]) -> Result<(), Gap> {
        self.seeks += 1;
        let mut last = None;
        self.rows(sql, bounds, &mut last).map_err(|_| Gap { last })
    }

    /// `Err`: the next row can't be read, or the new store fails.
    fn rows(&mut self, sql: &str, bounds: &[i64], last: &mut Option<i64>) -> rusqlite::Result<()> {
        let mut statement = self.old.prepare_cached(sql)?;
        let width = statement.column_count();
        let mut rows = statement.query(params_from_iter(bounds))?;
        let mut insert = self.new.prepare_cached(&self.insert)?;
        while let Some(row) = rows.next()? {
            let values = (1..width).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>();
            *last = Some(row.get(0)?);
            // A text that is no UTF-8 is no value of ours.
            let Ok(values) = values else {
                self.refused += 1;
                continue;
            };
            match insert.execute(params_from_iter(values)) {
                Ok(_) => self.kept += 1,
                Err(error) if refusal(&error) => self.refused += 1,
                Err(error) => {
                    self.failure.get_or_insert(error.into());
                    return Err(rusqlite::Error::QueryReturnedNoRows);
                }
            }
        }
        Ok(())
    }

    /// Halves what is between two row ids until its pieces can be read.
    fn between(&mut self, low: i64, high: i64) {
        let mut pieces = vec![(low, high)];
        while let Some((low, high)) = pieces.pop() {
            if low > high || self.seeks > SEEKS || self.failure.is_some() {
                continue;
            }
            let Err(gap) = self.forward(low, high) else { continue };
            let low = gap.last.map_or(low, |last| last.saturating_add(1));
            // A single row id that can't be read is lost, and so is the first of a piece that begins unreadable.
            if low < high {
                let middle = low + (high - low) / 2;
                pieces.push((low, middle));
                pieces.push((middle + 1, high));
            }
        }
    }

    /// Asks the indexes one after the other; only a whole one answers.
    fn by_index(&self, what: &str) -> Option<i64> {
        let mut statement =
            self.new.prepare_cached("SELECT name FROM pragma_index_list(?1) WHERE NOT partial").ok()?;
        let names = statement.query_map([&self.table], |row| row.get::<_, String>(0)).ok()?;
        let answers = names.flatten().filter_map(|index| {
            let sql = format!("SELECT {what} FROM {} INDEXED BY {index}", self.table);
            self.old.query_row(&sql, (), |row| row.get::<_, Option<i64>>(0)).ok().flatten()
        });
        answers.max()
    }

    fn report(self, whole: bool) -> Result<TableReport, StoreError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let read = self.kept + self.refused;
        let counted = self.by_index("count(*)").and_then(|count| u64::try_from(count).ok());
        let unreadable = match counted {
            Some(count) if count > read => Unreadable::Rows(count - read),
            Some(_) => Unreadable::None,
            None if whole => Unreadable::None,
            None => Unreadable::Unknown,
        };
        Ok(TableReport {
            table: self.table,
            kept: self.kept,
            lost: Lost { refused: self.refused, unreadable },
        })
    }
}

/// The row breaks a rule, as opposed to: the new store fails.
fn refusal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    )
}
