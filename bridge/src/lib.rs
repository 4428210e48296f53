//! The bridge: MCP over stdio for one agent host.
//!
//! It advertises the tools of the linked domains, sends each call to the daemon, keeps credentials in custody and
//! accounts for every failure. It owns no database, no listener and no process, and nothing of it outlives it
//! but the failure spool.

pub mod answer;
pub mod edge;
pub mod server;
