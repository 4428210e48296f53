//! Who holds a socket: where it was seen last, looked at again; else the descriptors of all processes.

use std::collections::HashSet;

use super::memory::Memory;
use super::path::Path;
use super::procfs::{Place, Procfs, socket_inode};
use super::sweep::{self, Skip, Wanted};
use super::{shown, unseen};
use crate::{Deadline, Holder, Holding, ProcessId, Search, Socket, Unknown, Visibility, Why};

/// Who holds these sockets, in their order.
pub(super) fn holdings(
    procfs: &Procfs,
    memory: &Memory,
    sockets: &[Socket],
    search: Search,
    deadline: &Deadline,
) -> Vec<Holding> {
    let mut found = nobody(sockets);
    let settled = match search {
        Search::Known => {
            recall(procfs, memory, &mut found);
            Wanted::of(&found).is_empty() || only_the_young(procfs, memory, &mut found, deadline)
        }
        Search::Every | Search::Since => Wanted::of(&found).is_empty(),
        Search::Related(root) => {
            related(procfs, root, &mut found, deadline);
            true
        }
    };
    if !settled
        && let Some(sweep) = all(procfs, search, &mut found, deadline)
        && !Wanted::of(&found).is_empty()
    {
        memory.miss(&found, sweep.swept(procfs));
    }
    settle(memory, &mut found);
    found
}

/// Who holds these sockets among all processes, and which processes were looked into for that; `None` if not
/// all of them were.
pub(super) fn survey(
    procfs: &Procfs,
    memory: &Memory,
    sockets: &[Socket],
    deadline: &Deadline,
) -> (Vec<Holding>, Option<HashSet<ProcessId>>) {
    let mut found = nobody(sockets);
    let sweep = all(procfs, Search::Since, &mut found, deadline);
    settle(memory, &mut found);
    (found, sweep.map(|sweep| sweep.swept(procfs)))
}

/// Fills in the holders among the relatives of `root`.
fn related(procfs: &Procfs, root: ProcessId, found: &mut [Holding], deadline: &Deadline) {
    match sweep::relatives(procfs, &Wanted::of(found), root, deadline) {
        Ok(catch) => {
            catch.land(found);
            unseen::judge(procfs, &catch.unreadable, Search::Related(root), found, deadline);
        }
        Err(unknown) => give_up(found, unknown),
    }
}

fn nobody(sockets: &[Socket]) -> Vec<Holding> {
    sockets.iter().map(|socket| Holding::none(*socket, Visibility::NotVisible)).collect()
}

fn settle(memory: &Memory, found: &mut [Holding]) {
    for holding in found.iter_mut() {
        holding.holders.sort_unstable();
        if !holding.holders.is_empty() {
            holding.visibility = Visibility::Visible;
        }
    }
    memory.place(found);
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
    sweep::these(procfs, &Wanted::of(&found), pids, deadline)?.land(&mut found);
    found.retain(|holding| !holding.holders.is_empty());
    for holding in &mut found {
        holding.holders.sort_unstable();
        holding.holders.dedup();
    }
    Ok(found)
}

/// Fills in what is still where it was seen last.
fn recall(procfs: &Procfs, memory: &Memory, found: &mut [Holding]) {
    memory.recall(found);
    for holding in found {
        let inode = holding.socket.inode;
        holding.holders.retain(|holder| still(procfs, inode, holder));
    }
}

/// A look through all processes that came to its end.
struct Sweep {
    pids: Vec<u32>,
    unreadable: HashSet<u32>,
    began: u64,
}

impl Sweep {
    /// Who was looked into.
    fn swept(self, procfs: &Procfs) -> HashSet<ProcessId> {
        let met = self.pids.iter().filter_map(|pid| procfs.place(*pid).ok().flatten());
        let looked_into = |place: &Place| {
            // Threads of the kernel hold nothing, whether they may be looked into or not.
            (place.kernel_thread || !self.unreadable.contains(&place.kin.id.pid))
                // Who started later may have taken over a pid that was looked into.
                && place.kin.id.start_ticks < self.began
        };
        met.filter(looked_into).map(|place| place.kin.id).collect()
    }
}

/// Looks through all processes, for those that have no holder yet.
fn all(procfs: &Procfs, search: Search, found: &mut [Holding], deadline: &Deadline) -> Option<Sweep> {
    let began = shown::ticks_since_boot();
    let mut wanted = Wanted::of(found);
    let catch = match search {
        Search::Known => sweep::until_found(procfs, &mut wanted, None, deadline),
        Search::Every | Search::Since | Search::Related(_) => sweep::everybody(procfs, &wanted, deadline),
    };
    match catch {
        Ok(catch) => {
            catch.land(found);
            unseen::judge(procfs, &catch.unreadable, search, found, deadline);
            Some(Sweep { pids: catch.pids, unreadable: catch.unreadable.into_iter().collect(), began })
        }
        Err(unknown) => {
            give_up(found, unknown);
            None
        }
    }
}

/// If those without a holder had none in an earlier sweep either, looks only into processes started since, and
/// answers true. (A process gets a socket by making it, which makes a new one; from its parent, and then it is
/// young; or passed over by another process, and that is missed until the next sweep of all.)
fn only_the_young(procfs: &Procfs, memory: &Memory, found: &mut [Holding], deadline: &Deadline) -> bool {
    let places: Vec<usize> = (0..found.len()).filter(|at| found[*at].holders.is_empty()).collect();
    let sockets: Vec<Socket> = places.iter().map(|at| found[*at].socket).collect();
    let Some((verdicts, swept)) = memory.absent(&sockets) else { return false };
    // What stood in the way may be gone.
    let stands = |verdict: &Visibility| match verdict {
        Visibility::NotObservable { reason: Why::NotDumpable(pid) } => {
            matches!(procfs.place(*pid), Ok(Some(_)))
        }
        _ => true,
    };
    if !verdicts.iter().all(stands) {
        return false;
    }
    // These were just seen at their sockets.
    let held = found.iter().flat_map(|holding| &holding.holders).map(|holder| holder.process);
    let living = held.filter(|process| swept.contains(process)).map(|process| process.pid).collect();
    let skip = Skip { swept, living };
    let catch = match sweep::until_found(procfs, &mut Wanted::of(found), Some(&skip), deadline) {
        Ok(catch) => catch,
        Err(unknown) => {
            give_up(found, unknown);
            return true;
        }
    };
    // That nobody has it doesn't follow any more if somebody can't be looked into.
    if !catch.unreadable.is_empty() && verdicts.contains(&Visibility::NotVisible) {
        return false;
    }
    catch.land(found);
    for (at, verdict) in places.into_iter().zip(verdicts) {
        found[at].visibility = verdict;
    }
    true
}

fn give_up(found: &mut [Holding], unknown: Unknown) {
    for holding in found.iter_mut().filter(|holding| holding.holders.is_empty()) {
        holding.visibility = Visibility::Unknown(unknown);
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
