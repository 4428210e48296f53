//! The binary as its users meet it: real processes, a throwaway home each.

#[path = "commands/doctor.rs"]
mod doctor;
#[path = "commands/leases.rs"]
mod leases;
#[path = "commands/offline.rs"]
mod offline;
#[path = "commands/reading.rs"]
mod reading;
#[path = "commands/serving.rs"]
mod serving;
#[path = "commands/support.rs"]
mod support;
#[path = "commands/tour.rs"]
mod tour;
#[path = "commands/with_port.rs"]
mod with_port;
