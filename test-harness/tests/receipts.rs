//! Nothing consequential happens without a receipt: the real daemon, real processes, real crashes.

#[path = "receipts/claims.rs"]
mod claims;
#[path = "receipts/cli.rs"]
mod cli;
#[path = "receipts/crash.rs"]
mod crash;
#[path = "receipts/engine.rs"]
mod engine;
#[path = "receipts/mcp.rs"]
mod mcp;
#[path = "receipts/prune.rs"]
mod prune;
#[path = "receipts/reclaim.rs"]
mod reclaim;
#[path = "receipts/settings.rs"]
mod settings;
#[path = "receipts/support.rs"]
mod support;
#[path = "receipts/trees.rs"]
mod trees;
