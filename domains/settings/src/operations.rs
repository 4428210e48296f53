//! What the daemon answers of settings.

use crate::Settings;
use portreeve_registry::operation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request without fields.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

operation! {
    /// The settings in force.
    pub GetSettings: Routine = GET "/v1/config" needs "observability-v1", Nothing => Settings
}
