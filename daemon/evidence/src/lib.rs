//! What the kernel says of TCP ports and of the processes behind them, read for the question at hand.
//!
//! One interface, [`Source`], with the kernel behind it ([`Kernel`]) or, with the feature `simulated`, a
//! table in memory for the tests of rules. Everything is synchronous and may be called from any thread.
//!
//! ```no_run
//! use std::time::Duration;
//! use portreeve_evidence::{Deadline, Kernel, Search, Source};
//!
//! let kernel = Kernel::new()?;
//! let deadline = Deadline::after(Duration::from_millis(500));
//! let sockets = kernel.listening_on(3000, &deadline)?;
//! for holding in kernel.holdings(&sockets, Search::Every, &deadline) {
//!     // holding.holders: who; holding.visibility: why nobody, if nobody
//! }
//! # Ok::<(), portreeve_evidence::Unknown>(())
//! ```
//!
//! Three rules hold throughout:
//! - *Unknown is an answer of its own.* What could not be read, or not within the [`Deadline`], is
//!   [`Unknown`], and is never to be taken for "free" or "gone".
//! - *A process is pid and start time* ([`ProcessId`]), within one boot ([`Source::boot_id`]). A pid alone is
//!   accepted where a caller only has that, and never given back alone.
//! - *Nothing is stored as truth.* The source remembers where it saw a socket's descriptor, and looks there
//!   again before it says so again.
//!
//! What this crate does not do: it knows no claims, leases or runs, no store, no container engine and no
//! clock but the kernel's; it sends no signals (it hands out the pidfd to do so), starts no child process and
//! writes nothing.

mod answers;
mod bad_ports;
mod deadline;
mod port;
mod process;
mod socket;
mod source;
mod unknown;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;

pub use bad_ports::{bad_ports, is_bad_port};
pub use deadline::Deadline;
#[cfg(target_os = "linux")]
pub use linux::Linux as Kernel;
#[cfg(target_os = "macos")]
pub use macos::MacOs as Kernel;
pub use port::{PortFacts, Probe, Table};
pub use process::{Kin, Lineage, Liveness, NoPidfd, Process, ProcessId};
pub use socket::{Holder, Holding, Search, Socket, Visibility};
pub use source::Source;
pub use unknown::{Reading, Unknown, Why};
