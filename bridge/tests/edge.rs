//! The stdio edge, driven as a real process over real pipes.
//!
//! Each test plays a host that misbehaves in one way and says what the bridge does about it.
//! The process is `bridge-fixture toys`: the real edge and server over toy tools.

#[path = "support/host.rs"]
mod host;

#[path = "edge/calls.rs"]
mod calls;
#[path = "edge/ending.rs"]
mod ending;
#[path = "edge/eras.rs"]
mod eras;
#[path = "edge/framing.rs"]
mod framing;
#[path = "edge/pressure.rs"]
mod pressure;
