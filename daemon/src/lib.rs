//! The PortReeve daemon: the authority that alone knows and decides.
//!
//! `serve` takes the home's lock, opens the store, binds the socket and answers protocol 1 until it is told to
//! stop.
//!
//! | module | its job |
//! | --- | --- |
//! | [`home`], [`socket`] | one daemon a home; a private socket |
//! | [`store`] | one SQLite file, one writer |
//! | `router`, `handler`, `wire`, `server`, `unread` | HTTP, and the slice of handlers |
//! | `inventory`, `ownership` | the one resolver of what a port is |
//! | `pool`, `leases`, `keeper`, `watch` | handing out, expiry, the death of runs |
//! | `receipts`, `changes`, `reclaim` | what is consequential: previewed, bound to evidence, done once |
//! | `claims`, `settings`, `history`, `log`, `health` | one service each |
//!
//! **Invariant:** nothing here listens on TCP.
//! **Invariant:** every mutation is a closure over one IMMEDIATE transaction, its history event in the same one,
//! and is answered after its commit.
//! **Invariant:** facts about listeners and processes are read for the question at hand and stored by nobody.

mod changes;
mod claims;
pub mod clock;
mod daemon;
mod fault;
mod handler;
mod health;
mod history;
pub mod home;
mod inventory;
mod keeper;
mod leases;
mod log;
mod ownership;
mod pool;
mod receipts;
mod reclaim;
mod router;
mod rows;
mod serve;
mod server;
mod settings;
pub mod socket;
pub mod store;
mod unread;
mod watch;
mod wire;
mod workspace;

pub(crate) use daemon::Daemon;
pub use handler::{HANDLERS, Handler};
pub use router::BODY_LIMIT;
pub use serve::{ServeError, ServeOptions, serve};
