//! Linux: netlink SOCK_DIAG for sockets, `/proc` for processes, a bind for whether a port is free.
//!
//! Here is only the list of what is asked and where it is answered; nothing in here is unsafe.

mod facts;
mod holders;
mod memory;
mod netlink;
mod path;
mod probe;
mod procfs;
mod reply;
mod shown;
mod sockets;
mod stat;
mod survey;
mod sweep;
mod tables;
mod unseen;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

use crate::{
    Deadline, Holding, Kin, Lineage, Liveness, NoPidfd, PortFacts, Probe, Process, ProcessId, Reading,
    Search, Socket, Source, Unknown, Why,
};
use memory::Memory;
use procfs::Procfs;
use sockets::Sockets;
use survey::Survey;

/// The Linux kernel as a source. One for the whole process; shared by reference between threads.
///
/// It keeps `/proc` open, and remembers in which process a socket was seen.
#[derive(Debug)]
pub struct Linux {
    procfs: Procfs,
    sockets: Sockets,
    memory: Memory,
    survey: Survey,
    boot_id: OnceLock<String>,
}

impl Linux {
    /// Opens `/proc`. Unknown if there is none, or one of another pid namespace than ours.
    pub fn new() -> Result<Self, Unknown> {
        Ok(Self {
            procfs: Procfs::open()?,
            sockets: Sockets::default(),
            memory: Memory::default(),
            survey: Survey::default(),
            boot_id: OnceLock::new(),
        })
    }
}

/// Reads a process. That `/proc` doesn't show it is believed only if the kernel, asked whether it could be
/// signalled, doesn't know it either: `hidepid` makes living processes vanish from `/proc`.
fn present<T>(pid: u32, read: impl Fn() -> Result<Option<T>, Errno>) -> Result<Option<T>, Unknown> {
    let what = Reading::Process(pid);
    let read = || read().map_err(|error| Unknown::os(what, error));
    if let Some(found) = read()? {
        return Ok(Some(found));
    }
    let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    if test_kill_process(known) == Err(Errno::SRCH) {
        return Ok(None);
    }
    // It may have started in between.
    match read()? {
        Some(found) => Ok(Some(found)),
        None if test_kill_process(known) == Err(Errno::SRCH) => Ok(None),
        None => Err(Unknown::new(what, Why::Hidden)),
    }
}

impl Source for Linux {
    fn boot_id(&self) -> Result<String, Unknown> {
        if let Some(boot_id) = self.boot_id.get() {
            return Ok(boot_id.clone());
        }
        let mut buffer = [0; 64];
        let text = self
            .procfs
            .file(c"sys/kernel/random/boot_id", &mut buffer)
            .map_err(|error| Unknown::os(Reading::BootId, error))?;
        match std::str::from_utf8(text).map(str::trim) {
            Ok(boot_id) if !boot_id.is_empty() => Ok(self.boot_id.get_or_init(|| boot_id.into()).clone()),
            _ => Err(Unknown::new(Reading::BootId, Why::Malformed)),
        }
    }

    fn facts(&self) -> Result<PortFacts, Unknown> {
        facts::read(&self.procfs, self.sockets.table())
    }

    fn listening(&self, deadline: &Deadline) -> Result<Vec<Socket>, Unknown> {
        let sockets = self.sockets.listening(&self.procfs, None, deadline)?;
        self.memory.keep_only(&sockets);
        Ok(sockets)
    }

    fn listening_on(&self, port: u16, deadline: &Deadline) -> Result<Vec<Socket>, Unknown> {
        self.sockets.listening(&self.procfs, Some(port), deadline)
    }

    fn bound_on(&self, port: u16, deadline: &Deadline) -> Result<Vec<Socket>, Unknown> {
        self.sockets.bound(&self.procfs, port, deadline)
    }

    fn holdings(&self, sockets: &[Socket], search: Search, deadline: &Deadline) -> Vec<Holding> {
        match search {
            Search::Since => {
                let all = || self.listening(deadline);
                self.survey.holdings(&self.procfs, &self.memory, sockets, all, deadline)
            }
            Search::Known | Search::Related(_) | Search::Every => {
                holders::holdings(&self.procfs, &self.memory, sockets, search, deadline)
            }
        }
    }

    fn process(&self, pid: u32) -> Result<Option<Process>, Unknown> {
        present(pid, || shown::process(&self.procfs, pid))
    }

    fn outline(&self, pid: u32) -> Result<Option<Process>, Unknown> {
        present(pid, || shown::outline(&self.procfs, pid))
    }

    fn kin(&self, pid: u32) -> Result<Option<Kin>, Unknown> {
        Ok(present(pid, || self.procfs.place(pid))?.map(|place| place.kin))
    }

    fn lineage(&self, pid: u32, stop_at: Option<u32>) -> Result<Lineage, Unknown> {
        crate::process::climb(pid, stop_at, |pid| self.kin(pid))
    }

    fn descendants(&self, root: ProcessId, deadline: &Deadline) -> Result<Vec<Kin>, Unknown> {
        let mut all = Vec::new();
        for pid in self.procfs.pids(deadline)? {
            deadline.check(Reading::Processes)?;
            match self.procfs.place(pid) {
                Ok(place) => all.extend(place.map(|place| place.kin)),
                // Hidden from us: then nothing of it is known, and no claim is made.
                Err(error) => tracing::debug!(pid, %error, "a process could not be read"),
            }
        }
        Ok(crate::process::below(root, &all))
    }

    fn listeners_of(&self, pids: &[u32], deadline: &Deadline) -> Result<Vec<Holding>, Unknown> {
        let sockets = self.listening(deadline)?;
        holders::held_by(&self.procfs, pids, &sockets, deadline)
    }

    fn alive(&self, id: ProcessId) -> Liveness {
        match self.kin(id.pid) {
            Ok(Some(kin)) if kin.id == id && !kin.zombie => Liveness::Alive,
            Ok(_) => Liveness::Gone,
            Err(unknown) => Liveness::Unknown(unknown),
        }
    }

    fn pidfd(&self, id: ProcessId) -> Result<OwnedFd, NoPidfd> {
        let pid = i32::try_from(id.pid).ok().and_then(Pid::from_raw).ok_or(NoPidfd::Gone)?;
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Err(NoPidfd::Gone),
            Err(error) => return Err(Unknown::os(Reading::Process(id.pid), error).into()),
        };
        // Whoever has the pid and start now is who the pidfd was opened for.
        match self.alive(id) {
            Liveness::Alive => Ok(pidfd),
            Liveness::Gone => Err(NoPidfd::Gone),
            Liveness::Unknown(unknown) => Err(unknown.into()),
        }
    }

    fn probe(&self, port: u16, deadline: &Deadline) -> Probe {
        probe::probe(&self.procfs, &self.sockets, port, deadline)
    }

    fn answers(&self, port: u16, deadline: &Deadline) -> Result<Vec<IpAddr>, Unknown> {
        crate::answers::answers(port, deadline)
    }

    fn resolve_ns_pid(&self, pid: u32, deadline: &Deadline) -> Result<Vec<Process>, Unknown> {
        let mut found = Vec::new();
        for candidate in self.procfs.pids(deadline)? {
            deadline.check(Reading::Processes)?;
            if shown::is_inside(&self.procfs, candidate, pid)
                && let Ok(Some(process)) = self.process(candidate)
                && process.ns_pids.iter().skip(1).any(|inner| *inner == pid)
            {
                found.push(process);
            }
        }
        Ok(found)
    }
}
