//! What can be said of a port number itself: free to bind or not, and the kernel's settings.

use std::ops::RangeInclusive;

use crate::Unknown;

/// What a bind of a port, made and undone at once, says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Probe {
    /// Nothing holds it, on any address of either family.
    Free,
    /// No one holds it any more, but connections of an earlier server are still closing (TIME_WAIT and the
    /// like). A server that sets `SO_REUSEADDR`, as most do, can have it.
    Settling,
    /// Somebody holds it, seen in a table or not.
    Held,
    /// This user may not bind it.
    Privileged,
    /// Could not be tried.
    Unknown(Unknown),
}

/// The kernel's settings about ports, as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFacts {
    /// From where outgoing connections take their source ports (`ip_local_port_range`).
    pub ephemeral: RangeInclusive<u16>,
    /// Ports kept out of that range (`ip_local_reserved_ports`), ascending.
    pub reserved: Vec<RangeInclusive<u16>>,
    /// The first port that an ordinary user may bind (`ip_unprivileged_port_start`); 0 if all.
    pub unprivileged_start: u16,
    /// Whether this host has IPv6 sockets at all.
    pub ipv6: bool,
    /// How the listening sockets are read here.
    pub table: Table,
}

/// How the table of listening sockets is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// By netlink SOCK_DIAG: everything that [`crate::Socket`] has.
    Netlink,
    /// By `/proc/net/tcp` and `tcp6`, since netlink is refused here (a sandbox): slower, without `v6only`
    /// and `cookie`.
    Proc,
    /// By the descriptors of this user's own processes only (macOS): other users' listeners are not seen.
    OwnProcesses,
}
