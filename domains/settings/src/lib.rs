//! Settings: the rules by which the daemon hands out ports and keeps records.
//!
//! The record, its bounds, operations and tools. Storing is the daemon's.

#![warn(missing_docs)]

mod operations;
mod record;
mod tools;
mod update;

pub use operations::{GetSettings, Nothing};
pub use record::{PortRange, Settings};
pub use tools::SettingsGet;
pub use tools::update::{SettingsUpdate, UpdateDone, UpdateSettingsInput, UpdateShown, changes};
pub use update::{
    AffectedClaim, AffectedLease, Impact, SettingsUpdates, UpdateAction, UpdateObserved, UpdateProposal,
    UpdateSettings, UpdateSettingsRequest, Updated,
};

portreeve_registry::domain!("settings");
