//! Claims: which endpoint of which component in which worktree has which port.
//!
//! Wire types, operations and tools. Deciding is the daemon's.

#![warn(missing_docs)]

mod operations;
mod tools;

pub use operations::{ClaimFilter, ClaimKey, ClaimRef, GetClaim, ListClaims};
pub use tools::{ClaimItem, ClaimsGet, ClaimsList, ClaimsListFilter};

portreeve_registry::domain!("claims");
