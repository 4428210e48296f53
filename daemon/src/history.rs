//! History: one event a change, in the same transaction as the change, in the order of commits.

use crate::clock::Moment;
use crate::fault::{invalid, of_sql};
use crate::handler::{Asked, Caller, serve};
use crate::rows;
use crate::store::Tx;
use portreeve_history::{HistoryFilter, HistoryKey, ListHistory, Order};
use portreeve_records::{Event, Id};
use portreeve_registry::{Cut, Failure, PageOf};
use rusqlite::{Connection, Row, params, types::FromSqlError};
use serde_json::{Map, Value};

serve!(list ListHistory => list);

/// What an event says, beside who and when.
pub(crate) struct Entry<'a> {
    pub(crate) event_type: &'static str,
    pub(crate) entity_type: &'static str,
    pub(crate) entity_id: &'a str,
    pub(crate) payload: Value,
}

/// Appends an event; the oldest one beyond the bound goes in the same stroke.
///
/// The bound is kept by the event's number, so it costs the same however many events there are.
pub(crate) fn append(
    tx: &Tx<'_>,
    caller: Option<&Caller>,
    now: &Moment,
    most: u64,
    entry: Entry<'_>,
) -> Result<(), Failure> {
    let origin = caller.and_then(|c| c.origin.as_ref()).map(serde_json::to_string).transpose();
    let origin = origin.map_err(|e| of_sql(rusqlite::Error::ToSqlConversionFailure(Box::new(e))))?;
    rows::change(
        tx,
        "INSERT INTO event (id, event_type, entity_type, entity_id, payload, origin, request_id, occurred_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            Id::fresh().to_string(),
            entry.event_type,
            entry.entity_type,
            entry.entity_id,
            entry.payload.to_string(),
            origin,
            caller.map(|c| c.request_id.to_string()),
            now.stamp(),
        ],
    )?;
    let newest = tx.last_insert_rowid();
    let bound = i64::try_from(most).unwrap_or(i64::MAX);
    rows::change(tx, "DELETE FROM event WHERE seq <= ?1", [newest.saturating_sub(bound)])?;
    Ok(())
}

/// Two look-ups at the ends of the key; `min(seq), max(seq)` in one select would scan the table.
const BOUNDS: &str = "SELECT (SELECT min(seq) FROM event), (SELECT max(seq) FROM event)";

fn event(row: &Row<'_>) -> rusqlite::Result<(i64, Event)> {
    let broken = |e: serde_json::Error| FromSqlError::Other(Box::new(e));
    let payload: String = row.get(5)?;
    let origin: Option<String> = row.get(6)?;
    let event = Event {
        id: rows::id(row, 1)?,
        event_type: row.get(2)?,
        entity_type: row.get(3)?,
        entity_id: row.get(4)?,
        payload: serde_json::from_str::<Map<String, Value>>(&payload).map_err(broken)?,
        origin: origin.map(|text| serde_json::from_str(&text)).transpose().map_err(broken)?,
        occurred_at: row.get(7)?,
    };
    Ok((row.get(0)?, event))
}

fn list(asked: &Asked<'_>, filter: &HistoryFilter, cut: &Cut<HistoryKey>) -> Result<PageOf<Event>, Failure> {
    let since = filter.since.as_deref().map(since).transpose()?;
    asked.daemon.read(|conn| page(conn, filter, since.as_deref(), cut))
}

/// A time as events are stored, so that the two compare as text.
fn since(text: &str) -> Result<String, Failure> {
    text.parse::<jiff::Timestamp>().map(crate::clock::stamp).map_err(|_| {
        invalid(&["since"], "invalid_format", "expected an RFC 3339 time, such as 2026-01-31T12:00:00Z")
    })
}

fn page(
    conn: &Connection,
    filter: &HistoryFilter,
    since: Option<&str>,
    cut: &Cut<HistoryKey>,
) -> Result<PageOf<Event>, Failure> {
    let ascending = filter.order == Order::Asc;
    let mut conditions: Vec<&str> = Vec::new();
    let mut values: Vec<Box<dyn rusqlite::ToSql>> = Vec::new();
    let mut also = |condition: &'static str, value: Box<dyn rusqlite::ToSql>| {
        conditions.push(condition);
        values.push(value);
    };
    if let Some(after) = cut.after() {
        also(if ascending { "seq > ?" } else { "seq < ?" }, Box::new(after.0));
    }
    if let Some(text) = &filter.event_type {
        also("event_type = ?", Box::new(text.clone()));
    }
    if let Some(text) = &filter.entity_type {
        also("entity_type = ?", Box::new(text.clone()));
    }
    if let Some(text) = &filter.entity_id {
        also("entity_id = ?", Box::new(text.clone()));
    }
    if let Some(text) = since {
        also("occurred_at >= ?", Box::new(text.to_owned()));
    }
    let condition = if conditions.is_empty() { "1".to_owned() } else { conditions.join(" AND ") };
    let order = if ascending { "ASC" } else { "DESC" };
    let sql = format!(
        "SELECT seq, id, event_type, entity_type, entity_id, payload, origin, occurred_at FROM event \
         WHERE {condition} ORDER BY seq {order} LIMIT {}",
        i64::try_from(cut.fetch()).unwrap_or(i64::MAX)
    );
    let found = rows::all(conn, &sql, rusqlite::params_from_iter(values.iter().map(Box::as_ref)), event)?;
    let bounds = rows::one(conn, BOUNDS, (), |row| {
        Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?))
    })?;
    let (oldest, newest) = bounds.unwrap_or_default();
    // What was ever numbered: a store whose events were all pruned still has a newest number.
    let numbered =
        rows::one(conn, "SELECT seq FROM sqlite_sequence WHERE name = 'event'", (), |row| row.get(0))?;
    let newest = newest.or(numbered).unwrap_or(0);

    let last = found.last().map(|(seq, _)| *seq);
    // A walk to older pages takes along where it began, so that a poll after it misses nothing.
    let began = if ascending { newest } else { cut.after().map_or(newest, |after| after.1) };
    let mut page =
        cut.page(found.into_iter().map(|(seq, event)| Ok::<_, Failure>((HistoryKey(seq, began), event))))?;
    let polled_to = match (ascending, page.page.next_cursor.as_ref()) {
        (true, Some(cursor)) => cursor.clone(),
        (true, None) => cut.cursor(&HistoryKey(last.unwrap_or(newest).max(newest), newest)),
        (false, _) => cut.cursor(&HistoryKey(began, began)),
    };
    page.page.poll_cursor = Some(polled_to);
    if ascending {
        let gap =
            cut.after().is_some_and(|after| oldest.is_some_and(|oldest| oldest > after.0.saturating_add(1)));
        page.page.gap = gap.then_some(true);
    }
    Ok(page)
}
