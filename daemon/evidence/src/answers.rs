//! Whether somebody takes a connection on loopback: the same on every platform.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;

use crate::{Deadline, Reading, Unknown};

/// How long a connect to our own machine may take: it is answered or refused in microseconds, unless a packet
/// filter drops it.
const CONNECT: Duration = Duration::from_millis(250);

/// See [`crate::Source::answers`].
pub(crate) fn answers(port: u16, deadline: &Deadline) -> Result<Vec<IpAddr>, Unknown> {
    let mut addresses = Vec::new();
    let mut failed = None;
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        deadline.check(Reading::Connect(port))?;
        // Never zero: that was checked, and would be an error of its own.
        let time = deadline.remaining().min(CONNECT).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&SocketAddr::new(address, port), time) {
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
