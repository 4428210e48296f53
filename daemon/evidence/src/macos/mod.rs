//! macOS: this user's own processes through libproc. Compiled and linked for this platform, not run on it.
//!
//! What macOS doesn't tell an ordinary user is unknown here, never absent: other users' processes, and so
//! the listening sockets that only they hold. A bind still meets those.

mod bind;
mod processes;
mod sockets;
mod sysctl;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use crate::{
    Deadline, Holding, Kin, Lineage, Liveness, NoPidfd, PortFacts, Probe, Process, ProcessId, Reading,
    Search, Socket, Source, Table, Unknown, Why,
};

/// The macOS kernel as a source.
#[derive(Debug, Default)]
pub struct MacOs {
    boot_id: OnceLock<String>,
}

impl MacOs {
    /// Nothing is kept open.
    pub fn new() -> Result<Self, Unknown> {
        Ok(Self::default())
    }
}

impl Source for MacOs {
    fn boot_id(&self) -> Result<String, Unknown> {
        if let Some(boot_id) = self.boot_id.get() {
            return Ok(boot_id.clone());
        }
        let boot_id = sysctl::text(c"kern.bootsessionuuid", Reading::BootId)?;
        Ok(self.boot_id.get_or_init(|| boot_id).clone())
    }

    fn facts(&self) -> Result<PortFacts, Unknown> {
        let port = |name| {
            let number = sysctl::number(name, Reading::PortFacts)?;
            u16::try_from(number).map_err(|_| Unknown::new(Reading::PortFacts, Why::Malformed))
        };
        Ok(PortFacts {
            ephemeral: port(c"net.inet.ip.portrange.first")?..=port(c"net.inet.ip.portrange.last")?,
            reserved: Vec::new(),
            // Since 10.14 a bind of a low port succeeds on the wildcard address, but on no other.
            unprivileged_start: 1024,
            ipv6: bind::has_ipv6(),
            table: Table::OwnProcesses,
        })
    }

    fn listening(&self, deadline: &Deadline) -> Result<Vec<Socket>, Unknown> {
        let held = sockets::held(&processes::own(Reading::Sockets)?, deadline)?;
        Ok(held.into_iter().map(|holding| holding.socket).collect())
    }

    fn listening_on(&self, port: u16, deadline: &Deadline) -> Result<Vec<Socket>, Unknown> {
        let mut sockets = self.listening(deadline)?;
        sockets.retain(|socket| socket.port == port);
        Ok(sockets)
    }

    /// Not told by this kernel.
    fn bound_on(&self, _: u16, _: &Deadline) -> Result<Vec<Socket>, Unknown> {
        Ok(Vec::new())
    }

    /// Always every holder among one's own processes; `search` makes no difference.
    fn holdings(&self, sockets: &[Socket], _: Search, deadline: &Deadline) -> Vec<Holding> {
        let held = processes::own(Reading::Descriptors).and_then(|pids| sockets::held(&pids, deadline));
        sockets::matched(sockets, held)
    }

    fn process(&self, pid: u32) -> Result<Option<Process>, Unknown> {
        Ok(processes::read(pid)?.map(processes::Read::shown))
    }

    fn kin(&self, pid: u32) -> Result<Option<Kin>, Unknown> {
        Ok(processes::read(pid)?.map(|read| read.kin()))
    }

    fn lineage(&self, pid: u32, stop_at: Option<u32>) -> Result<Lineage, Unknown> {
        crate::process::climb(pid, stop_at, |pid| self.kin(pid))
    }

    fn descendants(&self, root: ProcessId, deadline: &Deadline) -> Result<Vec<Kin>, Unknown> {
        let mut all = Vec::new();
        for pid in processes::all(Reading::Processes)? {
            deadline.check(Reading::Processes)?;
            all.extend(self.kin(pid)?);
        }
        Ok(crate::process::below(root, &all))
    }

    fn listeners_of(&self, pids: &[u32], deadline: &Deadline) -> Result<Vec<Holding>, Unknown> {
        let mut held = sockets::held(pids, deadline)?;
        held.iter_mut().for_each(|holding| holding.complete = false);
        Ok(held)
    }

    fn alive(&self, id: ProcessId) -> Liveness {
        match self.kin(id.pid) {
            Ok(Some(kin)) if kin.id == id && !kin.zombie => Liveness::Alive,
            Ok(_) => Liveness::Gone,
            Err(unknown) => Liveness::Unknown(unknown),
        }
    }

    /// There is no such descriptor on macOS: a pid can't be signalled without the risk that it is another's
    /// by then.
    fn pidfd(&self, id: ProcessId) -> Result<OwnedFd, NoPidfd> {
        match self.alive(id) {
            Liveness::Gone => Err(NoPidfd::Gone),
            _ => Err(Unknown::new(Reading::Process(id.pid), Why::NotSupported).into()),
        }
    }

    fn probe(&self, port: u16, deadline: &Deadline) -> Probe {
        bind::probe(port, deadline)
    }

    fn answers(&self, port: u16, deadline: &Deadline) -> Result<Vec<IpAddr>, Unknown> {
        crate::answers::answers(port, deadline)
    }

    /// There are no pid namespaces on macOS; containers run in a virtual machine.
    fn resolve_ns_pid(&self, _: u32, _: &Deadline) -> Result<Vec<Process>, Unknown> {
        Ok(Vec::new())
    }
}
