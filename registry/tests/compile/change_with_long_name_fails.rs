//! A change's name leaves room for what its two faces add.

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

/// Makes it rain.
enum MakeRain {}
impl Action for MakeRain {
    const ACTION: &'static str = "weather.rain";
    const TARGET: &'static str = "town";
    const PREVIEW_PATH: &'static str = "/v1/weather/rain/preview";
    const EXECUTE_PATH: &'static str = "/v1/weather/rain/execute";
    const CAPABILITY: &'static str = "weather-v1";
    type Target = Town;
    type Request = Town;
    type Proposal = Sky;
    type Observed = Sky;
    type Result = Sky;
}
operation! { action MakeRain }

tool! {
    /// Make it rain.
    change Rain = "weather_rain_over_one_town_in_spring"
}
impl Change for Rain {
    const EFFECT: Effect = Effect::Reversible;
    type Action = MakeRain;
    type Input = Town;
    type Shown = Sky;
    type Done = Sky;
    fn example() -> Example<Town> {
        Example::of(Town { town: "Bergen".into() })
    }
    fn example_target() -> Town {
        Town { town: "Bergen".into() }
    }
    fn request(input: Town) -> Town {
        input
    }
    fn shown(receipt: Receipt<Sky, Sky>) -> Sky {
        receipt.proposal
    }
    fn done(result: Sky) -> Sky {
        result
    }
    fn preview_summary(_: &Sky) -> String {
        String::new()
    }
    fn execute_summary(_: &Executed<Sky>) -> String {
        String::new()
    }
}

fn main() {}
