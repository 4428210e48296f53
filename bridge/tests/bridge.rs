//! The whole bridge as a real process, between a host on pipes and a daemon on a real socket.
//!
//! The daemon is scripted: it speaks protocol 1 and breaks where a test tells it to.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/host.rs"]
#[expect(dead_code, reason = "shared with the tests of the edge")]
mod host;

#[path = "bridge/calling.rs"]
mod calling;
#[path = "bridge/dependencies.rs"]
mod dependencies;
#[path = "bridge/ending.rs"]
mod ending;
#[path = "bridge/failing.rs"]
mod failing;
#[path = "bridge/holding.rs"]
mod holding;
#[path = "bridge/listing.rs"]
mod listing;
