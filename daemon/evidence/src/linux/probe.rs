//! The probe: may this port be bound? Tried by binding, and undone at once.
//!
//! Only a dual-stack bind of `[::]` meets every holder: a bind of `127.0.0.1` works beside one on `::1`, and
//! the other way round.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_linger, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::facts;
use super::procfs::Procfs;
use super::sockets::{ESTABLISHED, Sockets};
use crate::{Deadline, Probe, Reading, Unknown};

/// How long a connect to our own machine may take: it is answered or refused in microseconds, unless a packet
/// filter drops it.
const CONNECT: Duration = Duration::from_millis(250);

/// See [`crate::Source::probe`].
pub(super) fn probe(procfs: &Procfs, sockets: &Sockets, port: u16, deadline: &Deadline) -> Probe {
    let unknown = |error| Probe::Unknown(Unknown::os(Reading::Bind(port), error));
    if port == 0 {
        return unknown(Errno::INVAL);
    }
    if let Err(late) = deadline.check(Reading::Bind(port)) {
        return Probe::Unknown(late);
    }
    match try_bind(port, false) {
        Ok(Family::Both) => Probe::Free,
        // Without IPv6, 0.0.0.0 meets every holder there can be; the table is asked all the same.
        Ok(Family::V4Only) => match sockets.listening(procfs, Some(port), deadline) {
            Ok(listening) if listening.is_empty() => Probe::Free,
            Ok(_) => Probe::Held,
            Err(unknown) => Probe::Unknown(unknown),
        },
        Err(Errno::ADDRINUSE) => in_use(procfs, sockets, port, deadline),
        // A security module says the same of any port.
        Err(Errno::ACCESS) if port < facts::unprivileged_start(procfs) => Probe::Privileged,
        Err(error) => unknown(error),
    }
}

/// Tells connections that are closing from a holder. `SO_REUSEADDR` binds beside the former, but also beside
/// a socket that is bound only and set it too; so the table has to show the former, and nothing else.
fn in_use(procfs: &Procfs, sockets: &Sockets, port: u16, deadline: &Deadline) -> Probe {
    match try_bind(port, true) {
        Ok(_) => {}
        Err(Errno::ADDRINUSE) => return Probe::Held,
        Err(error) => return Probe::Unknown(Unknown::os(Reading::Bind(port), error)),
    }
    let table = || {
        let listening = sockets.listening(procfs, Some(port), deadline)?;
        let bound = sockets.bound(procfs, port, deadline)?;
        let connected = sockets.connected(procfs, port, deadline)?;
        Ok((listening, bound, connected))
    };
    match table() {
        Err(unknown) => Probe::Unknown(unknown),
        Ok((listening, bound, connected)) => {
            // No inode: no process has it open any more.
            let closing = |row: &super::reply::Row| row.socket.inode == 0 && row.state != ESTABLISHED;
            let nobody = listening.is_empty() && bound.is_empty() && connected.iter().all(closing);
            if nobody && !connected.is_empty() {
                return Probe::Settling;
            }
            // What was in the way may be gone by now; a holder without any row isn't.
            match try_bind(port, false) {
                Ok(_) if nobody => Probe::Free,
                _ => Probe::Held,
            }
        }
    }
}

enum Family {
    Both,
    V4Only,
}

fn try_bind(port: u16, reuse: bool) -> Result<Family, Errno> {
    match bind_once(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), reuse) {
        Ok(()) => Ok(Family::Both),
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL | Errno::PROTONOSUPPORT) => {
            bind_once(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), reuse).map(|()| Family::V4Only)
        }
        Err(error) => Err(error),
    }
}

fn bind_once(address: SocketAddr, reuse: bool) -> Result<(), Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, false)?;
    }
    if reuse {
        set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &address)
}

/// Whether this kernel gives out IPv6 sockets at all.
pub(super) fn has_ipv6() -> bool {
    socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, None).is_ok()
}

/// See [`crate::Source::answers`].
pub(super) fn answers(port: u16, deadline: &Deadline) -> Result<Vec<IpAddr>, Unknown> {
    let mut addresses = Vec::new();
    let mut failed = None;
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        deadline.check(Reading::Connect(port))?;
        // Never zero: that was checked, and would be an error of its own.
        let time = deadline.remaining().min(CONNECT).max(Duration::from_millis(1));
        match std::net::TcpStream::connect_timeout(&SocketAddr::new(address, port), time) {
            Ok(stream) => {
                // The kernel may choose the very port as our own, and so connect us to ourselves.
                if stream.local_addr().ok() != stream.peer_addr().ok() {
                    addresses.push(address);
                }
                // Reset instead of TIME_WAIT: nothing was said, and nothing is to be left behind.
                if let Err(error) = set_socket_linger(stream.as_fd(), Some(Duration::ZERO)) {
                    tracing::debug!(%error, "a connection was closed without a reset");
                }
            }
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::CONNREFUSED) => {}
                // Dropped by a packet filter: nobody answers.
                None | Some(Errno::TIMEDOUT) => {}
                // No such address here. (Of IPv4 it would mean that no source port is left.)
                Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::NETUNREACH) if address.is_ipv6() => {}
                Some(other) => failed = Some(other),
            },
        }
    }
    match failed {
        Some(error) if addresses.is_empty() => Err(Unknown::os(Reading::Connect(port), error)),
        _ => Ok(addresses),
    }
}
