//! A source in memory, for tests of rules that want a machine in a certain state. It invents nothing: what
//! was not put in isn't there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::PipeWriter;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    Deadline, Holder, Holding, Kin, Lineage, Liveness, NoPidfd, PortFacts, Probe, Process, ProcessId,
    Reading, Search, Socket, Source, Table, Unknown, Visibility, Why,
};

/// A machine in memory. Shared by reference; every change is seen by the next reading.
#[derive(Debug)]
pub struct Simulated {
    world: Mutex<World>,
}

#[derive(Debug)]
struct World {
    boot_id: String,
    facts: PortFacts,
    processes: BTreeMap<u32, Process>,
    sockets: Vec<Holding>,
    bound: Vec<Socket>,
    settling: BTreeSet<u16>,
    answering: BTreeMap<u16, Vec<IpAddr>>,
    outage: Option<Why>,
    watches: Vec<(ProcessId, PipeWriter)>,
    next: u64,
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulated {
    /// An empty machine with pid 1, IPv6, and Linux' usual settings.
    pub fn new() -> Self {
        let machine = Self {
            world: Mutex::new(World {
                boot_id: "00000000-0000-4000-8000-000000000001".into(),
                facts: PortFacts {
                    ephemeral: 32768..=60999,
                    reserved: Vec::new(),
                    unprivileged_start: 1024,
                    ipv6: true,
                    table: Table::Netlink,
                },
                processes: BTreeMap::new(),
                sockets: Vec::new(),
                bound: Vec::new(),
                settling: BTreeSet::new(),
                answering: BTreeMap::new(),
                outage: None,
                watches: Vec::new(),
                next: 1000,
            }),
        };
        machine.start(1, 0);
        machine
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process with this pid below that parent, in the parent's session and group, replacing
    /// whoever had the pid.
    pub fn start(&self, pid: u32, parent: u32) -> ProcessId {
        self.end(pid);
        let mut world = self.world();
        world.next += 1;
        let id = ProcessId { pid, start_ticks: world.next };
        let (session, group, uid) = world
            .processes
            .get(&parent)
            .map_or((pid, pid, 1000), |parent| (parent.session, parent.group, parent.uid));
        let process = Process {
            id,
            parent,
            uid,
            session,
            group,
            name: format!("proc{pid}"),
            executable: Some(format!("/usr/bin/proc{pid}")),
            command: format!("proc{pid}"),
            working_directory: Some("/".into()),
            started_at_unix_ms: i64::try_from(world.next).unwrap_or(i64::MAX) * 10,
            zombie: false,
            ns_pids: vec![pid],
            net_ns_same: Some(true),
        };
        world.processes.insert(pid, process);
        id
    }

    /// Changes a process in place; nothing if nobody has the pid.
    pub fn change(&self, pid: u32, change: impl FnOnce(&mut Process)) {
        if let Some(process) = self.world().processes.get_mut(&pid) {
            change(process);
        }
    }

    /// Ends a process: its sockets close unless somebody else holds them, its children go to pid 1.
    pub fn end(&self, pid: u32) {
        let mut world = self.world();
        if world.processes.remove(&pid).is_none() {
            return;
        }
        for child in world.processes.values_mut().filter(|child| child.parent == pid) {
            child.parent = 1;
        }
        world.sockets.retain_mut(|holding| {
            let before = holding.holders.len();
            holding.holders.retain(|holder| holder.process.pid != pid);
            before == 0 || !holding.holders.is_empty()
        });
        world.watches.retain(|(id, _)| id.pid != pid);
    }

    /// Lets a process listen; also a second one on the same port.
    pub fn listen(&self, pid: u32, address: IpAddr, port: u16) -> Socket {
        let mut world = self.world();
        world.next += 1;
        let (uid, start_ticks) =
            world.processes.get(&pid).map_or((1000, 0), |process| (process.uid, process.id.start_ticks));
        let socket = Socket { address, port, v6only: false, uid, inode: world.next, cookie: world.next };
        world.sockets.push(Holding {
            socket,
            holders: vec![Holder { process: ProcessId { pid, start_ticks }, fd: 3 }],
            visibility: Visibility::Visible,
            complete: true,
        });
        socket
    }

    /// Gives a listening socket a further holder, as a fork does.
    pub fn inherit(&self, socket: &Socket, pid: u32) {
        let mut world = self.world();
        let Some(id) = world.processes.get(&pid).map(|process| process.id) else {
            return;
        };
        if let Some(holding) = world.sockets.iter_mut().find(|held| held.socket.inode == socket.inode) {
            holding.holders.push(Holder { process: id, fd: 3 });
            holding.holders.sort_unstable();
        }
    }

    /// A listening socket whose holder can't be seen, for this reason.
    pub fn listen_unseen(&self, uid: u32, address: IpAddr, port: u16, visibility: Visibility) -> Socket {
        let mut world = self.world();
        world.next += 1;
        let socket = Socket { address, port, v6only: false, uid, inode: world.next, cookie: world.next };
        world.sockets.push(Holding { socket, holders: Vec::new(), visibility, complete: false });
        socket
    }

    /// Closes every listening and bound socket of the port.
    pub fn close(&self, port: u16) {
        let mut world = self.world();
        world.sockets.retain(|holding| holding.socket.port != port);
        world.bound.retain(|socket| socket.port != port);
        world.settling.remove(&port);
        world.answering.remove(&port);
    }

    /// A socket bound without listening: in no table of listeners, and yet the port is held.
    pub fn bind(&self, port: u16) {
        let mut world = self.world();
        world.next += 1;
        let inode = world.next;
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        world.bound.push(Socket { address, port, v6only: false, uid: 1000, inode, cookie: inode });
    }

    /// Connections of an earlier server are still closing on the port.
    pub fn settle(&self, port: u16) {
        self.world().settling.insert(port);
    }

    /// Somebody answers on the port, without a listener here.
    pub fn forward(&self, port: u16, addresses: Vec<IpAddr>) {
        self.world().answering.insert(port, addresses);
    }

    /// Changes the kernel's settings.
    pub fn set_facts(&self, facts: PortFacts) {
        self.world().facts = facts;
    }

    /// Changes the boot id.
    pub fn set_boot_id(&self, boot_id: &str) {
        self.world().boot_id = boot_id.into();
    }

    /// From now on every reading is unknown for this reason; `None` ends it.
    pub fn fail(&self, why: Option<Why>) {
        self.world().outage = why;
    }

    fn read(&self, what: Reading) -> Result<MutexGuard<'_, World>, Unknown> {
        let world = self.world();
        match world.outage {
            Some(why) => Err(Unknown::new(what, why)),
            None => Ok(world),
        }
    }
}

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
        for loopback in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)] {
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use super::*;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(1))
    }

    #[test]
    fn a_port_goes_through_its_states() {
        let machine = Simulated::new();
        assert_eq!(machine.probe(80, &soon()), Probe::Privileged);
        assert_eq!(machine.probe(3000, &soon()), Probe::Free);
        machine.bind(3000);
        assert_eq!(machine.probe(3000, &soon()), Probe::Held);
        assert_eq!(machine.listening_on(3000, &soon()), Ok(vec![]));
        machine.close(3000);
        machine.settle(3000);
        assert_eq!(machine.probe(3000, &soon()), Probe::Settling);
        machine.forward(3001, vec![V4]);
        assert_eq!(
            (machine.probe(3001, &soon()), machine.answers(3001, &soon())),
            (Probe::Free, Ok(vec![V4]))
        );
    }

    #[test]
    fn sockets_end_with_their_last_holder() {
        let machine = Simulated::new();
        let (parent, child) = (machine.start(10, 1), machine.start(11, 10));
        let socket = machine.listen(10, V4, 3000);
        machine.inherit(&socket, 11);
        let holders = || -> Vec<ProcessId> {
            let found = machine.holdings(&[socket], Search::Every, &soon());
            found[0].holders.iter().map(|holder| holder.process).collect()
        };
        assert_eq!(holders(), [parent, child]);
        machine.end(10);
        assert_eq!(holders(), [child]);
        assert_eq!(machine.kin(11).map(|kin| kin.map(|kin| (kin.parent, kin.session))), Ok(Some((1, 1))));
        machine.end(11);
        assert_eq!(machine.listening(&soon()), Ok(vec![]));
    }

    #[test]
    fn a_pidfd_becomes_readable_when_its_process_ends() {
        let machine = Simulated::new();
        let id = machine.start(10, 1);
        let mut pidfd = std::fs::File::from(machine.pidfd(id).expect("lives"));
        let again = machine.start(10, 1);
        assert_ne!(id, again);
        assert_eq!(pidfd.read(&mut [0; 1]).expect("the end"), 0);
        assert_eq!((machine.alive(id), machine.alive(again)), (Liveness::Gone, Liveness::Alive));
        assert!(matches!(machine.pidfd(id), Err(NoPidfd::Gone)));
    }

    #[test]
    fn an_outage_makes_everything_unknown() {
        let machine = Simulated::new();
        let id = machine.start(10, 1);
        let socket = machine.listen(10, V4, 3000);
        machine.fail(Some(Why::Deadline));
        assert!(machine.listening(&soon()).is_err() && machine.boot_id().is_err());
        assert!(matches!(machine.alive(id), Liveness::Unknown(_)));
        assert!(matches!(machine.probe(3000, &soon()), Probe::Unknown(_)));
        let found = machine.holdings(&[socket], Search::Every, &soon());
        assert!(matches!(found[0].visibility, Visibility::Unknown(_)));
        machine.fail(None);
        assert_eq!(machine.alive(id), Liveness::Alive);
    }
}
