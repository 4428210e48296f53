//! The tools of this domain.

mod abandon;
mod acquire;
mod confirm;
mod custody_extend;
mod release;

pub use abandon::{AbandonInput, AbandonOutput, LeasesAbandon};
pub use acquire::{AcquireInput, AcquireOutput, LeasesAcquire};
pub use confirm::{ConfirmInput, ConfirmOutput, LeasesConfirm};
pub use custody_extend::{CustodyInput, CustodyMinutes, CustodyOutput, LeasesCustodyExtend};
pub use release::{LeasesRelease, ReleaseInput, ReleaseOutput};
