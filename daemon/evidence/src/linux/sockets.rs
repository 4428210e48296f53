//! The table of sockets, from netlink where it may be asked, else from `/proc/net`.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use super::procfs::Procfs;
use super::reply::Row;
use super::{netlink, tables};
use crate::{Deadline, Socket, Table, Unknown, Why};

/// Bits of the kernel's TCP states (`include/net/tcp_states.h`).
pub(super) const ESTABLISHED: u8 = 1;
pub(super) const LISTEN: u8 = 10;
/// Not a state of a socket but a question: bound, neither listening nor connected. Linux 6.8; older kernels
/// answer nothing.
const BOUND_INACTIVE: u8 = 13;

const LISTENING: u32 = 1 << LISTEN;
const BOUND: u32 = 1 << BOUND_INACTIVE;
/// Everything that is or was connected: 1 to 12 without LISTEN.
const CONNECTED: u32 = 0x1ffe & !LISTENING;

/// How the table is read, and whether netlink was refused before.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    refused: AtomicBool,
}

impl Sockets {
    pub(super) fn table(&self) -> Table {
        if self.refused.load(Ordering::Relaxed) { Table::Proc } else { Table::Netlink }
    }

    /// Listening sockets, ascending by port.
    pub(super) fn listening(
        &self,
        procfs: &Procfs,
        port: Option<u16>,
        deadline: &Deadline,
    ) -> Result<Vec<Socket>, Unknown> {
        let rows = self.dump(procfs, LISTENING, port, deadline)?;
        let mut sockets: Vec<Socket> = rows.into_iter().map(|row| row.socket).collect();
        // A dump in several pieces may tell a socket twice.
        sockets.sort_unstable_by_key(|socket| (socket.port, socket.address, socket.inode));
        sockets.dedup_by_key(|socket| (socket.port, socket.address, socket.inode));
        Ok(sockets)
    }

    /// Sockets that are bound only, where the kernel can tell.
    pub(super) fn bound(
        &self,
        procfs: &Procfs,
        port: u16,
        deadline: &Deadline,
    ) -> Result<Vec<Socket>, Unknown> {
        if self.table() == Table::Proc {
            return Ok(Vec::new());
        }
        let rows = self.dump(procfs, BOUND, Some(port), deadline)?;
        Ok(rows.into_iter().map(|row| row.socket).collect())
    }

    /// Connections whose own end is this port, in any state.
    pub(super) fn connected(
        &self,
        procfs: &Procfs,
        port: u16,
        deadline: &Deadline,
    ) -> Result<Vec<Row>, Unknown> {
        self.dump(procfs, CONNECTED, Some(port), deadline)
    }

    fn dump(
        &self,
        procfs: &Procfs,
        states: u32,
        port: Option<u16>,
        deadline: &Deadline,
    ) -> Result<Vec<Row>, Unknown> {
        if self.table() == Table::Netlink {
            match netlink::dump(states, port, deadline) {
                Err(unknown) if refused(unknown.why) => {
                    if !self.refused.swap(true, Ordering::Relaxed) {
                        tracing::info!(why = %unknown.why, "netlink is refused, reading /proc/net/tcp instead");
                    }
                }
                answer => return answer,
            }
        }
        tables::dump(procfs, states, port, deadline)
    }
}

/// Whether it is not for this process, now or later: a sandbox, or a kernel without tcp_diag. Anything else
/// (no memory, no descriptors left) passes.
fn refused(why: Why) -> bool {
    let lasting = [Errno::NOENT, Errno::CONNREFUSED, Errno::SOCKTNOSUPPORT, Errno::INVAL];
    match why {
        Why::Denied | Why::NotSupported => true,
        Why::Os(number) => lasting.iter().any(|error| error.raw_os_error() == number),
        _ => false,
    }
}
