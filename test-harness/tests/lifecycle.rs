//! The life of claims, leases and runs, with a real daemon, real servers and real processes.
//!
//! Runs as any user. `PORTREEVE_TEST_UID` starts the daemons and their servers as another one, with holders of this
//! one beside them (`scripts/test-unprivileged.sh` does so). A case that needs more than it has prints
//! `not run: NAME: WHY`.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "tells which cases could not be run")]

#[path = "lifecycle/actor.rs"]
mod actor;
#[path = "lifecycle/confirm.rs"]
mod confirm;
#[path = "lifecycle/crowd.rs"]
mod crowd;
#[path = "lifecycle/death.rs"]
mod death;
#[path = "lifecycle/faults.rs"]
mod faults;
#[path = "lifecycle/instead_of.rs"]
mod instead_of;
#[path = "lifecycle/inventory.rs"]
mod inventory;
#[path = "lifecycle/isolation.rs"]
mod isolation;
#[path = "lifecycle/listing.rs"]
mod listing;
#[path = "lifecycle/refused.rs"]
mod refused;
#[path = "lifecycle/running.rs"]
mod running;
#[path = "lifecycle/support.rs"]
mod support;
#[path = "lifecycle/time.rs"]
mod time;
