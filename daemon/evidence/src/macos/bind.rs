//! The probe on macOS: binds, made and undone at once.
//!
//! BSD sockets tell less than Linux' do: a bind of the wildcard may work beside a holder of one address, and
//! `SO_REUSEADDR` even more so. So each address is tried, strictly; and since no table shows TIME_WAIT, a port
//! that is settling is called held.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::{Errno, ioctl_fioclex};
use rustix::net::sockopt::set_ipv6_v6only;
use rustix::net::{AddressFamily, SocketType, bind, socket};

use crate::{Deadline, Probe, Reading, Unknown};

/// See [`crate::Source::probe`].
pub(super) fn probe(port: u16, deadline: &Deadline) -> Probe {
    let unknown = |error| Probe::Unknown(Unknown::os(Reading::Bind(port), error));
    if port == 0 {
        return unknown(Errno::INVAL);
    }
    let addresses: [SocketAddr; 4] = [
        (Ipv6Addr::UNSPECIFIED, port).into(),
        (Ipv4Addr::UNSPECIFIED, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
        (Ipv4Addr::LOCALHOST, port).into(),
    ];
    for address in addresses {
        if let Err(late) = deadline.check(Reading::Bind(port)) {
            return Probe::Unknown(late);
        }
        match bind_once(address) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Probe::Held,
            Err(Errno::ACCESS) if port < 1024 => return Probe::Privileged,
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL | Errno::PROTONOSUPPORT) if address.is_ipv6() => {}
            Err(error) => return unknown(error),
        }
    }
    Probe::Free
}

fn bind_once(address: SocketAddr) -> Result<(), Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket(family, SocketType::STREAM, None)?;
    // There is no flag for it at creation; a process started in between has a copy until its exec ends.
    ioctl_fioclex(&socket)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)
}

/// Whether this kernel gives out IPv6 sockets at all.
pub(super) fn has_ipv6() -> bool {
    socket(AddressFamily::INET6, SocketType::STREAM, None).is_ok()
}
