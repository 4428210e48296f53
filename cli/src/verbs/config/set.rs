//! `portreeve config set`.

use crate::consent::{Consent, Shown, change, diff};
use crate::exit::Exit;
use crate::report::{Report, invalid};
use crate::session::Session;
use portreeve_registry::{Failure, FailureClass, Manner, NoTarget, decode};
use portreeve_settings::{SettingsUpdates, UpdateAction, UpdateSettingsRequest, changes};
use serde_json::{Map, Value, json};

const AFTER: &str = "\
Examples:
  portreeve config set leaseTtlMilliseconds=20000
  portreeve config set automaticPortRanges=10240-19999,30000-39999 excludedPorts=10250,10251 --yes
  portreeve config set excludedPorts= --dry-run

The settings hold for every project on this machine, at once. No claim or lease loses its port.";

/// Change settings: shows what is, what would be, and what that touches, and asks
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Settings as key=value; a list's values are parted by commas
    #[arg(required = true, value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(args: Args, session: &Session, json: bool) -> Result<Report, Failure> {
    let updates = read(&args.settings)?;
    change::<UpdateAction>(
        session,
        args.consent,
        json,
        (UpdateSettingsRequest { updates }, NoTarget {}),
        |receipt| {
            let (current, proposed) = (&receipt.observed.current, &receipt.proposal.proposed);
            let changed = changes(current, proposed);
            if changed.is_empty() {
                let text = "Nothing would change: these are the settings in force.".to_owned();
                return Shown { text, over: Some(Exit::Unchanged) };
            }
            let mut lines: Vec<String> = changed
                .iter()
                .map(|(key, before, after)| diff(format!("{key} {before}"), format!("{key} {after}")))
                .collect();
            let impact = &receipt.observed.impact;
            if impact.claim_count > 0 {
                lines.push(format!(
                    "  {} claims have ports that the new rules don't give; they keep them",
                    impact.claim_count
                ));
            }
            if impact.lease_count > 0 {
                lines.push(format!("  {} pending leases are touched", impact.lease_count));
            }
            Shown { text: lines.join("\n"), over: None }
        },
        |_| ("The settings are changed.".to_owned(), Exit::Done),
    )
    .await
}

/// Reads the pairs as strictly as the daemon does.
fn read(pairs: &[String]) -> Result<SettingsUpdates, Failure> {
    let mut fields = Map::new();
    for pair in pairs {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| invalid(format!("{pair} is not of the form key=value")))?;
        if fields.insert(key.to_owned(), value_of(key, value)).is_some() {
            return Err(invalid(format!("{key} is set twice")));
        }
    }
    decode(Value::Object(fields), Manner { strict: true, text: false })
        .map_err(|issue| issue.failure(FailureClass::DaemonInvalidInput))
}

fn value_of(key: &str, value: &str) -> Value {
    let number = |text: &str| serde_json::from_str(text.trim()).unwrap_or_else(|_| text.trim().into());
    let items = || value.split(',').map(str::trim).filter(|item| !item.is_empty());
    match key {
        _ if value.starts_with('[') => number(value),
        "excludedPorts" => items().map(number).collect(),
        "automaticPortRanges" => items()
            .map(|item| {
                let (start, end) = item.split_once('-').unwrap_or((item, item));
                json!({"start": number(start), "end": number(end)})
            })
            .collect(),
        _ => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_settings() {
        let pairs =
            ["leaseTtlMilliseconds=20000", "automaticPortRanges=10240-19999, 30000", "excludedPorts="];
        let updates = read(&pairs.map(str::to_owned)).unwrap();
        assert_eq!(
            serde_json::to_value(updates).unwrap(),
            json!({
                "leaseTtlMilliseconds": 20_000,
                "automaticPortRanges": [{"start": 10240, "end": 19999}, {"start": 30000, "end": 30000}],
                "excludedPorts": []
            })
        );
        for wrong in ["leaseTtlMilliseconds", "home=/x", "leaseTtlMilliseconds=soon", "excludedPorts=0"] {
            assert!(read(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
