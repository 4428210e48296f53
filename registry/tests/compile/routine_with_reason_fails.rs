//! A reason to keep an operation from agents means that it is kept from them.

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
    /// The sky over a town.
    GetSky: Routine = GET "/v1/weather/{town}" needs "weather-v1", Town => Sky, because "nobody may"
}

fn main() {}
