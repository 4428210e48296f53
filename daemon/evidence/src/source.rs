//! The one interface to what is known of ports and processes.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use crate::{
    Deadline, Holding, Kin, Lineage, Liveness, NoPidfd, PortFacts, Probe, Process, ProcessId, Search, Socket,
    Unknown,
};

/// Where facts about ports and processes come from.
///
/// Every method reads afresh. None waits longer than its deadline, or than a few system calls where it has
/// none. One odd process (an empty name, a vanished directory) never makes a whole reading fail.
pub trait Source: Send + Sync {
    /// This boot's id, read once. Identities and boot-clock times of another boot mean nothing.
    fn boot_id(&self) -> Result<String, Unknown>;

    /// The kernel's settings about ports, read now.
    fn facts(&self) -> Result<PortFacts, Unknown>;

    /// All listening TCP sockets of this network namespace, both families, ascending by port.
    fn listening(&self, deadline: &Deadline) -> Result<Vec<Socket>, Unknown>;

    /// All listening sockets of one port: both families, every address, each of several that share it.
    fn listening_on(&self, port: u16, deadline: &Deadline) -> Result<Vec<Socket>, Unknown>;

    /// Sockets bound to the port that neither listen nor are connected, where the kernel can tell (Linux 6.8
    /// and later). An empty answer says nothing: only the probe knows.
    fn bound_on(&self, port: u16, deadline: &Deadline) -> Result<Vec<Socket>, Unknown>;

    /// Who holds these sockets, in their order. What the deadline cut off is said one by one.
    fn holdings(&self, sockets: &[Socket], search: Search, deadline: &Deadline) -> Vec<Holding>;

    /// One process in full; `None` if nobody has the pid.
    fn process(&self, pid: u32) -> Result<Option<Process>, Unknown>;

    /// [`Source::process`] without what costs most to read and lists don't show: its `command` is its name, and
    /// what it is called or reaches in other namespaces is left out.
    fn outline(&self, pid: u32) -> Result<Option<Process>, Unknown> {
        self.process(pid)
    }

    /// One process' place among the others, by a single small read; `None` if nobody has the pid.
    fn kin(&self, pid: u32) -> Result<Option<Kin>, Unknown>;

    /// The process and its parents upwards, until `stop_at` was met, or the top, or 64 of them, or one that
    /// `/proc` hides from this user.
    ///
    /// A process whose parent has exited is a child of some reaper, and its lineage then misses the root it
    /// was started by: session and group of [`Kin`] still tell.
    fn lineage(&self, pid: u32, stop_at: Option<u32>) -> Result<Lineage, Unknown>;

    /// All processes that descend from this one by living parents, parents before children, without the root
    /// itself and without zombies. Reversed, it is leaf first. Empty if the root is gone.
    fn descendants(&self, root: ProcessId, deadline: &Deadline) -> Result<Vec<Kin>, Unknown>;

    /// The listening sockets that these processes have open, whatever the port. `holders` are those among
    /// the processes asked for. Processes that are gone or can't be looked into add nothing.
    fn listeners_of(&self, pids: &[u32], deadline: &Deadline) -> Result<Vec<Holding>, Unknown>;

    /// Whether that very process lives. A zombie does not.
    fn alive(&self, id: ProcessId) -> Liveness;

    /// A pidfd of that very process: opened, then its identity checked again, so that a signal through it
    /// reaches this process or nobody. It becomes readable when the process ends.
    fn pidfd(&self, id: ProcessId) -> Result<OwnedFd, NoPidfd>;

    /// Whether the port could be bound now, by doing so and undoing it at once. For candidates only: a server
    /// that starts in the same instant would fail.
    fn probe(&self, port: u16, deadline: &Deadline) -> Probe;

    /// The loopback addresses on which somebody takes a connection to this port. With no listener in the
    /// table, that is a port forwarded elsewhere. Connects and hangs up at once.
    fn answers(&self, port: u16, deadline: &Deadline) -> Result<Vec<IpAddr>, Unknown>;

    /// The processes that call themselves `pid` in some pid namespace below ours (a container): more than
    /// one, as each namespace counts anew. The process that has this pid in our own is not among them.
    fn resolve_ns_pid(&self, pid: u32, deadline: &Deadline) -> Result<Vec<Process>, Unknown>;
}
