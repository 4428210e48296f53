//! A list without a key has no cursor, and so no pages.

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

/// Lists towns.
enum ListTowns {}
impl Listing for ListTowns {
    const PATH: &'static str = "/v1/weather";
    const CAPABILITY: &'static str = "weather-v1";
    type Class = Routine;
    type Filter = Sky;
    type Row = Town;
    type Key = String;
}

tool! {
    /// List the towns.
    collection TownsList = "weather_towns_list"
}
impl Collection for TownsList {
    type Listing = ListTowns;
    type Filter = Sky;
    type Item = Town;
    fn example() -> Example<Sky> {
        Example::of(Sky { rain: true })
    }
    fn filter(filter: Sky) -> Sky {
        filter
    }
    fn item(town: Town) -> Town {
        town
    }
    fn summary(_: &Page<Town>) -> String {
        String::new()
    }
}

fn main() {}
