//! The nouns that several domains show of one another, and their ids.
//!
//! No operations and no tools: those live in the domain crates above.
//! Field names and shapes are protocol 1's; what we add is absent where an old client would not expect it.

#![warn(missing_docs)]

mod claim;
mod event;
mod inventory;
mod lease;
mod process;
mod run;
mod text;

pub use claim::{Claim, ClaimIdentity, ClaimMode, Transport};
pub use event::{Event, Origin, OriginKind};
pub use inventory::{
    Classification, DockerContainer, DockerEvidence, DockerPort, EvidenceNote, EvidenceState, HolderView,
    InventoryEntry, Listener, Ownership, OwnershipReason,
};
pub use lease::{AbandonReason, LeaseState, LeaseView};
pub use process::ProcessView;
pub use run::{BindingKind, ConfirmedListener, RunState, RunView};
pub use text::{Id, Named, Pid, PortNumber, WorkspaceRoot};
