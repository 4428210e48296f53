//! What a tool answers has a schema: without one no host could be told its shape.

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
    GetSky: Routine = GET "/v1/weather/{town}" needs "weather-v1", Town => Sky
}

/// What the agent sees.
#[derive(Serialize, JsonSchema)]
struct Shown {
    /// Whether it rains.
    rain: bool,
}

tool! {
    /// Tell whether it rains.
    read SkyGet = "weather_sky_get"
}
impl Read for SkyGet {
    type Operation = GetSky;
    type Input = Town;
    type Output = Shown;
    fn example() -> Example<Town> {
        Example::of(Town { town: "Bergen".into() })
    }
    fn request(input: Town) -> Town {
        input
    }
    fn output(reply: Sky) -> Shown {
        Shown { rain: reply.rain }
    }
    fn summary(_: &Shown) -> String {
        String::new()
    }
}

fn main() {}
