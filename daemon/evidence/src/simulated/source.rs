//! The simulated machine, asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use super::Simulated;
use crate::{
    Deadline, Holding, Kin, Lineage, Liveness, NoPidfd, PortFacts, Probe, Process, ProcessId, Reading,
    Search, Socket, Source, Unknown, Visibility, Why,
};

impl Source for Simulated {
    fn boot_id(&self) -> Result<String, Unknown> {
        Ok(self.read(Reading::BootId)?.boot_id.clone())
    }

    fn facts(&self) -> Result<PortFacts, Unknown> {
        Ok(self.read(Reading::PortFacts)?.facts.clone())
    }

    fn listening(&self, _: &Deadline) -> Result<Vec<Socket>, Unknown> {
        let world = self.read(Reading::Sockets)?;
        let mut sockets: Vec<Socket> = world.sockets.iter().map(|holding| holding.socket).collect();
        sockets.sort_by_key(|socket| (socket.port, socket.inode));
        Ok(sockets)
    }

    fn listening_on(&self, port: u16, deadline: &Deadline) -> Result<Vec<Socket>, Unknown> {
        let mut sockets = self.listening(deadline)?;
        sockets.retain(|socket| socket.port == port);
        Ok(sockets)
    }

    fn bound_on(&self, port: u16, _: &Deadline) -> Result<Vec<Socket>, Unknown> {
        let world = self.read(Reading::Sockets)?;
        Ok(world.bound.iter().filter(|socket| socket.port == port).copied().collect())
    }

    fn holdings(&self, sockets: &[Socket], _: Search, _: &Deadline) -> Vec<Holding> {
        let world = self.read(Reading::Descriptors);
        let look = |socket: &Socket| match &world {
            Err(unknown) => Holding::none(*socket, Visibility::Unknown(*unknown)),
            Ok(world) => world
                .sockets
                .iter()
                .find(|holding| holding.socket.inode == socket.inode)
                .cloned()
                .unwrap_or(Holding::none(*socket, Visibility::NotVisible)),
        };
        sockets.iter().map(look).collect()
    }

    fn process(&self, pid: u32) -> Result<Option<Process>, Unknown> {
        Ok(self.read(Reading::Process(pid))?.processes.get(&pid).cloned())
    }

    fn kin(&self, pid: u32) -> Result<Option<Kin>, Unknown> {
        Ok(self.process(pid)?.map(|process| process.kin()))
    }

    fn lineage(&self, pid: u32, stop_at: Option<u32>) -> Result<Lineage, Unknown> {
        crate::process::climb(pid, stop_at, |pid| self.kin(pid))
    }

    fn descendants(&self, root: ProcessId, _: &Deadline) -> Result<Vec<Kin>, Unknown> {
        let world = self.read(Reading::Processes)?;
        let all: Vec<Kin> = world.processes.values().map(Process::kin).collect();
        Ok(crate::process::below(root, &all))
    }

    fn listeners_of(&self, pids: &[u32], _: &Deadline) -> Result<Vec<Holding>, Unknown> {
        let world = self.read(Reading::Descriptors)?;
        let mut found = Vec::new();
        for holding in &world.sockets {
            let mut holding = holding.clone();
            holding.holders.retain(|holder| pids.contains(&holder.process.pid));
            if !holding.holders.is_empty() {
                holding.complete = false;
                found.push(holding);
            }
        }
        Ok(found)
    }

    fn alive(&self, id: ProcessId) -> Liveness {
        match self.kin(id.pid) {
            Ok(Some(kin)) if kin.id == id && !kin.zombie => Liveness::Alive,
            Ok(_) => Liveness::Gone,
            Err(unknown) => Liveness::Unknown(unknown),
        }
    }

    /// The end of a pipe that becomes readable when [`Simulated::end`] ends the process. Signals can't be
    /// sent through it.
    fn pidfd(&self, id: ProcessId) -> Result<OwnedFd, NoPidfd> {
        match self.alive(id) {
            Liveness::Alive => {}
            Liveness::Gone => return Err(NoPidfd::Gone),
            Liveness::Unknown(unknown) => return Err(unknown.into()),
        }
        let (reader, writer) = std::io::pipe().map_err(|error| {
            let why = error.raw_os_error().map_or(Why::NotSupported, Why::Os);
            Unknown::new(Reading::Process(id.pid), why)
        })?;
        self.world().watches.push((id, writer));
        Ok(reader.into())
    }

    fn probe(&self, port: u16, _: &Deadline) -> Probe {
        let world = match self.read(Reading::Bind(port)) {
            Ok(world) => world,
            Err(unknown) => return Probe::Unknown(unknown),
        };
        let held = world.sockets.iter().map(|holding| holding.socket).chain(world.bound.iter().copied());
        if port < world.facts.unprivileged_start {
            Probe::Privileged
        } else if held.into_iter().any(|socket| socket.port == port) {
            Probe::Held
        } else if world.settling.contains(&port) {
            Probe::Settling
        } else {
            Probe::Free
        }
    }

    fn answers(&self, port: u16, _: &Deadline) -> Result<Vec<IpAddr>, Unknown> {
        let world = self.read(Reading::Connect(port))?;
        let mut addresses = world.answering.get(&port).cloned().unwrap_or_default();
        for loopback in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let mut here = world.sockets.iter().map(|holding| &holding.socket);
            if here.any(|socket| socket.port == port && socket.accepts(loopback)) {
                addresses.push(loopback);
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }

    fn resolve_ns_pid(&self, pid: u32, _: &Deadline) -> Result<Vec<Process>, Unknown> {
        let world = self.read(Reading::Processes)?;
        Ok(world
            .processes
            .values()
            .filter(|process| process.ns_pids.iter().skip(1).any(|inner| *inner == pid))
            .cloned()
            .collect())
    }
}
