//! A path that executes is made by an action, with its preview.

use portreeve_registry::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

domain!("weather");

/// A town.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Town {
    /// Its name.
    town: String,
}

/// What the sky does.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Sky {
    /// Whether it rains.
    rain: bool,
}

operation! {
    /// Makes it rain.
    MakeRain: Routine = POST "/v1/weather/rain/execute" needs "weather-v1", Town => Sky
}

fn main() {}
