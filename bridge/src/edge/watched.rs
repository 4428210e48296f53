//! One step: a descriptor that the runtime's poller watches.

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches `fd`; gives it back when the operating system can't, as for a file.
#[expect(unsafe_code, reason = "tokio can't check that a descriptor stays open while it is watched")]
pub(super) fn watched(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, OwnedFd> {
    // SAFETY: an `OwnedFd` is open and keeps its number until it is dropped, and the `AsyncFd` owns it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(|refused| refused.into_parts().0)
}
