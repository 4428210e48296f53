//! Ports: who has them, who listens on them, and how that is known.
//!
//! Wire types, operations and tools. Looking is the daemon's.

#![warn(missing_docs)]

mod operations;
mod reclaim;
mod tools;

pub use operations::{GetPort, ListPorts, PortFilter, PortRef};
pub use reclaim::{
    EvictPort, EvictRequest, ExpectedProcess, LauncherAction, ReclaimAction, ReclaimActionRequest,
    ReclaimKind, ReclaimObserved, ReclaimOutcome, ReclaimPolicy, ReclaimPort, ReclaimProposal,
    ReclaimRequest, Reclamation, SentSignal, SignalName,
};
pub use tools::reclaim::{
    PortsReclaim, ReclaimDone, ReclaimInput, ReclaimPolicyInput, ReclaimShown, TargetItem,
};
pub use tools::{PortItem, PortsGet, PortsList, PortsListFilter};

portreeve_registry::domain!("ports");
