//! Brings a store's schema up to date: numbered files, applied in order in one transaction.
//!
//! The number of the last one applied is SQLite's `user_version`. A migration that has landed is never edited:
//! `migrations/SHA256SUMS` holds each one's hash and a test compares.

use rusqlite::Connection;

use super::error::StoreError;

/// One numbered file.
struct Migration {
    number: i64,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] =
    &[Migration { number: 1, sql: include_str!("migrations/0001_ports_and_history.sql") }];

/// The schema that this version writes.
pub const NEWEST_SCHEMA: i64 = MIGRATIONS[MIGRATIONS.len() - 1].number;

/// The schema in the file.
pub(super) fn version(conn: &Connection) -> Result<i64, StoreError> {
    Ok(conn.query_row("PRAGMA user_version", (), |row| row.get(0))?)
}

/// Applies what the store doesn't have yet. Either all of it is applied or nothing.
pub(super) fn up(conn: &mut Connection) -> Result<(), StoreError> {
    apply(conn, MIGRATIONS)
}

fn apply(conn: &mut Connection, migrations: &[Migration]) -> Result<(), StoreError> {
    let found = version(conn)?;
    let missing = || migrations.iter().filter(|migration| migration.number > found);
    if missing().next().is_none() {
        return Ok(());
    }
    // A migration may rebuild a table that others refer to. The pragma does nothing within a transaction.
    conn.execute_batch("PRAGMA foreign_keys = OFF")?;
    let applied = (|| {
        let tx = conn.transaction()?;
        for migration in missing() {
            tx.execute_batch(migration.sql)?;
            tx.pragma_update(None, "user_version", migration.number)?;
        }
        let dangling = tx.prepare("PRAGMA foreign_key_check")?.exists(())?;
        if dangling {
            return Err(StoreError::damaged("a row refers to one that is not there"));
        }
        Ok(tx.commit()?)
    })();
    conn.execute_batch("PRAGMA foreign_keys = ON")?;
    applied
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Migration = Migration { number: 1, sql: "CREATE TABLE a (x INTEGER) STRICT" };
    const TWO: Migration = Migration { number: 2, sql: "ALTER TABLE a ADD COLUMN y INTEGER" };
    const BROKEN: Migration =
        Migration { number: 3, sql: "CREATE TABLE b (x INTEGER); ALTER TABLE c RENAME TO d" };

    #[test]
    fn only_what_is_missing_is_applied_and_in_order() {
        let mut conn = Connection::open_in_memory().expect("memory opens");
        apply(&mut conn, &[ONE]).expect("the first applies");
        conn.execute("INSERT INTO a VALUES (7)", ()).expect("a row");
        apply(&mut conn, &[ONE, TWO]).expect("the second applies to what the first left");
        apply(&mut conn, &[ONE, TWO]).expect("nothing is left to do");
        let row: (i64, Option<i64>) =
            conn.query_row("SELECT x, y FROM a", (), |row| Ok((row.get(0)?, row.get(1)?))).expect("the row");
        assert_eq!((row, version(&conn).expect("a version")), ((7, None), 2));
    }

    #[test]
    fn a_migration_that_fails_leaves_the_schema_before_the_first_of_them() {
        let mut conn = Connection::open_in_memory().expect("memory opens");
        apply(&mut conn, &[ONE]).expect("the first applies");
        apply(&mut conn, &[ONE, TWO, BROKEN]).expect_err("the third is broken");
        let columns: i64 = conn
            .query_row("SELECT count(*) FROM pragma_table_info('a')", (), |row| row.get(0))
            .expect("a count");
        let keys: i64 = conn.query_row("PRAGMA foreign_keys", (), |row| row.get(0)).expect("a setting");
        assert_eq!((columns, version(&conn).expect("a version"), keys), (1, 1, 1));
    }

    #[test]
    fn numbers_run_from_one_without_a_gap() {
        for (at, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.number, at as i64 + 1);
        }
    }
}
