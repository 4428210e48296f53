//! Settings: the rules by which the daemon hands out ports and keeps records.
//!
//! The record, its bounds, operations and tools. Storing is the daemon's.

#![warn(missing_docs)]

mod operations;
mod record;
mod tools;

pub use operations::{GetSettings, Nothing, UpdateSettings, UpdateSettingsRequest};
pub use record::{PortRange, Settings};
pub use tools::SettingsGet;

portreeve_registry::domain!("settings");
