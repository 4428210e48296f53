//! Sandbox snapshots: a component's endpoints as a sandbox reaches them, redacted.
//!
//! This domain holds its name and no tool yet: an agent is shown nothing of it.

#![warn(missing_docs)]

portreeve_registry::domain!("sandbox");
