//! A spend's input names the handle: there is nothing else to spend.

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
    GetSky: CredentialBearing = POST "/v1/weather/{town}" needs "weather-v1", Town => Sky
}

/// Names the handle.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Held {
    /// The handle.
    credential_handle: CredentialHandle,
}

#[rustfmt::skip] impl NamesHandle for Held { fn handle(&self) -> &CredentialHandle { &self.credential_handle } }

tool! {
    /// Let the sky go.
    spend SkyRelease = "weather_sky_release"
}
impl Spend for SkyRelease {
    type Operation = GetSky;
    type Input = Held;
    type Output = Sky;
    const SETTLES: bool = true;
    fn example() -> Example<Held> {
        Example::of(Held { credential_handle: CredentialHandle::example("cred_0") })
    }
    fn request(_: Held, held: portreeve_registry::Held) -> Town {
        Town { town: held.subject }
    }
    fn changed(reply: &Sky) -> bool {
        reply.rain
    }
    fn pending(_: &Sky) -> Option<Vec<String>> {
        None
    }
    fn output(reply: Sky) -> Sky {
        reply
    }
    fn summary(_: &Sky, _: bool) -> String {
        String::new()
    }
}

fn main() {}
