//! The settings, their defaults and their bounds.

use portreeve_records::PortNumber;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortRange {
    /// The lowest.
    pub start: PortNumber,
    /// The highest.
    pub end: PortNumber,
}

/// The rules by which the daemon hands out ports and keeps records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Where ports are chosen from when none is asked for; 1 to 16, not overlapping.
    #[schemars(length(min = 1, max = 16))]
    pub automatic_port_ranges: Vec<PortRange>,
    /// Ports that are never chosen automatically.
    #[schemars(length(max = 4096))]
    pub excluded_ports: Vec<PortNumber>,
    /// How long a lease holds a port without renewal; 1000 to 120000.
    #[schemars(range(min = 1000, max = 120_000))]
    pub lease_ttl_milliseconds: u64,
    /// How long an ephemeral claim keeps its port after its last use; 1000 to 86400000.
    #[schemars(range(min = 1000, max = 86_400_000))]
    pub ephemeral_assignment_ttl_milliseconds: u64,
    /// How long a process gets to end after SIGTERM; 100 to 60000.
    #[schemars(range(min = 100, max = 60_000))]
    pub graceful_shutdown_milliseconds: u64,
    /// How many history events are kept; 100 to 100000.
    #[schemars(range(min = 100, max = 100_000))]
    pub history_maximum_events: u64,
    /// How large a log file grows, in bytes; 16384 to 104857600.
    #[schemars(range(min = 16_384, max = 104_857_600))]
    pub diagnostic_log_maximum_bytes: u64,
    /// How many log files are kept; 1 to 16.
    #[schemars(range(min = 1, max = 16))]
    pub diagnostic_log_files: u64,
}

const fn port(number: u16) -> PortNumber {
    match PortNumber::new(number) {
        Some(port) => port,
        None => panic!("no port is zero"),
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            automatic_port_ranges: vec![PortRange { start: port(10240), end: port(49151) }],
            excluded_ports: Vec::new(),
            lease_ttl_milliseconds: 15_000,
            ephemeral_assignment_ttl_milliseconds: 3_600_000,
            graceful_shutdown_milliseconds: 5_000,
            history_maximum_events: 10_000,
            diagnostic_log_maximum_bytes: 1_048_576,
            diagnostic_log_files: 3,
        }
    }
}
