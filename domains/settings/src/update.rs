//! Changing settings: what can be changed, the bounds, and what a change would touch.

use crate::{PortRange, Settings};
use portreeve_records::{Id, PortNumber};
use portreeve_registry::{Action, Issue, NoTarget, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The settings to change; what isn't named stays. Unknown keys are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettingsUpdates {
    /// Where ports are chosen from; 1 to 16 ranges, not overlapping.
    #[schemars(length(min = 1, max = 16))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automatic_port_ranges: Option<Vec<PortRange>>,
    /// Ports never chosen automatically; at most 4096.
    #[schemars(length(max = 4096))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_ports: Option<Vec<PortNumber>>,
    /// 1000 to 120000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ttl_milliseconds: Option<u64>,
    /// 1000 to 86400000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_assignment_ttl_milliseconds: Option<u64>,
    /// 100 to 60000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graceful_shutdown_milliseconds: Option<u64>,
    /// 100 to 100000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_maximum_events: Option<u64>,
    /// 16384 to 104857600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic_log_maximum_bytes: Option<u64>,
    /// 1 to 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic_log_files: Option<u64>,
}

impl SettingsUpdates {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        *self == SettingsUpdates::default()
    }

    /// The settings as they would be.
    pub fn over(&self, current: &Settings) -> Settings {
        let number = |new: Option<u64>, old: u64| new.unwrap_or(old);
        Settings {
            automatic_port_ranges: self
                .automatic_port_ranges
                .clone()
                .unwrap_or_else(|| current.automatic_port_ranges.clone()),
            excluded_ports: self.excluded_ports.clone().unwrap_or_else(|| current.excluded_ports.clone()),
            lease_ttl_milliseconds: number(self.lease_ttl_milliseconds, current.lease_ttl_milliseconds),
            ephemeral_assignment_ttl_milliseconds: number(
                self.ephemeral_assignment_ttl_milliseconds,
                current.ephemeral_assignment_ttl_milliseconds,
            ),
            graceful_shutdown_milliseconds: number(
                self.graceful_shutdown_milliseconds,
                current.graceful_shutdown_milliseconds,
            ),
            history_maximum_events: number(self.history_maximum_events, current.history_maximum_events),
            diagnostic_log_maximum_bytes: number(
                self.diagnostic_log_maximum_bytes,
                current.diagnostic_log_maximum_bytes,
            ),
            diagnostic_log_files: number(self.diagnostic_log_files, current.diagnostic_log_files),
        }
    }

    /// Every bound that the changes break, each by its field.
    pub fn broken_bounds(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut number = |name: &str, value: Option<u64>, least: u64, most: u64| {
            let Some(value) = value else { return };
            if !(least..=most).contains(&value) {
                let code = if value < least { "too_small" } else { "too_big" };
                issues.push(issue(&[name.into()], code, format!("expected {least} to {most}, got {value}")));
            }
        };
        number("leaseTtlMilliseconds", self.lease_ttl_milliseconds, 1000, 120_000);
        number(
            "ephemeralAssignmentTtlMilliseconds",
            self.ephemeral_assignment_ttl_milliseconds,
            1000,
            86_400_000,
        );
        number("gracefulShutdownMilliseconds", self.graceful_shutdown_milliseconds, 100, 60_000);
        number("historyMaximumEvents", self.history_maximum_events, 100, 100_000);
        number("diagnosticLogMaximumBytes", self.diagnostic_log_maximum_bytes, 16_384, 104_857_600);
        number("diagnosticLogFiles", self.diagnostic_log_files, 1, 16);
        if let Some(ranges) = &self.automatic_port_ranges {
            ranges_in_order(ranges, &mut issues);
        }
        if let Some(ports) = &self.excluded_ports {
            let name = "excludedPorts";
            if ports.len() > 4096 {
                let text = format!("expected at most 4096 ports, got {}", ports.len());
                issues.push(issue(&[name.into()], "too_big", text));
            }
            let mut seen = BTreeSet::new();
            if let Some(at) = ports.iter().position(|port| !seen.insert(*port)) {
                let text = format!("expected each port once, got {} twice", ports[at]);
                issues.push(issue(&[name.into(), at.into()], "custom", text));
            }
        }
        issues
    }
}

fn issue(path: &[serde_json::Value], code: &'static str, message: String) -> Issue {
    Issue { code, message, path: path.to_vec() }
}

fn ranges_in_order(ranges: &[PortRange], issues: &mut Vec<Issue>) {
    let name = "automaticPortRanges";
    if ranges.is_empty() || ranges.len() > 16 {
        let code = if ranges.is_empty() { "too_small" } else { "too_big" };
        issues.push(issue(&[name.into()], code, format!("expected 1 to 16 ranges, got {}", ranges.len())));
    }
    for (at, range) in ranges.iter().enumerate() {
        if range.start > range.end {
            let text = format!("expected the start up to the end, got {}-{}", range.start, range.end);
            issues.push(issue(&[name.into(), at.into()], "custom", text));
        }
        let overlaps = |other: &&PortRange| other.start <= range.end && range.start <= other.end;
        if let Some(other) = ranges[..at].iter().find(overlaps) {
            let text = format!(
                "expected ranges apart, but {}-{} overlaps {}-{}",
                range.start, range.end, other.start, other.end
            );
            issues.push(issue(&[name.into(), at.into()], "custom", text));
        }
    }
}

/// Asks for other settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdateSettingsRequest {
    /// The keys to change; at least one.
    pub updates: SettingsUpdates,
}

operation! {
    /// Changes settings in one step, without a receipt.
    pub UpdateSettings: Consequential = POST "/v1/config" needs "administration-v1",
    UpdateSettingsRequest => Settings
}

/// What a change of settings proposes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdateProposal {
    /// The keys to change.
    pub updates: SettingsUpdates,
    /// The settings as they would be.
    pub proposed: Settings,
}

/// A claim whose port the new ranges or exclusions no longer give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AffectedClaim {
    /// The claim.
    pub claim_id: Id,
    /// Its port, which it keeps.
    pub port: PortNumber,
}

/// A pending lease that the change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AffectedLease {
    /// The lease.
    pub lease_id: Id,
    /// Its port, which it keeps.
    pub port: PortNumber,
    /// Whether its next renewal gives it another time.
    pub lease_time_changes: bool,
}

/// What a change of settings would touch: of each list at most 50.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Impact {
    /// Claims whose ports the new ranges or exclusions no longer give; they keep them.
    #[schemars(length(max = 50))]
    pub claims: Vec<AffectedClaim>,
    /// How many they are.
    pub claim_count: usize,
    /// Pending leases that are touched.
    #[schemars(length(max = 50))]
    pub leases: Vec<AffectedLease>,
    /// How many they are.
    pub lease_count: usize,
}

/// What was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdateObserved {
    /// The settings in force.
    pub current: Settings,
    /// What the change would touch.
    #[serde(default)]
    pub impact: Impact,
}

/// The settings from now on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Updated {
    /// The settings.
    pub settings: Settings,
}

/// Changing settings.
#[derive(Clone, Copy, Debug)]
pub enum UpdateAction {}
impl Action for UpdateAction {
    const ACTION: &'static str = "settings.update";
    const TARGET: &'static str = "settings";
    const PREVIEW_PATH: &'static str = "/v1/actions/settings/preview";
    const EXECUTE_PATH: &'static str = "/v1/actions/settings/execute";
    const CAPABILITY: &'static str = "administration-v1";
    type Target = NoTarget;
    type Request = UpdateSettingsRequest;
    type Proposal = UpdateProposal;
    type Observed = UpdateObserved;
    type Result = Updated;
}
operation! { action UpdateAction }

#[cfg(test)]
mod tests {
    use super::*;
    use portreeve_registry::{Manner, decode};
    use serde_json::json;

    #[test]
    fn every_broken_bound_is_named_by_its_field() {
        let updates = json!({
            "automaticPortRanges": [{"start": 2, "end": 1}, {"start": 10, "end": 20}, {"start": 20, "end": 30}],
            "excludedPorts": [1, 2, 1],
            "leaseTtlMilliseconds": 5, "ephemeralAssignmentTtlMilliseconds": 86_400_001,
            "gracefulShutdownMilliseconds": 99, "historyMaximumEvents": 99,
            "diagnosticLogMaximumBytes": 1, "diagnosticLogFiles": 17,
        });
        let updates: SettingsUpdates = decode(updates, Manner::default()).unwrap();
        let found: Vec<String> = updates.broken_bounds().iter().map(|i| i.place()).collect();
        assert_eq!(
            found,
            [
                "leaseTtlMilliseconds",
                "ephemeralAssignmentTtlMilliseconds",
                "gracefulShutdownMilliseconds",
                "historyMaximumEvents",
                "diagnosticLogMaximumBytes",
                "diagnosticLogFiles",
                "automaticPortRanges.0",
                "automaticPortRanges.2",
                "excludedPorts.2"
            ]
        );
        let none = SettingsUpdates { automatic_port_ranges: Some(Vec::new()), ..Default::default() };
        assert_eq!(none.broken_bounds()[0].code, "too_small");
        assert!(SettingsUpdates::default().broken_bounds().is_empty());
    }

    #[test]
    fn unknown_keys_are_refused() {
        let refused = decode::<SettingsUpdates>(json!({"socketPath": "/x"}), Manner::default()).unwrap_err();
        assert_eq!(refused.code, "unrecognized_keys");
    }
}
