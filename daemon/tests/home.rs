//! The daemon's home, socket and store: real files, real locks, real processes.

#[path = "home/children.rs"]
mod children;
#[path = "home/holding.rs"]
mod holding;
#[path = "home/mounted.rs"]
mod mounted;
#[path = "home/opening.rs"]
mod opening;
#[path = "home/power.rs"]
mod power;
#[path = "home/repairing.rs"]
mod repairing;
#[path = "home/schema.rs"]
mod schema;
#[path = "home/support.rs"]
mod support;
#[path = "home/writing.rs"]
mod writing;
