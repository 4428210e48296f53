//! The probe: may this port be bound? Tried by binding, and undone at once.
//!
//! Only a dual-stack bind of `[::]` meets every holder: a bind of `127.0.0.1` works beside one on `::1`, and
//! the other way round.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::facts;
use super::procfs::Procfs;
use super::sockets::{ESTABLISHED, Sockets};
use crate::{Deadline, Probe, Reading, Unknown};

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
