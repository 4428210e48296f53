//! `GET /v1/config`: the settings in force.

use crate::fault::of_sql;
use crate::handler::{Asked, serve};
use portreeve_registry::{Failure, FailureClass, Manner, decode};
use portreeve_settings::{GetSettings, Nothing, Settings};
use rusqlite::Connection;
use serde_json::{Map, Value};

serve!(inline GetSettings => get);

fn get(asked: &Asked<'_>, _: Nothing) -> Result<Settings, Failure> {
    // With a store that can't be read, the defaults in memory are nobody's settings.
    match asked.daemon.broken() {
        Some(failure) => Err(failure),
        None => Ok((*asked.daemon.settings()).clone()),
    }
}

/// The defaults, and over them what was set.
pub(crate) fn load(conn: &Connection) -> Result<Settings, Failure> {
    let defaults = serde_json::to_value(Settings::default());
    let Ok(Value::Object(mut fields)) = defaults else {
        return Err(Failure::new(FailureClass::DaemonInternal, "the default settings are no object"));
    };
    let mut statement = conn.prepare("SELECT key, value FROM setting").map_err(of_sql)?;
    let set: Map<String, Value> = statement
        .query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .and_then(|rows| rows.collect::<Result<Vec<_>, _>>())
        .map_err(of_sql)?
        .into_iter()
        .filter_map(|(key, value)| Some((key, serde_json::from_str(&value).ok()?)))
        .collect();
    for (key, value) in set {
        if fields.contains_key(&key) {
            fields.insert(key, value);
        }
    }
    decode(Value::Object(fields), Manner::default())
        .map_err(|issue| Failure::new(FailureClass::StoreCorrupt, format!("stored settings: {issue}")))
}
