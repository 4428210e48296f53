//! Activations: one start of a stack's generation, endpoint by endpoint.
//!
//! This domain holds its name and no tool yet: an agent is shown nothing of it.

#![warn(missing_docs)]

portreeve_registry::domain!("activations");
