//! The typed client of the PortReeve daemon, for our own rooms and for anybody's project tooling.
//!
//! ```no_run
//! use portreeve_client::{Client, Options, places::Places};
//! use portreeve_diagnostics::{GetHealth, Nothing};
//! use portreeve_records::{Origin, OriginKind};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let socket = Places::from_env(None, None)?.socket;
//! let origin = Origin { kind: OriginKind::Library, run_id: None, label: None };
//! let client = Client::new(Options::new(socket, origin, "1.0.0"));
//! let health = client.call::<GetHealth>(&Nothing {}).await?;
//! println!("{} answers", health.software_version);
//! # Ok(())
//! # }
//! ```
//!
//! A call goes over a kept connection, which is looked at before it is used and made anew when it is found dead.
//! The daemon's compatibility is checked once a connection.
//! Every failure is a [`portreeve_registry::Failure`] whose class says whether the request may have reached the
//! daemon; a reply is whole, of this request and valid JSON, or it is a failure.
//!
//! [`Client::with_port`] does the whole of what a launcher needs: hold a port, start a server on it, prove it, and
//! give the port back.
//!
//! **Invariant:** this crate has no path to SQLite, links no daemon, spawns no process and listens nowhere.

#![warn(missing_docs)]

mod ask;
mod client;
pub mod clock;
mod compatibility;
mod connect;
mod connection;
mod exchange;
pub mod footprint;
mod list;
pub mod places;
mod reply;
mod traffic;
mod waiting;
mod with_port;

pub use ask::Ask;
pub use client::{Client, DEFAULT_DEADLINE, Options};
pub use compatibility::{Compatibility, PROTOCOL};
pub use exchange::LARGEST_REPLY;
pub use list::Rows;
pub use waiting::LONGEST_WAIT;
pub use with_port::{PortRequest, WithPortError};
