//! `/proc/net/tcp` and `tcp6`, for where netlink is refused. Slower, and silent about V6ONLY and cookies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, read, retry_on_intr};

use super::procfs::Procfs;
use super::reply::Row;
use crate::{Deadline, Reading, Socket, Unknown};

/// Every socket in one of these states (bits), of this local port if one is given, both families.
pub(super) fn dump(
    procfs: &Procfs,
    states: u32,
    port: Option<u16>,
    deadline: &Deadline,
) -> Result<Vec<Row>, Unknown> {
    let mut rows = Vec::new();
    for path in [c"thread-self/net/tcp", c"thread-self/net/tcp6"] {
        let text = match whole(procfs, path, deadline) {
            Ok(text) => text,
            // No IPv6 in this kernel.
            Err(Errno::NOENT) if path == c"thread-self/net/tcp6" => continue,
            Err(error) => return Err(Unknown::os(Reading::Sockets, error)),
        };
        rows.extend(text.split(|byte| *byte == b'\n').filter_map(row).filter(|row| {
            let bit = 1u32.checked_shl(u32::from(row.state)).unwrap_or(0);
            states & bit != 0 && port.is_none_or(|port| row.socket.port == port)
        }));
    }
    Ok(rows)
}

fn whole(procfs: &Procfs, path: &std::ffi::CStr, deadline: &Deadline) -> Result<Vec<u8>, Errno> {
    let file = openat(procfs.root(), path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match retry_on_intr(|| read(&file, &mut piece[..]))? {
            0 => return Ok(text),
            length => text.extend_from_slice(&piece[..length]),
        }
        if deadline.passed() {
            return Err(Errno::TIMEDOUT);
        }
    }
}

/// One line: `N: ADDRESS:PORT ADDRESS:PORT STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE …`, addresses as
/// words of this machine's byte order in hexadecimal (proc_net(5)). `None` for the heading and odd lines.
fn row(line: &[u8]) -> Option<Row> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(address)?)),
        32 => {
            let mut bytes = [0; 16];
            for (place, at) in bytes.chunks_exact_mut(4).zip((0..32).step_by(8)) {
                place.copy_from_slice(&word(address.get(at..at + 8)?)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    let state = u8::from_str_radix(fields.nth(1)?, 16).ok()?;
    let uid = fields.nth(3)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some(Row { socket: Socket { address, port, v6only: false, uid, inode, cookie: 0 }, state })
}

fn word(digits: &str) -> Option<[u8; 4]> {
    Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_both_families_are_read() {
        let line = b"   1: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0000";
        let got = row(line).expect("well formed");
        assert_eq!((got.socket.address, got.socket.port), (IpAddr::V4(Ipv4Addr::LOCALHOST), 3000));
        assert_eq!((got.socket.uid, got.socket.inode, got.state), (1000, 4242, 10));
        let line = b"   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 7 1";
        let got = row(line).expect("well formed");
        assert_eq!((got.socket.address, got.socket.port), (IpAddr::V6(Ipv6Addr::LOCALHOST), 8080));
        assert!(row(b"  sl  local_address rem_address   st tx_queue").is_none());
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in "[ 0-9A-F:]{0,160}") {
            row(line.as_bytes());
        }
    }
}
