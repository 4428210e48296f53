//! Under construction.

pub mod clock;
pub mod store;
