//! The socket protocol, end to end: a real daemon process, real sockets, a real store, real servers.
//!
//! | module | what it shows |
//! | --- | --- |
//! | `replay`, `world`, `shape` | recorded exchanges of the existing implementation come out in the same shape |
//! | `envelope`, `http` | what every reply has in common, whatever came in |
//! | `inputs`, `names`, `workspaces` | bad input is refused by name and changes nothing |
//! | `pages`, `polling` | lists and history, walked while others write |
//! | `canary` | no token is found where it doesn't belong |
//! | `durability`, `oracle`, `bounds`, `damage` | what was acknowledged stays, what is old goes, what is broken is said |
//! | `daemons`, `stopping`, `peers` | one daemon a home, its end, and who may talk to it |

#[path = "wire/bounds.rs"]
mod bounds;
#[path = "wire/canary.rs"]
mod canary;
#[path = "wire/daemons.rs"]
mod daemons;
#[path = "wire/damage.rs"]
mod damage;
#[path = "wire/durability.rs"]
mod durability;
#[path = "wire/envelope.rs"]
mod envelope;
#[path = "wire/http.rs"]
mod http;
#[path = "wire/inputs.rs"]
mod inputs;
#[path = "wire/names.rs"]
mod names;
#[path = "wire/oracle.rs"]
mod oracle;
#[path = "wire/pages.rs"]
mod pages;
#[path = "wire/peers.rs"]
mod peers;
#[path = "wire/polling.rs"]
mod polling;
#[path = "wire/replay.rs"]
mod replay;
#[path = "wire/shape.rs"]
mod shape;
#[path = "wire/stopping.rs"]
mod stopping;
#[path = "wire/support.rs"]
mod support;
#[path = "wire/workspaces.rs"]
mod workspaces;
#[path = "wire/world.rs"]
mod world;
