//! The tools of this domain.

pub(crate) mod update;

use crate::{GetSettings, Nothing, Settings};
use portreeve_registry::{Example, Read, tool};

tool! {
    /// Show the settings in force: port ranges, exclusions, how long leases and ephemeral ports last, and
    /// what is kept.
    pub read SettingsGet = "settings_get"
}
impl Read for SettingsGet {
    type Operation = GetSettings;
    type Input = Nothing;
    type Output = Settings;
    fn example() -> Example<Nothing> {
        Example::of(Nothing {})
    }
    fn request(input: Nothing) -> Nothing {
        input
    }
    fn output(reply: Settings) -> Settings {
        reply
    }
    fn summary(settings: &Settings) -> String {
        let ranges: Vec<String> =
            settings.automatic_port_ranges.iter().map(|r| format!("{}-{}", r.start, r.end)).collect();
        format!(
            "Ports come from {}; a lease lasts {} s.",
            ranges.join(", "),
            settings.lease_ttl_milliseconds as f64 / 1000.0
        )
    }
}
