//! Listening sockets on macOS: there is no table, so the descriptors of processes are the table.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libproc::libproc::file_info::{ListFDs, ProcFDType, pidfdinfo};
use libproc::libproc::net_info::{SocketFDInfo, SocketInfoKind, TcpSIState};
use libproc::libproc::proc_pid::listpidinfo;

use super::processes;
use crate::{Deadline, Holder, Holding, Reading, Socket, Unknown, Visibility, Why};

/// `INI_IPV4` of `sys/proc_info.h`: the socket takes IPv4 connections.
const INI_IPV4: u8 = 1;
/// Descriptors that a process may open between being counted and being listed.
const MORE: usize = 32;

/// The listening sockets that these processes have open, ascending by port, each with its holders.
/// Processes that are gone or can't be looked into add nothing.
pub(super) fn held(pids: &[u32], deadline: &Deadline) -> Result<Vec<Holding>, Unknown> {
    let mut found: BTreeMap<(u16, u64), Holding> = BTreeMap::new();
    for pid in pids {
        deadline.check(Reading::Descriptors)?;
        let (Some(count), Ok(raw)) = (processes::descriptors(*pid), i32::try_from(*pid)) else { continue };
        let Some(read) = processes::read(*pid)? else { continue };
        let process = read.kin().id;
        let Ok(descriptors) = listpidinfo::<ListFDs>(raw, count + MORE) else { continue };
        for descriptor in descriptors {
            if !matches!(descriptor.proc_fdtype.into(), ProcFDType::Socket) {
                continue;
            }
            let Ok(info) = pidfdinfo::<SocketFDInfo>(raw, descriptor.proc_fd) else { continue };
            let (Some(socket), Ok(fd)) = (listening(&info, *pid), u32::try_from(descriptor.proc_fd)) else {
                continue;
            };
            let holding = found
                .entry((socket.port, socket.inode))
                .or_insert_with(|| Holding::none(socket, Visibility::Visible));
            holding.complete = true;
            if holding.holders.last().is_none_or(|holder| holder.process != process) {
                holding.holders.push(Holder { process, fd });
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The answer for these sockets, in their order.
pub(super) fn matched(sockets: &[Socket], held: Result<Vec<Holding>, Unknown>) -> Vec<Holding> {
    let one = |socket: &Socket| match &held {
        Err(unknown) => Holding::none(*socket, Visibility::Unknown(*unknown)),
        Ok(held) => held
            .iter()
            .find(|holding| holding.socket.inode == socket.inode && holding.socket.port == socket.port)
            .cloned()
            .unwrap_or(Holding::none(*socket, Visibility::NotObservable { reason: Why::Denied })),
    };
    sockets.iter().map(one).collect()
}

fn listening(info: &SocketFDInfo, pid: u32) -> Option<Socket> {
    let socket = &info.psi;
    if !matches!(socket.soi_kind.into(), SocketInfoKind::Tcp) {
        return None;
    }
    #[expect(unsafe_code, reason = "the kind says which field of the kernel's union it filled")]
    // SAFETY: the kind is TCP, and every bit pattern of these plain numbers is valid.
    let tcp = unsafe { socket.soi_proto.pri_tcp };
    if !matches!(tcp.tcpsi_state.into(), TcpSIState::Listen) {
        return None;
    }
    let local = &tcp.tcpsi_ini;
    let v6 = socket.soi_family == libc::AF_INET6;
    #[expect(unsafe_code, reason = "the family says which field of the kernel's union it filled")]
    // SAFETY: as above; both fields are plain bytes of a union that is whole.
    let address = unsafe {
        if v6 {
            IpAddr::V6(Ipv6Addr::from(local.insi_laddr.ina_6.s6_addr))
        } else {
            IpAddr::V4(Ipv4Addr::from(local.insi_laddr.ina_46.i46a_addr4.s_addr.to_ne_bytes()))
        }
    };
    // The port stands in the low half, in network order.
    let port = u16::try_from(local.insi_lport & 0xffff).ok().map(u16::from_be)?;
    Some(Socket {
        address,
        port,
        v6only: v6 && local.insi_vflag & INI_IPV4 == 0,
        uid: processes::read(pid).ok()??.shown().uid,
        // The kernel's handle of the socket: the same in every process that inherited it.
        inode: socket.soi_so,
        cookie: local.insi_gencnt,
    })
}
