//! A source in memory, for tests of rules that want a machine in a certain state. It invents nothing: what
//! was not put in isn't there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::PipeWriter;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    Holder, Holding, PortFacts, Process, ProcessId, Reading, Socket, Table, Unknown, Visibility, Why,
};

mod source;
#[cfg(test)]
mod tests;

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
