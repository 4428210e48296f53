//! Who holds a socket: by the descriptors of all processes, and by where it was seen last.
//!
//! Threads with a descriptor table of their own (`unshare(CLONE_FILES)`) are not looked into.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::RawDir;
use rustix::io::Errno;

use super::path::Path;
use super::procfs::{Procfs, absent, link_at, parse_number, socket_inode};
use super::unseen;
use crate::{Deadline, Holder, Holding, Reading, Search, Socket, Unknown, Visibility};

/// How many sockets are remembered before all are forgotten.
const REMEMBERED: usize = 16 * 1024;

/// Where sockets were seen, by inode. Never an answer by itself: only where to look first.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<u64, Vec<Holder>>>);

impl Memory {
    fn places(&self) -> MutexGuard<'_, HashMap<u64, Vec<Holder>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, holdings: &[Holding]) {
        let mut places = self.places();
        if places.len() + holdings.len() > REMEMBERED {
            places.clear();
        }
        for holding in holdings {
            if holding.holders.is_empty() {
                places.remove(&holding.socket.inode);
            } else {
                places.insert(holding.socket.inode, holding.holders.clone());
            }
        }
    }

    /// Drops what no longer listens, given everything that does.
    pub(super) fn keep_only(&self, sockets: &[Socket]) {
        let mut places = self.places();
        if places.len() > sockets.len() {
            let alive: std::collections::HashSet<u64> = sockets.iter().map(|socket| socket.inode).collect();
            places.retain(|inode, _| alive.contains(inode));
        }
    }
}

/// Who holds these sockets, in their order.
pub(super) fn holdings(
    procfs: &Procfs,
    memory: &Memory,
    sockets: &[Socket],
    search: Search,
    deadline: &Deadline,
) -> Vec<Holding> {
    let nobody = |socket: &Socket| Holding::none(*socket, Visibility::NotVisible);
    let mut found: Vec<Holding> = sockets.iter().map(nobody).collect();
    if search == Search::Known {
        recall(procfs, memory, &mut found);
    }
    let mut wanted: HashMap<u64, usize> = HashMap::new();
    for (at, holding) in found.iter().enumerate() {
        // A row without an inode has no process any more.
        if holding.holders.is_empty() && holding.socket.inode != 0 {
            wanted.insert(holding.socket.inode, at);
        }
    }
    if wanted.is_empty() {
        return found;
    }
    let mut sweep = Sweep { procfs, wanted, until_found: search == Search::Known, unreadable: Vec::new() };
    let outcome = sweep.everybody(&mut found, deadline);
    match outcome {
        Ok(()) => unseen::judge(procfs, &sweep.unreadable, search, &mut found, deadline),
        Err(unknown) => {
            for holding in found.iter_mut().filter(|holding| holding.holders.is_empty()) {
                holding.visibility = Visibility::Unknown(unknown);
            }
        }
    }
    for holding in &mut found {
        holding.holders.sort_unstable();
        if !holding.holders.is_empty() {
            holding.visibility = Visibility::Visible;
        }
    }
    memory.remember(&found);
    found
}

/// Which of these sockets the given processes hold. Processes that are gone or can't be read add nothing.
pub(super) fn held_by(
    procfs: &Procfs,
    pids: &[u32],
    sockets: &[Socket],
    deadline: &Deadline,
) -> Result<Vec<Holding>, Unknown> {
    let mut found: Vec<Holding> =
        sockets.iter().map(|socket| Holding::none(*socket, Visibility::Visible)).collect();
    let wanted = sockets.iter().enumerate().map(|(at, socket)| (socket.inode, at)).collect();
    let mut sweep = Sweep { procfs, wanted, until_found: false, unreadable: Vec::new() };
    for pid in pids {
        deadline.check(Reading::Descriptors)?;
        sweep.process(*pid, &mut found);
    }
    found.retain(|holding| !holding.holders.is_empty());
    for holding in &mut found {
        holding.holders.sort_unstable();
        holding.holders.dedup();
    }
    Ok(found)
}

/// Fills in what is still where it was seen last.
fn recall(procfs: &Procfs, memory: &Memory, found: &mut [Holding]) {
    {
        let places = memory.places();
        for holding in found.iter_mut() {
            if let Some(seen) = places.get(&holding.socket.inode) {
                holding.holders.extend_from_slice(seen);
            }
        }
    }
    // Checked without the lock: it takes system calls.
    for holding in found {
        let inode = holding.socket.inode;
        holding.holders.retain(|holder| still(procfs, inode, holder));
        if !holding.holders.is_empty() {
            holding.visibility = Visibility::Visible;
        }
    }
}

/// Whether that very process still has the socket under that descriptor.
fn still(procfs: &Procfs, inode: u64, holder: &Holder) -> bool {
    let mut buffer = [0; 64];
    let path = Path::pid(holder.process.pid).name("/fd/").number(holder.fd);
    let link = procfs.link(path.as_c_str(), &mut buffer);
    // The start is read last: if it is the remembered one now, the pid was no other process' before.
    link.is_ok_and(|link| socket_inode(link) == Some(inode))
        && matches!(procfs.place(holder.process.pid), Ok(Some(place)) if place.kin.id == holder.process)
}

/// One pass over descriptors.
struct Sweep<'p> {
    procfs: &'p Procfs,
    /// Inode to place in the answer.
    wanted: HashMap<u64, usize>,
    /// Leave a socket alone once it has one holder, and end when each has.
    until_found: bool,
    /// Processes that could not be looked into.
    unreadable: Vec<u32>,
}

impl Sweep<'_> {
    fn everybody(&mut self, found: &mut [Holding], deadline: &Deadline) -> Result<(), Unknown> {
        // The youngest first: what is asked for was mostly started lately.
        for pid in self.procfs.pids(deadline)?.into_iter().rev() {
            if self.wanted.is_empty() {
                break;
            }
            deadline.check(Reading::Descriptors)?;
            self.process(pid, found);
        }
        Ok(())
    }

    fn process(&mut self, pid: u32, found: &mut [Holding]) {
        let read = self.procfs.directory(Path::pid(pid).name("/fd").as_c_str());
        match read.and_then(|descriptors| self.descriptors(pid, descriptors.as_fd(), found)) {
            Ok(()) | Err(Errno::NOENT | Errno::SRCH) => {}
            Err(_) => self.unreadable.push(pid),
        }
    }

    fn descriptors(
        &mut self,
        pid: u32,
        descriptors: BorrowedFd<'_>,
        found: &mut [Holding],
    ) -> Result<(), Errno> {
        let mut names = [MaybeUninit::uninit(); 8 * 1024];
        let mut entries = RawDir::new(descriptors, &mut names);
        // The process' identity, once it was needed.
        let mut id = None;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            let Some(fd) = parse_number(name.to_bytes()) else {
                continue;
            };
            let mut buffer = [0; 64];
            let Some(link) = absent(link_at(descriptors, name, &mut buffer))? else {
                continue;
            };
            let Some((inode, at)) =
                socket_inode(link).and_then(|inode| Some((inode, *self.wanted.get(&inode)?)))
            else {
                continue;
            };
            if id.is_none() {
                let Some(place) = self.procfs.place(pid)? else {
                    return Ok(());
                };
                // `descriptors` belongs to the process that was opened. If it still answers, that process
                // lived when the line was read, so the line is its own and not a successor's.
                let mut again = [0; 64];
                let Some(link) = absent(link_at(descriptors, name, &mut again))? else {
                    continue;
                };
                if socket_inode(link) != Some(inode) {
                    continue;
                }
                id = Some(place.kin.id);
            }
            let (Some(process), Some(holding)) = (id, found.get_mut(at)) else {
                continue;
            };
            // One line a process, with the first descriptor.
            if holding.holders.last().is_none_or(|holder| holder.process != process) {
                holding.holders.push(Holder { process, fd });
            }
            if self.until_found {
                self.wanted.remove(&inode);
                if self.wanted.is_empty() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
