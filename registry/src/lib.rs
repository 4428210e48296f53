//! What an operation and a tool are, and the list of every one that is linked in.
//!
//! An *operation* is a question that the daemon answers ([`Operation`], [`Listing`], [`Action`]).
//! A *tool* is an operation as an agent sees it.
//! Its **kind** ([`Read`], [`Collection`], [`Mutation`], [`Change`], [`Grant`], [`Spend`], [`Local`]) decides
//! what the bridge does around it, and the kind's trait can't be implemented without its policy.
//!
//! The smallest domain crate there is:
//!
//! ```
//! use portreeve_registry::{Example, Read, Routine, domain, operation, tool};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! domain!("weather");
//!
//! /// Names a town.
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! pub struct Town {
//!     /// The town to look at.
//!     pub town: String,
//! }
//!
//! /// What the sky does there.
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! pub struct Sky {
//!     /// Whether it rains now.
//!     pub rain: bool,
//! }
//!
//! operation! {
//!     /// The sky over one town.
//!     pub GetSky: Routine = GET "/v1/weather/{town}" needs "weather-v1", Town => Sky
//! }
//!
//! tool! {
//!     /// Tell whether it rains in a town.
//!     pub read SkyGet = "weather_sky_get"
//! }
//! impl Read for SkyGet {
//!     type Operation = GetSky;
//!     type Input = Town;
//!     type Output = Sky;
//!     fn example() -> Example<Town> {
//!         Example::of(Town { town: "Bergen".into() })
//!     }
//!     fn request(input: Town) -> Town {
//!         input
//!     }
//!     fn output(reply: Sky) -> Sky {
//!         reply
//!     }
//!     fn summary(sky: &Sky) -> String {
//!         if sky.rain { "It rains.".into() } else { "It is dry.".into() }
//!     }
//! }
//!
//! fn main() {
//!     let registry = portreeve_registry::Registry::load(&[DOMAIN]).unwrap();
//!     assert_eq!(registry.find("weather_sky_get").unwrap().domain(), "weather");
//! }
//! ```
//!
//! **Invariant:** this crate knows no MCP, no HTTP, no SQLite and no domain.
//! **Invariant:** no tool can be advertised without a kind, and no kind accepts an operation of a class that
//! its policy doesn't cover: only [`Change`] takes a consequential act, and only as a pair of preview and
//! execute; only [`Grant`] and [`Spend`] take an operation that carries credentials.
//! **Invariant:** [`Secret`] has no JSON schema, so a tool whose input or output would carry one doesn't compile.

#![warn(missing_docs)]

mod answer;
mod class;
mod credential;
mod cursor;
mod decode;
mod failure;
mod kinds;
mod load;
mod name;
mod operation;
mod page;
mod request_id;
pub mod schema;
mod tool;

pub use answer::{Answer, Listed, Spent};
pub use class::{Class, ClassName, Consequential, CredentialBearing, Routine, Withheld};
pub use credential::{
    Credential, CredentialHandle, CredentialKind, Custody, Deposit, Held, Secret, SecretError,
};
pub use cursor::{CursorError, cursor_for, key_of};
pub use decode::{Args, Issue, Manner, Wire, decode};
pub use failure::{Boundary, Code, Failure, FailureClass, NextStep, Outcome, Phase, Retry};
pub use kinds::{
    Change, Collection, Described, Effect, Example, Grant, Local, Mutation, NamesHandle, Nature, Read, Spend,
};
pub use load::{Advertised, LoadError, Registry};
pub use name::{Domain, Name};
pub use operation::{
    Action, Call, Execute, ExecuteRequest, Executed, List, Listing, Method, NoTarget, Operation,
    OperationEntry, Preview, Receipt, TargetRef, operations,
};
pub use page::{Cut, DEFAULT_LIMIT, ListRequest, MAXIMUM_LIMIT, Page, PageInfo, PageOf};
pub use request_id::RequestId;
pub use tool::{Behavior, Face, Hints, KindName, Tool, local_answer, local_input};

#[doc(hidden)]
pub use inventory as __inventory;
#[doc(hidden)]
pub use name::DomainMarker as __DomainMarker;
#[doc(hidden)]
pub use tool::advertise as __advertise;
