//! Under construction.

pub mod clock;
pub mod home;
pub mod socket;
pub mod store;
