//! A read can't be made of an act that only a preview and an execute may do.

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
    GetSky: Routine = POST "/v1/weather" needs "weather-v1", Town => Sky
}

tool! {
    /// Tell whether it rains.
    read SkyGet = "weather_sky_get"
}
impl Read for SkyGet {
    type Operation = GetSky;
    type Input = Town;
    type Output = Sky;
    fn example() -> Example<Town> {
        Example::of(Town { town: "Bergen".into() })
    }
    fn request(input: Town) -> Town {
        input
    }
    fn output(reply: Sky) -> Sky {
        reply
    }
    fn summary(_: &Sky) -> String {
        String::new()
    }
}

fn main() {}
