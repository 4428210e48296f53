//! `settings_update_preview` and `settings_update_execute`.

use crate::{Impact, Settings, SettingsUpdates, UpdateAction, UpdateObserved, UpdateProposal};
use crate::{UpdateSettingsRequest, Updated};
use portreeve_registry::{Change, Effect, Example, Executed, NoTarget, Receipt, tool};
use schemars::JsonSchema;
use serde::Serialize;

tool! {
    /// Change settings, for every project on this machine: port ranges, exclusions, how long leases and
    /// ephemeral ports last, the grace before a kill, what is kept. The preview shows what it touches; no
    /// claim or lease loses its port by it.
    pub change SettingsUpdate = "settings_update"
}

/// What would happen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UpdateShown {
    /// The keys that would change.
    pub updates: SettingsUpdates,
    /// The settings in force.
    pub current: Settings,
    /// The settings as they would be.
    pub proposed: Settings,
    /// What the change would touch.
    pub impact: Impact,
}

/// The settings from now on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UpdateDone {
    /// The settings.
    pub settings: Settings,
}

impl Change for SettingsUpdate {
    const EFFECT: Effect = Effect::Reversible;
    type Action = UpdateAction;
    type Input = UpdateSettingsInput;
    type Shown = UpdateShown;
    type Done = UpdateDone;

    fn example() -> Example<UpdateSettingsInput> {
        let updates = SettingsUpdates { lease_ttl_milliseconds: Some(20_000), ..Default::default() };
        Example::of(UpdateSettingsInput { updates })
    }
    fn example_target() -> NoTarget {
        NoTarget {}
    }
    fn request(input: UpdateSettingsInput) -> UpdateSettingsRequest {
        UpdateSettingsRequest { updates: input.updates }
    }
    fn shown(receipt: Receipt<UpdateProposal, UpdateObserved>) -> UpdateShown {
        UpdateShown {
            updates: receipt.proposal.updates,
            current: receipt.observed.current,
            proposed: receipt.proposal.proposed,
            impact: receipt.observed.impact,
        }
    }
    fn done(result: Updated) -> UpdateDone {
        UpdateDone { settings: result.settings }
    }
    fn preview_summary(shown: &UpdateShown) -> String {
        let changed = changes(&shown.current, &shown.proposed);
        if changed.is_empty() {
            return "Nothing would change: these are the settings in force.".to_owned();
        }
        let lines: Vec<String> =
            changed.iter().map(|(key, before, after)| format!("{key}: {before} to {after}")).collect();
        format!(
            "{}. Touches {} claims and {} pending leases; none loses its port.",
            lines.join("; "),
            shown.impact.claim_count,
            shown.impact.lease_count
        )
    }
    fn execute_summary(done: &Executed<UpdateDone>) -> String {
        if done.replayed { "As recorded: the settings were changed." } else { "The settings are changed." }
            .to_owned()
    }
}

/// The keys to change.
#[derive(Clone, Debug, Serialize, serde::Deserialize, JsonSchema)]
pub struct UpdateSettingsInput {
    /// The keys to change; at least one.
    pub updates: SettingsUpdates,
}

/// The settings that differ: key, before, after, each as compact JSON of at most 80 characters.
pub fn changes(before: &Settings, after: &Settings) -> Vec<(String, String, String)> {
    let object = |settings: &Settings| match serde_json::to_value(settings) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (before, after) = (object(before), object(after));
    let short = |value: Option<&serde_json::Value>| -> String {
        let text = value.map(ToString::to_string).unwrap_or_default();
        match text.char_indices().nth(80) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    before
        .iter()
        .filter(|(key, value)| after.get(*key) != Some(value))
        .map(|(key, value)| (key.clone(), short(Some(value)), short(after.get(key))))
        .collect()
}
