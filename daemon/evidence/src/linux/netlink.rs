//! The kernel's table of TCP sockets, by netlink SOCK_DIAG (sock_diag(7)).
//!
//! Only questions and their transport; the answers are read in `reply`. Each question has a socket of its own,
//! so that threads don't wait for one another and an interrupted answer leaves nothing behind.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with,
};

use super::reply::{self, Progress, Row};
use crate::{Deadline, Reading, Unknown, Why};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const IPPROTO_TCP: u8 = 6;
pub(super) const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;

/// Attribute of a question: a filter program that runs in the kernel.
const INET_DIAG_REQ_BYTECODE: u16 = 1;
/// Filter: source port at least, at most. (Since Linux 2.6; `S_EQ` is from 5.9 only.)
const S_GE: u8 = 2;
const S_LE: u8 = 3;

/// How often an answer that changed while it was given is asked for again.
const ATTEMPTS: usize = 4;
/// The kernel fills answers up to this size, if it sees such a buffer.
const BUFFER: usize = 32 * 1024;

/// Every socket in one of these states (bits), of this local port if one is given, both families.
pub(super) fn dump(states: u32, port: Option<u16>, deadline: &Deadline) -> Result<Vec<Row>, Unknown> {
    let mut rows = Vec::new();
    let mut buffer = vec![0; BUFFER];
    for family in [AF_INET, AF_INET6] {
        let before = rows.len();
        let mut attempt = 0;
        loop {
            attempt += 1;
            deadline.check(Reading::Sockets)?;
            match ask(family, states, port, deadline, &mut buffer, &mut rows) {
                Ok(()) => break,
                // Interrupted by a change, or overrun: what came is not the whole of it.
                Err(Failed::Changed | Failed::Os(Errno::NOBUFS)) if attempt < ATTEMPTS => {
                    rows.truncate(before)
                }
                Err(Failed::Changed | Failed::Malformed) => {
                    return Err(Unknown::new(Reading::Sockets, Why::Malformed));
                }
                // No IPv6 in this kernel: it has no handler for the family.
                Err(Failed::Os(Errno::NOENT)) if family == AF_INET6 => break,
                Err(Failed::Os(error)) => return Err(Unknown::os(Reading::Sockets, error)),
            }
        }
    }
    Ok(rows)
}

enum Failed {
    Changed,
    Malformed,
    Os(Errno),
}

impl From<Errno> for Failed {
    fn from(error: Errno) -> Self {
        Self::Os(error)
    }
}

fn ask(
    family: u8,
    states: u32,
    port: Option<u16>,
    deadline: &Deadline,
    buffer: &mut [u8],
    rows: &mut Vec<Row>,
) -> Result<(), Failed> {
    static SEQUENCE: AtomicU32 = AtomicU32::new(1);
    let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let socket = open()?;
    let remaining = deadline.remaining();
    if remaining.is_zero() {
        return Err(Errno::TIMEDOUT.into());
    }
    set_socket_timeout(&socket, Timeout::Recv, Some(remaining))?;
    let question = question(family, states, port, sequence);
    retry_on_intr(|| sendto(&socket, &question, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)))?;
    let mut changed = false;
    loop {
        // TRUNC: the true length is told when the buffer was too small.
        let (_, length, sender) = retry_on_intr(|| recvfrom(&socket, &mut *buffer, RecvFlags::TRUNC))?;
        let sender = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok());
        if sender.is_none_or(|sender| sender.pid() != 0) {
            continue; // Not the kernel.
        }
        let Some(datagram) = buffer.get(..length) else {
            return Err(Failed::Malformed);
        };
        match reply::parse(datagram, sequence, rows) {
            Progress::More { interrupted } => changed |= interrupted,
            Progress::Done { interrupted } if changed || interrupted => return Err(Failed::Changed),
            Progress::Done { .. } => return Ok(()),
            Progress::Refused(error) => return Err(Failed::Os(error)),
            Progress::Malformed => return Err(Failed::Malformed),
        }
        if deadline.passed() {
            return Err(Errno::TIMEDOUT.into());
        }
    }
}

fn open() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))
}

/// `nlmsghdr`, `inet_diag_req_v2`, and the filter for a port.
fn question(family: u8, states: u32, port: Option<u16>, sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    bytes.extend(0u32.to_ne_bytes()); // length, below
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes()); // our port id: the kernel's to choose
    bytes.extend([family, IPPROTO_TCP, 0, 0]); // no extensions; V6ONLY and the rest come unasked
    bytes.extend(states.to_ne_bytes());
    bytes.extend([0; 48]); // inet_diag_sockid: ignored by dumps, but for the port where there is no filter
    if let Some(port) = port {
        bytes.extend(20u16.to_ne_bytes());
        bytes.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
        // Each step: code, jump if yes, jump if no (16 bit), and its operand. A jump to 4 beyond the end
        // rejects, one to the end accepts.
        bytes.extend([S_GE, 8]);
        bytes.extend(20u16.to_ne_bytes());
        bytes.extend([0, 0]);
        bytes.extend(port.to_ne_bytes());
        bytes.extend([S_LE, 8]);
        bytes.extend(12u16.to_ne_bytes());
        bytes.extend([0, 0]);
        bytes.extend(port.to_ne_bytes());
    }
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}
