//! What could not be known, and why: the error of every reading here.

/// A fact that could not be read. Never to be taken for "free", "gone" or "nobody".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Unknown {
    /// What was being read.
    pub what: Reading,
    /// Why it could not be.
    pub why: Why,
}

impl Unknown {
    /// An unknown of this kind.
    pub fn new(what: Reading, why: Why) -> Self {
        Self { what, why }
    }

    /// From a system call's error.
    pub(crate) fn os(what: Reading, error: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        let why = match error {
            Errno::ACCESS | Errno::PERM => Why::Denied,
            Errno::NOSYS | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => Why::NotSupported,
            Errno::AGAIN | Errno::TIMEDOUT => Why::Deadline,
            other => Why::Os(other.raw_os_error()),
        };
        Self { what, why }
    }
}

/// What was being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reading {
    /// The boot id.
    BootId,
    /// The table of listening sockets.
    Sockets,
    /// Who holds which socket, by the descriptors of all processes.
    Descriptors,
    /// One process, by its pid.
    Process(u32),
    /// The list of all processes.
    Processes,
    /// A bind of this port.
    Bind(u16),
    /// A connect to this port.
    Connect(u16),
    /// The kernel's settings about ports.
    PortFacts,
}

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BootId => f.write_str("boot id"),
            Self::Sockets => f.write_str("listening sockets"),
            Self::Descriptors => f.write_str("descriptors of processes"),
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Processes => f.write_str("list of processes"),
            Self::Bind(port) => write!(f, "bind of port {port}"),
            Self::Connect(port) => write!(f, "connect to port {port}"),
            Self::PortFacts => f.write_str("port settings of the kernel"),
        }
    }
}

/// Why something is unknown or not observable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// Not known by the deadline.
    #[error("not known by the deadline")]
    Deadline,
    /// The kernel refuses this user the look (EACCES, EPERM).
    #[error("permission denied")]
    Denied,
    /// It belongs to another user, whose processes this user may not look into.
    #[error("belongs to uid {0}")]
    OtherUser(u32),
    /// A process of this user that forbids being looked into (`PR_SET_DUMPABLE` 0, a setuid program).
    #[error("process {0} forbids being looked into")]
    NotDumpable(u32),
    /// `/proc` hides other users' processes (`hidepid`), or shows another set of processes than the kernel's.
    #[error("processes of other users are hidden")]
    Hidden,
    /// This kernel or platform can't tell.
    #[error("not supported here")]
    NotSupported,
    /// The kernel's answer could not be read to its end, or changed while it was read, repeatedly.
    #[error("unreadable answer")]
    Malformed,
    /// Another error, by its number.
    #[error("os error {0}")]
    Os(i32),
}
