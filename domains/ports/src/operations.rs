//! What the daemon answers of ports.

use portreeve_records::{Classification, InventoryEntry, Named, PortNumber};
use portreeve_registry::{Listing, Routine, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names one port.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PortRef {
    /// The TCP port.
    pub port: PortNumber,
}

operation! {
    /// All that is known of one port, read afresh.
    pub GetPort: Routine = GET "/v1/ports/{port}" needs "listener-evidence-v1", PortRef => InventoryEntry
}

/// Which ports to list. All that are given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortFilter {
    /// Only ports of this classification.
    pub classification: Option<Classification>,
    /// Only ports with a claim, or only those without.
    pub claimed: Option<bool>,
    /// Only ports with a listener, or only those without.
    pub listening: Option<bool>,
    /// Only ports claimed for this project.
    pub project: Option<Named>,
    /// Only ports claimed for this worktree, exactly.
    pub workspace: Option<String>,
    /// Only ports claimed for this component, under its older name.
    pub service: Option<Named>,
    /// Only ports claimed for this component.
    pub component: Option<Named>,
    /// Only ports claimed for this endpoint.
    pub endpoint: Option<Named>,
    /// Only this port.
    pub port: Option<PortNumber>,
}

/// Lists the ports of which anything is known, by number.
#[derive(Clone, Copy, Debug)]
pub enum ListPorts {}
impl Listing for ListPorts {
    const PATH: &'static str = "/v1/ports";
    const CAPABILITY: &'static str = "listener-evidence-v1";
    type Class = Routine;
    type Filter = PortFilter;
    type Row = InventoryEntry;
    type Key = PortNumber;
}
operation! { list ListPorts }
