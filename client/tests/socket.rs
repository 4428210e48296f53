//! The client against a scripted server on a real unix socket: every way in which a call can go wrong.

#[path = "socket/calling.rs"]
mod calling;
#[path = "socket/fitting.rs"]
mod fitting;
#[path = "socket/losing.rs"]
mod losing;
#[path = "socket/reaching.rs"]
mod reaching;
#[path = "socket/support.rs"]
mod support;
#[path = "socket/waiting.rs"]
mod waiting;
