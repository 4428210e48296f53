//! What a tool takes has a schema: without one no host could be told its shape.

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

/// What the agent says.
#[derive(Serialize, Deserialize)]
struct Said {
    /// Its name.
    town: String,
}

tool! {
    /// Tell whether it rains.
    read SkyGet = "weather_sky_get"
}
impl Read for SkyGet {
    type Operation = GetSky;
    type Input = Said;
    type Output = Sky;
    fn example() -> Example<Said> {
        Example::of(Said { town: "Bergen".into() })
    }
    fn request(input: Said) -> Town {
        Town { town: input.town }
    }
    fn output(reply: Sky) -> Sky {
        reply
    }
    fn summary(_: &Sky) -> String {
        String::new()
    }
}

fn main() {}
