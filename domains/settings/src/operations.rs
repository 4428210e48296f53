//! What the daemon answers of settings.

use crate::Settings;
use portreeve_registry::operation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A request without fields.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

operation! {
    /// The settings in force.
    pub GetSettings: Routine = GET "/v1/config" needs "observability-v1", Nothing => Settings
}

/// Asks for other settings in one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdateSettingsRequest {
    /// The keys to change.
    pub updates: Map<String, Value>,
}

operation! {
    /// Changes settings in one step, without a receipt.
    pub UpdateSettings: Consequential = POST "/v1/config" needs "administration-v1",
    UpdateSettingsRequest => Settings
}
