//! A grant without credentials is none: a mutation or a read says it.

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
    /// Hold the sky.
    grant SkyHold = "weather_sky_hold"
}
impl Grant for SkyHold {
    type Operation = GetSky;
    type Input = Town;
    type Output = Sky;
    fn example() -> Example<Town> {
        Example::of(Town { town: "Bergen".into() })
    }
    fn purpose(input: &Town) -> String {
        input.town.clone()
    }
    fn request(input: Town, _: Secret) -> Town {
        input
    }
    fn changed(reply: &Sky) -> bool {
        reply.rain
    }
    fn receive(reply: Sky, _: &mut dyn Custody) -> Sky {
        reply
    }
    fn summary(_: &Sky, _: bool) -> String {
        String::new()
    }
}

fn main() {}
