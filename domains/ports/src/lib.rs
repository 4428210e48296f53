//! Ports: who has them, who listens on them, and how that is known.
//!
//! Wire types, operations and tools. Looking is the daemon's.

#![warn(missing_docs)]

mod operations;
mod tools;

pub use operations::{
    EvictPort, EvictRequest, GetPort, ListPorts, PortFilter, PortRef, ReclaimPolicy, ReclaimPort,
    ReclaimRequest, Reclamation,
};
pub use tools::{PortItem, PortsGet, PortsList, PortsListFilter};

portreeve_registry::domain!("ports");
