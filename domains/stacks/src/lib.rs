//! Stacks: whole sets of services, defined in a worktree's `portreeve.stack.json`.
//!
//! This domain holds its name and no tool yet: an agent is shown nothing of it.

#![warn(missing_docs)]

portreeve_registry::domain!("stacks");
