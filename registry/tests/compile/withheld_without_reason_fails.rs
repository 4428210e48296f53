//! Whoever keeps an operation from agents says why.

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
    /// Ends the weather.
    EndWeather: Withheld = POST "/v1/weather/end" needs "weather-v1", Town => Sky
}

fn main() {}
