//! Linux: netlink SOCK_DIAG for sockets, `/proc` for processes.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use crate::{
    Deadline, Holding, Kin, Lineage, Liveness, NoPidfd, PortFacts, Probe, Process, ProcessId, Reading,
    Search, Socket, Source, Unknown, Visibility, Why,
};

/// The Linux kernel as a source.
#[derive(Debug)]
pub struct Linux {}

impl Linux {
    /// Opens `/proc`.
    pub fn new() -> Result<Self, Unknown> {
        Ok(Self {})
    }
}

fn later(what: Reading) -> Unknown {
    Unknown::new(what, Why::NotSupported)
}

impl Source for Linux {
    fn boot_id(&self) -> Result<String, Unknown> {
        Err(later(Reading::BootId))
    }
    fn facts(&self) -> Result<PortFacts, Unknown> {
        Err(later(Reading::PortFacts))
    }
    fn listening(&self, _: &Deadline) -> Result<Vec<Socket>, Unknown> {
        Err(later(Reading::Sockets))
    }
    fn listening_on(&self, _: u16, _: &Deadline) -> Result<Vec<Socket>, Unknown> {
        Err(later(Reading::Sockets))
    }
    fn bound_on(&self, _: u16, _: &Deadline) -> Result<Vec<Socket>, Unknown> {
        Err(later(Reading::Sockets))
    }
    fn holdings(&self, sockets: &[Socket], _: Search, deadline: &Deadline) -> Vec<Holding> {
        let unknown = deadline
            .check(Reading::Descriptors)
            .err()
            .unwrap_or(later(Reading::Descriptors));
        sockets
            .iter()
            .map(|socket| Holding::none(*socket, Visibility::Unknown(unknown)))
            .collect()
    }
    fn process(&self, pid: u32) -> Result<Option<Process>, Unknown> {
        Err(later(Reading::Process(pid)))
    }
    fn kin(&self, pid: u32) -> Result<Option<Kin>, Unknown> {
        Err(later(Reading::Process(pid)))
    }
    fn lineage(&self, pid: u32, stop_at: Option<u32>) -> Result<Lineage, Unknown> {
        crate::process::climb(pid, stop_at, |pid| self.kin(pid))
    }
    fn descendants(&self, root: ProcessId, _: &Deadline) -> Result<Vec<Kin>, Unknown> {
        Ok(crate::process::below(root, &[]))
    }
    fn listeners_of(&self, _: &[u32], _: &Deadline) -> Result<Vec<Holding>, Unknown> {
        Err(later(Reading::Descriptors))
    }
    fn alive(&self, id: ProcessId) -> Liveness {
        Liveness::Unknown(later(Reading::Process(id.pid)))
    }
    fn pidfd(&self, id: ProcessId) -> Result<OwnedFd, NoPidfd> {
        Err(later(Reading::Process(id.pid)).into())
    }
    fn probe(&self, port: u16, _: &Deadline) -> Probe {
        Probe::Unknown(Unknown::os(Reading::Bind(port), rustix::io::Errno::NOSYS))
    }
    fn answers(&self, port: u16, _: &Deadline) -> Result<Vec<IpAddr>, Unknown> {
        Err(later(Reading::Connect(port)))
    }
    fn resolve_ns_pid(&self, _: u32, _: &Deadline) -> Result<Vec<Process>, Unknown> {
        Err(later(Reading::Processes))
    }
}
