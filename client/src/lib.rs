//! Under construction.

pub mod places;
