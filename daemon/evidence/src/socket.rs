//! Listening sockets, and who holds them.

use std::net::IpAddr;

use crate::{ProcessId, Unknown, Why};

/// One TCP socket that owns a port of this network namespace: listening, or bound without listening.
/// Connections are no owners and are never given as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Socket {
    /// The address it is bound to, as bound: `::` is not rewritten to `0.0.0.0`.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// An IPv6 socket that takes no IPv4 connections. `false` for IPv4 sockets, and where only
    /// `/proc/net/tcp6` could be read ([`crate::Table::Proc`]), which doesn't say.
    pub v6only: bool,
    /// The user that made it.
    pub uid: u32,
    /// Its inode, as in `/proc/PID/fd`. Identifies it while it lives. On macOS a stand-in made of the
    /// holder's pid and descriptor.
    pub inode: u64,
    /// The kernel's never repeated number of it; 0 where that can't be read.
    pub cookie: u64,
}

impl Socket {
    /// Whether a connection to this address would reach it, addresses and families considered.
    pub fn accepts(&self, to: IpAddr) -> bool {
        match (self.address, to) {
            (IpAddr::V4(own), IpAddr::V4(to)) => own.is_unspecified() || own == to,
            (IpAddr::V6(own), IpAddr::V6(to)) => own.is_unspecified() || own == to,
            (IpAddr::V6(own), IpAddr::V4(to)) => {
                !self.v6only && (own.is_unspecified() || own.to_ipv4_mapped() == Some(to))
            }
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }
}

/// A process that has the socket open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder {
    /// Which process.
    pub process: ProcessId,
    /// Under which descriptor (the first one found, if several).
    pub fd: u32,
}

/// A socket and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The socket.
    pub socket: Socket,
    /// The processes that have it open, ascending by pid; several when a descriptor was inherited.
    pub holders: Vec<Holder>,
    /// Whether the holders were found, and if not why.
    pub visibility: Visibility,
    /// Whether `holders` is known to be the whole of them: all processes that can be looked into were, just
    /// now, and none that can't be is related to this socket. Only [`Search::Every`] can say so.
    pub complete: bool,
}

impl Holding {
    /// A socket without a known holder.
    pub(crate) fn none(socket: Socket, visibility: Visibility) -> Self {
        Self { socket, holders: Vec::new(), visibility, complete: false }
    }
}

/// Whether a socket's holders could be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// At least one holder was found.
    Visible,
    /// Every process was looked into, and none has it: the kernel's own, in flight between processes, or
    /// held from another pid namespace.
    NotVisible,
    /// None was found, and some process that may hold it could not be looked into. Says which kind.
    NotObservable {
        /// What stood in the way.
        reason: Why,
    },
    /// Not searched to the end.
    Unknown(Unknown),
}

/// How far to search for holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Search {
    /// Until each socket has one holder: where it was seen last, else all processes until found. A socket that
    /// had no visible holder when all were looked into is looked for in processes started since. A second
    /// holder (a forked child) may be missed, and one that got the socket passed over from another process.
    /// For checking what is already confirmed.
    Known,
    /// Every holder, from the last look into all processes and from what has changed since: new sockets, ended
    /// holders, processes started since. What a process that was looked into got passed over by another one is
    /// missed until the next look into all. For lists.
    Since,
    /// Every holder among those who can have the socket from a tree of processes, or the tree from them: all
    /// that started no earlier than its root, those above the root, and those in its process group.
    /// What an older stranger got passed over a unix socket is missed. For confirming; a socket without a holder
    /// here wants [`Search::Every`].
    Related(ProcessId),
    /// All processes, for every holder. For one port shown in full, and before acting.
    Every,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(address: &str, v6only: bool) -> Socket {
        let address = address.parse().expect("a literal address");
        Socket { address, port: 3000, v6only, uid: 0, inode: 1, cookie: 1 }
    }

    #[test]
    fn accepts_follows_families_and_wildcards() {
        let v4: IpAddr = "127.0.0.1".parse().expect("literal");
        let v6: IpAddr = "::1".parse().expect("literal");
        for (address, v6only, takes_v4, takes_v6) in [
            ("127.0.0.1", false, true, false),
            ("127.0.0.2", false, false, false),
            ("0.0.0.0", false, true, false),
            ("::1", false, false, true),
            ("::", false, true, true),
            ("::", true, false, true),
            ("::ffff:127.0.0.1", false, true, false),
        ] {
            let socket = socket(address, v6only);
            assert_eq!(socket.accepts(v4), takes_v4, "{address} v6only={v6only} v4");
            assert_eq!(socket.accepts(v6), takes_v6, "{address} v6only={v6only} v6");
        }
    }
}
