//! Leases: a port held for a server that is about to start, then proved to be that server's.
//!
//! acquire → the server starts → confirm, or abandon; release when it has stopped.
//! Wire types, operations and tools. Deciding is the daemon's.

#![warn(missing_docs)]

mod operations;
mod tools;

pub use operations::{
    AbandonLease, AbandonRequest, Abandoned, AcquireLease, AcquireRequest, Acquired, Allocation,
    ConfirmLease, ConfirmRequest, Confirmed, Holder, InsteadOf, LeaseStanding, ReleaseRequest, ReleaseRun,
    Released, RenewLease, RenewRequest, Renewed, ReplacementPolicy, WhyNot,
};
pub use tools::{
    AbandonInput, AbandonOutput, AcquireInput, AcquireOutput, ConfirmInput, ConfirmOutput, CustodyInput,
    CustodyMinutes, CustodyOutput, LeasesAbandon, LeasesAcquire, LeasesConfirm, LeasesCustodyExtend,
    LeasesRelease, ReleaseInput, ReleaseOutput,
};

portreeve_registry::domain!("leases");
