//! A mutation can't be made of an operation that carries a raw credential.

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
    GetSky: CredentialBearing = POST "/v1/weather" needs "weather-v1", Town => Sky
}

tool! {
    /// Make it rain.
    mutation SkySet = "weather_sky_set"
}
impl Mutation for SkySet {
    type Operation = GetSky;
    type Input = Town;
    type Output = Sky;
    fn example() -> Example<Town> {
        Example::of(Town { town: "Bergen".into() })
    }
    fn request(input: Town) -> Town {
        input
    }
    fn changed(reply: &Sky) -> bool {
        reply.rain
    }
    fn output(reply: Sky) -> Sky {
        reply
    }
    fn summary(_: &Sky, _: bool) -> String {
        String::new()
    }
}

fn main() {}
