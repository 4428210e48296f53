//! Receipts as they lie in the store.

use crate::Daemon;
use crate::clock::Moment;
use crate::rows;
use crate::store::Tx;
use portreeve_registry::Failure;
use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};

/// How long a receipt is good, in milliseconds of the boot clock.
pub(crate) const LIFETIME: i64 = 5 * 60 * 1000;
/// How many there are at most; the oldest previews go first.
const MOST: i64 = 10_000;

/// Where a receipt is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Previewed,
    Executing,
    Completed,
}

/// One receipt.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) action: String,
    pub(super) target_id: String,
    pub(super) proposal: Value,
    pub(super) plan: Value,
    pub(super) observed: Value,
    pub(super) hash: String,
    pub(super) state: State,
    pub(super) result: Option<Value>,
    pub(super) expires_at: String,
    pub(super) expires_boot_ms: i64,
    pub(super) boot_id: String,
    pub(super) executor: Option<Value>,
}

impl Record {
    pub(super) fn expired(&self, boot_ms: i64, boot_id: &str) -> bool {
        self.boot_id != boot_id || self.expires_boot_ms <= boot_ms
    }
}

const COLUMNS: &str = "id, action, target_id, proposal, plan, observed, evidence_hash, state, result, expires_at, \
     expires_boot_ms, boot_id, executor";

fn read(row: &Row<'_>) -> rusqlite::Result<Record> {
    let json = |column: usize| -> rusqlite::Result<Value> {
        let text: Option<String> = row.get(column)?;
        let broken = |e| rusqlite::types::FromSqlError::Other(Box::new(e));
        Ok(text.map(|text| serde_json::from_str(&text)).transpose().map_err(broken)?.unwrap_or_default())
    };
    let state: String = row.get(7)?;
    Ok(Record {
        id: row.get(0)?,
        action: row.get(1)?,
        target_id: row.get(2)?,
        proposal: json(3)?,
        plan: json(4)?,
        observed: json(5)?,
        hash: row.get(6)?,
        state: match state.as_str() {
            "previewed" => State::Previewed,
            "executing" => State::Executing,
            _ => State::Completed,
        },
        result: Some(json(8)?).filter(|value| !value.is_null()),
        expires_at: row.get(9)?,
        expires_boot_ms: row.get(10)?,
        boot_id: row.get(11)?,
        executor: Some(json(12)?).filter(|value| !value.is_null()),
    })
}

/// One receipt by its id.
pub(super) fn find(conn: &Connection, id: &str) -> Result<Option<Record>, Failure> {
    rows::one(conn, &format!("SELECT {COLUMNS} FROM receipt WHERE id = ?1"), [id], read)
}

/// The newest receipt that was made under this key.
pub(super) fn find_by_key(conn: &Connection, key: &str) -> Result<Option<Record>, Failure> {
    let sql = format!(
        "SELECT {COLUMNS} FROM receipt WHERE idempotency_key = ?1 ORDER BY receipt.rowid DESC LIMIT 1"
    );
    rows::one(conn, &sql, [key], read)
}

/// Stores a previewed receipt, and keeps their number within the bound.
pub(super) fn insert(
    tx: &Tx<'_>,
    record: &Record,
    kind: &str,
    key: Option<&str>,
    now: &Moment,
) -> Result<(), Failure> {
    rows::change(
        tx,
        "INSERT INTO receipt (id, action, target_type, target_id, proposal, plan, observed, evidence_hash, \
         idempotency_key, state, created_at, expires_at, expires_boot_ms, boot_id) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'previewed', ?10, ?11, ?12, ?13)",
        params![
            record.id,
            record.action,
            kind,
            record.target_id,
            record.proposal.to_string(),
            record.plan.to_string(),
            record.observed.to_string(),
            record.hash,
            key,
            now.stamp(),
            record.expires_at,
            record.expires_boot_ms,
            record.boot_id,
        ],
    )?;
    bound(tx, MOST)
}

fn bound(tx: &Tx<'_>, most: i64) -> Result<(), Failure> {
    let count = rows::one(tx, "SELECT count(*) FROM receipt", (), |row| row.get::<_, i64>(0))?;
    let spare = count.unwrap_or(0) - most;
    if spare > 0 {
        rows::change(
            tx,
            "DELETE FROM receipt WHERE rowid IN (SELECT rowid FROM receipt WHERE state <> 'executing' \
             ORDER BY state = 'completed', rowid LIMIT ?1)",
            [spare],
        )?;
    }
    Ok(())
}

/// From now on this daemon executes it.
pub(super) fn executing(tx: &Tx<'_>, daemon: &Daemon, id: &str) -> Result<(), Failure> {
    rows::change(
        tx,
        "UPDATE receipt SET state = 'executing', executor = ?2 WHERE id = ?1",
        [id, &this_daemon(daemon).to_string()],
    )
    .map(drop)
}

/// Nothing was begun after all: it is as good as before.
pub(super) fn not_begun(tx: &Tx<'_>, id: &str) -> Result<(), Failure> {
    rows::change(tx, "UPDATE receipt SET state = 'previewed', executor = NULL WHERE id = ?1", [id]).map(drop)
}

/// It is done, with this result.
pub(super) fn complete(tx: &Tx<'_>, id: &str, result: &Value, now: &Moment) -> Result<(), Failure> {
    rows::change(
        tx,
        "UPDATE receipt SET state = 'completed', result = ?2, settled_at = ?3 WHERE id = ?1",
        [id, &result.to_string(), &now.stamp()],
    )
    .map(drop)
}

/// Drops what is long settled, expired, or was left by a daemon that is gone.
pub(crate) fn sweep(tx: &Tx<'_>, settled_before: &str, expired_before: &str) -> Result<(), Failure> {
    for (sql, before) in [
        ("DELETE FROM receipt WHERE settled_at < ?1", settled_before),
        ("DELETE FROM receipt WHERE state = 'previewed' AND expires_at < ?1", expired_before),
        ("DELETE FROM receipt WHERE state = 'executing' AND created_at < ?1", settled_before),
    ] {
        rows::change(tx, sql, [before])?;
    }
    Ok(())
}

/// This daemon's identity: its process, and the boot in which that means something.
pub(super) fn this_daemon(daemon: &Daemon) -> Value {
    let pid = std::process::id();
    let start = daemon.evidence().kin(pid).ok().flatten().map(|kin| kin.id.start_ticks);
    json!({"pid": pid, "startTicks": start, "bootId": daemon.clock().boot_id()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Store, WriteError};

    #[test]
    fn the_oldest_previews_go_first() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store.db")).unwrap();
        let left: Result<Vec<String>, WriteError<Failure>> = store.write(|tx| {
            for (id, state) in
                [("1", "completed"), ("2", "previewed"), ("3", "executing"), ("4", "previewed")]
            {
                rows::change(
                    tx,
                    "INSERT INTO receipt (id, action, target_type, target_id, proposal, plan, observed, \
                     evidence_hash, state, created_at, expires_at, expires_boot_ms, boot_id) \
                     VALUES (?1, 'a', 't', 'i', '{}', '{}', '{}', 'h', ?2, '', '', 0, 'b')",
                    [id, state],
                )?;
            }
            bound(tx, 3)?;
            bound(tx, 1)?;
            rows::all(tx, "SELECT id FROM receipt ORDER BY id", (), |row| row.get(0))
        });
        assert_eq!(left.unwrap(), ["3"]);
    }
}
