//! The changes that stay within the store: of claims and of settings. (Ending processes: `reclaim`.)

mod claim;
mod delete;
mod folders;
mod prune;
mod reassign;
mod settings;
