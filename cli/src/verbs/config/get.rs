//! `portreeve config get`.

use crate::report::{Report, fault, invalid};
use crate::session::Session;
use crate::table::facts;
use portreeve_registry::Failure;
use portreeve_settings::{GetSettings, Nothing};
use serde_json::Value;

const AFTER: &str = "\
Examples:
  portreeve config get
  portreeve config get leaseTtlMilliseconds";

/// Show the settings in force, or one of them
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The setting's key
    key: Option<String>,
}

pub(crate) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let settings = session.call::<GetSettings>(&Nothing {}).await?;
    let settings = serde_json::to_value(settings).map_err(|error| fault(error.to_string()))?;
    let Value::Object(fields) = &settings else { return Err(fault("settings are no object")) };
    if let Some(key) = args.key {
        let value = fields.get(&key).ok_or_else(|| {
            let keys: Vec<&str> = fields.keys().map(String::as_str).collect();
            invalid(format!("there is no setting {key}; there are {}", keys.join(", ")))
        })?;
        return Ok(Report::done(value, shown(value)));
    }
    let rows: Vec<(&str, String)> = fields.iter().map(|(key, value)| (key.as_str(), shown(value))).collect();
    Ok(Report::done(&settings, facts(&rows)))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Object(range) => match (range.get("start"), range.get("end")) {
            (Some(start), Some(end)) => format!("{start}-{end}"),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}
