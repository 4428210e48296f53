//! Prints what a durable write costs through the engine. Under construction.
fn main() {}
