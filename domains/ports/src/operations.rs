//! What the daemon answers of ports.

use portreeve_records::{Classification, InventoryEntry, Named, PortNumber};
use portreeve_registry::{Listing, Routine, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// How far ending a process may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ReclaimPolicy {
    /// Nothing is ended.
    Never,
    /// SIGTERM, and no more.
    #[default]
    Graceful,
    /// SIGTERM, and SIGKILL once the grace has passed.
    ForceAfterGrace,
}

/// Asks for a port back in one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimRequest {
    /// The port.
    pub port: PortNumber,
    /// How far it may go.
    pub policy: ReclaimPolicy,
    /// Whether only to look.
    #[serde(default)]
    pub dry_run: bool,
}

/// What came of a reclamation, as protocol 1 tells it.
pub type Reclamation = Map<String, Value>;

operation! {
    /// Ends a confirmed run's processes to get its port back, in one step and without a receipt.
    pub ReclaimPort: Consequential = POST "/v1/ports/{port}/reclaim" needs "reclamation-v1",
    ReclaimRequest => Reclamation
}

/// Asks for a port back from whoever has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictRequest {
    /// The port.
    pub port: PortNumber,
    /// Must be true: whoever holds the port is ended, proved or not.
    pub unsafe_any_owner: bool,
    /// How far it may go.
    #[serde(default)]
    pub policy: ReclaimPolicy,
    /// Whether only to look.
    #[serde(default)]
    pub dry_run: bool,
}

operation! {
    /// Ends whoever holds a port, proved or not.
    pub EvictPort: Withheld = POST "/v1/ports/{port}/unsafe-evict" needs "reclamation-v1",
    EvictRequest => Reclamation,
    because "it ends processes that nothing proves to be the caller's: for a person at a terminal only"
}
