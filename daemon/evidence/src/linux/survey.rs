//! Who held every listening socket when all processes were looked into, and what has changed since.
//!
//! For lists: the first one pays for a look into every process, the next ones for one small read a process and
//! a look again where each socket was seen. A process comes by a socket by making it, and then the survey doesn't
//! know the socket; or from its parent, and then the survey doesn't know the process. Both are looked into. What a
//! known process was passed over by another one is missed until the next survey; [`crate::Search::Every`] sees it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::holders;
use super::memory::Memory;
use super::path::Path;
use super::procfs::{Procfs, socket_inode};
use super::sweep::{self, Wanted};
use crate::{Deadline, Holder, Holding, ProcessId, Socket, Unknown, Visibility, Why};

/// A survey of more sockets than this is not kept.
const CAPACITY: usize = 16 * 1024;

/// The last survey. Nothing slow is done while it is held.
#[derive(Debug, Default)]
pub(super) struct Survey(Mutex<Option<Arc<Surveyed>>>);

#[derive(Debug, Clone)]
struct Surveyed {
    found: Vec<Holding>,
    /// Where each is in `found`. By inode and cookie: an inode is used again one day.
    places: HashMap<(u64, u64), usize>,
    /// Who was looked into for all of them.
    swept: HashSet<ProcessId>,
}

impl Survey {
    /// Who holds these sockets; `all` are the sockets to look for where everybody has to be looked into.
    pub(super) fn holdings(
        &self,
        procfs: &Procfs,
        memory: &Memory,
        sockets: &[Socket],
        all: impl FnOnce() -> Result<Vec<Socket>, Unknown>,
        deadline: &Deadline,
    ) -> Vec<Holding> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(kept) = kept
            && let Some(found) = self.go_on(procfs, Arc::unwrap_or_clone(kept), sockets, deadline)
        {
            return found;
        }
        let mut every = all().unwrap_or_default();
        let known: HashSet<(u64, u64)> = every.iter().map(key).collect();
        every.extend(sockets.iter().filter(|socket| !known.contains(&key(socket))));
        let (found, swept) = holders::survey(procfs, memory, &every, deadline);
        let places = found.iter().enumerate().map(|(at, holding)| (key(&holding.socket), at)).collect();
        let surveyed = Surveyed { found, places, swept: swept.clone().unwrap_or_default() };
        let asked = surveyed.pick(sockets);
        self.keep(swept.map(|_| surveyed));
        asked
    }

    /// What the kept survey says by now; `None` if it can't be relied on for all of these.
    fn go_on(
        &self,
        procfs: &Procfs,
        mut kept: Surveyed,
        sockets: &[Socket],
        deadline: &Deadline,
    ) -> Option<Vec<Holding>> {
        let mut living = HashMap::with_capacity(sockets.len());
        for socket in sockets {
            // Without a cookie a later socket with the inode could not be told from this one.
            let at = *kept.places.get(&key(socket)).filter(|_| socket.cookie != 0)?;
            if deadline.passed() || !stands(procfs, &mut kept.found[at], &mut living) {
                return None;
            }
        }
        let wanted = Wanted::every(&kept.found);
        let (catch, swept) = sweep::since(procfs, &wanted, &kept.swept, &living, deadline).ok()?;
        // That nobody has one doesn't follow any more if somebody can't be looked into.
        let unseen = |at: &usize| kept.found[*at].visibility == Visibility::NotVisible;
        if !catch.unreadable.is_empty() && kept.places.values().any(unseen) {
            return None;
        }
        catch.land(&mut kept.found);
        for holding in kept.found.iter_mut().filter(|holding| !holding.holders.is_empty()) {
            holding.visibility = Visibility::Visible;
            holding.holders.sort_unstable();
            holding.holders.dedup_by_key(|holder| holder.process);
        }
        kept.swept = swept;
        let asked = kept.pick(sockets);
        self.keep(Some(kept));
        Some(asked)
    }

    fn keep(&self, surveyed: Option<Surveyed>) {
        let surveyed = surveyed.filter(|surveyed| surveyed.found.len() <= CAPACITY).map(Arc::new);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = surveyed;
    }
}

impl Surveyed {
    fn pick(&self, sockets: &[Socket]) -> Vec<Holding> {
        let find = |socket: &Socket| {
            let at = self.places.get(&key(socket)).copied();
            at.map_or_else(|| Holding::none(*socket, Visibility::NotVisible), |at| self.found[at].clone())
        };
        sockets.iter().map(find).collect()
    }
}

fn key(socket: &Socket) -> (u64, u64) {
    (socket.inode, socket.cookie)
}

/// Whether it is certain who of the surveyed processes has the socket now; those that ended are left out.
fn stands(procfs: &Procfs, holding: &mut Holding, living: &mut HashMap<u32, ProcessId>) -> bool {
    if holding.holders.is_empty() {
        return match holding.visibility {
            Visibility::NotVisible => true,
            // What stood in the way may be gone.
            Visibility::NotObservable { reason: Why::NotDumpable(pid) } => {
                matches!(procfs.place(pid), Ok(Some(_)))
            }
            Visibility::NotObservable { .. } => true,
            Visibility::Visible | Visibility::Unknown(_) => false,
        };
    }
    let inode = holding.socket.inode;
    let mut certain = true;
    holding.holders.retain(|holder| match now(procfs, inode, holder) {
        Now::Holds => {
            living.insert(holder.process.pid, holder.process);
            true
        }
        Now::Ended => false,
        Now::Changed => {
            certain = false;
            true
        }
    });
    // Somebody has it who got it passed over, if those who had it have ended.
    certain && !holding.holders.is_empty()
}

enum Now {
    /// That very process has it under that descriptor.
    Holds,
    /// That process has ended.
    Ended,
    /// It lives, and has it elsewhere or not at all, or can't be read.
    Changed,
}

fn now(procfs: &Procfs, inode: u64, holder: &Holder) -> Now {
    let id = holder.process;
    let mut buffer = [0; 64];
    let path = Path::pid(id.pid).name("/fd/").number(holder.fd);
    let link = procfs.link(path.as_c_str(), &mut buffer);
    let there = link.is_ok_and(|link| socket_inode(link) == Some(inode));
    // The start is read last: if it is the remembered one now, the pid was no other process' before.
    match super::present(id.pid, || procfs.place(id.pid)) {
        Ok(Some(place)) if place.kin.id != id || place.kin.zombie => Now::Ended,
        Ok(Some(_)) if there => Now::Holds,
        Ok(None) => Now::Ended,
        Ok(Some(_)) | Err(_) => Now::Changed,
    }
}
