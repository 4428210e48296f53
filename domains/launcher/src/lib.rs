//! Launcher sessions: who is starting, stopping or restarting a stack just now.
//!
//! This domain holds its name and no tool yet: an agent is shown nothing of it.

#![warn(missing_docs)]

portreeve_registry::domain!("launcher");
