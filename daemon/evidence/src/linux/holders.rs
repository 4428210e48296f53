//! Who holds a socket: where it was seen last, looked at again; else the descriptors of all processes.

use super::memory::Memory;
use super::path::Path;
use super::procfs::{Procfs, socket_inode};
use super::sweep::{self, Skip, Wanted};
use super::{shown, unseen};
use crate::{Deadline, Holder, Holding, Search, Socket, Unknown, Visibility, Why};

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
    let settled = match search {
        Search::Known => {
            recall(procfs, memory, &mut found);
            Wanted::of(&found).is_empty() || only_the_young(procfs, memory, &mut found, deadline)
        }
        Search::Every => Wanted::of(&found).is_empty(),
    };
    if !settled {
        all(procfs, memory, search, &mut found, deadline);
    }
    for holding in &mut found {
        holding.holders.sort_unstable();
        if !holding.holders.is_empty() {
            holding.visibility = Visibility::Visible;
        }
    }
    memory.place(&found);
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

/// Looks through all processes, for those that have no holder yet.
fn all(procfs: &Procfs, memory: &Memory, search: Search, found: &mut [Holding], deadline: &Deadline) {
    let began = shown::ticks_since_boot();
    let mut wanted = Wanted::of(found);
    let catch = match search {
        Search::Known => sweep::until_found(procfs, &mut wanted, None, deadline),
        Search::Every => sweep::everybody(procfs, &wanted, deadline),
    };
    let catch = match catch {
        Ok(catch) => catch,
        Err(unknown) => return give_up(found, unknown),
    };
    catch.land(found);
    unseen::judge(procfs, &catch.unreadable, search, found, deadline);
    if !Wanted::of(found).is_empty() {
        // Who started later may have taken over a pid that was looked into.
        let met = catch.pids.iter().filter_map(|pid| procfs.place(*pid).ok().flatten());
        memory.miss(found, met.map(|place| place.kin.id).filter(|id| id.start_ticks < began).collect());
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
