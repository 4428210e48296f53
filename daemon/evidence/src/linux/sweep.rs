//! One pass over the descriptors of processes, looking for sockets.
//!
//! Threads with a descriptor table of their own (`unshare(CLONE_FILES)`) are not looked into.

use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::RawDir;
use rustix::io::Errno;

use super::path::Path;
use super::procfs::{Procfs, absent, link_at, parse_number, socket_inode};
use super::shown::ticks_since_boot;
use crate::{Deadline, Holder, Holding, ProcessId, Reading, Unknown};

/// A pass costs a few microseconds a descriptor, all of them in the kernel; so it is shared among some threads
/// when there are many processes.
const THREADS: usize = 4;
const MANY: usize = 128;

/// What is looked for: inode to place in the answer.
#[derive(Debug)]
pub(super) struct Wanted(HashMap<u64, usize>);

/// Processes that need not be looked into.
#[derive(Debug)]
pub(super) struct Skip {
    /// Those that were looked into before.
    pub(super) swept: HashSet<ProcessId>,
    /// The pids of those among them that are known to live at this moment: that saves reading who has it.
    pub(super) living: HashSet<u32>,
}

impl Skip {
    fn covers(&self, procfs: &Procfs, pid: u32) -> bool {
        self.living.contains(&pid)
            || procfs.place(pid).is_ok_and(|place| {
                place.is_some_and(|place| {
                    self.swept.contains(&place.kin.id) || place.kernel_thread || place.kin.zombie
                })
            })
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Catch {
    hits: Vec<(usize, Holder)>,
    /// Processes that could not be looked into.
    pub(super) unreadable: Vec<u32>,
    /// All that there were.
    pub(super) pids: Vec<u32>,
}

impl Wanted {
    /// Those of `found` that have no holder yet.
    pub(super) fn of(found: &[Holding]) -> Self {
        let places = found
            .iter()
            .enumerate()
            // A row without an inode has no process any more.
            .filter(|(_, holding)| holding.holders.is_empty() && holding.socket.inode != 0)
            .map(|(at, holding)| (holding.socket.inode, at));
        Self(places.collect())
    }

    /// All of `found`, whether somebody is known to hold them or not.
    pub(super) fn every(found: &[Holding]) -> Self {
        let places = found.iter().enumerate().map(|(at, holding)| (holding.socket.inode, at));
        Self(places.filter(|(inode, _)| *inode != 0).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Catch {
    /// Adds the holders to their sockets.
    pub(super) fn land(&self, found: &mut [Holding]) {
        for (at, holder) in &self.hits {
            if let Some(holding) = found.get_mut(*at) {
                holding.holders.push(*holder);
            }
        }
    }
}

/// Every holder, among all processes.
pub(super) fn everybody(procfs: &Procfs, wanted: &Wanted, deadline: &Deadline) -> Result<Catch, Unknown> {
    let pids = procfs.pids(deadline)?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<Catch, Unknown> {
        let mut catch = Catch::default();
        while let Some(pid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
            deadline.check(Reading::Descriptors)?;
            process(procfs, wanted, *pid, &mut catch);
        }
        Ok(catch)
    };
    let threads =
        if pids.len() < MANY { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let mut whole = std::thread::scope(|scope| {
        // A thread that can't be started is one fewer.
        let helpers: Vec<_> = (1..threads.min(THREADS))
            .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut whole = work();
        for helper in helpers {
            match (&mut whole, helper.join()) {
                (Ok(whole), Ok(Ok(part))) => {
                    whole.hits.extend(part.hits);
                    whole.unreadable.extend(part.unreadable);
                }
                (_, Ok(Err(unknown))) => whole = Err(unknown),
                (_, Err(panic)) => std::panic::resume_unwind(panic),
                (Err(_), _) => {}
            }
        }
        whole
    })?;
    whole.pids = pids;
    Ok(whole)
}

/// One holder of each, among all processes but those to skip. The youngest are looked into first: what is asked
/// for was mostly started lately. Ends when each has one; what then is left of `wanted` was nowhere.
pub(super) fn until_found(
    procfs: &Procfs,
    wanted: &mut Wanted,
    skip: Option<&Skip>,
    deadline: &Deadline,
) -> Result<Catch, Unknown> {
    let mut catch = Catch { pids: procfs.pids(deadline)?, ..Catch::default() };
    for at in (0..catch.pids.len()).rev() {
        if wanted.is_empty() {
            break;
        }
        deadline.check(Reading::Descriptors)?;
        let pid = catch.pids[at];
        if skip.is_some_and(|skip| skip.covers(procfs, pid)) {
            continue;
        }
        let before = catch.hits.len();
        process(procfs, wanted, pid, &mut catch);
        if catch.hits.len() > before {
            let met: HashSet<usize> = catch.hits[before..].iter().map(|(at, _)| *at).collect();
            wanted.0.retain(|_, at| !met.contains(at));
        }
    }
    Ok(catch)
}

/// Every holder among the processes that were not looked into before, and who has been looked into by now: those
/// of `swept` that live, and the ones of this pass. Those in `living` are known to live at this moment.
pub(super) fn since(
    procfs: &Procfs,
    wanted: &Wanted,
    swept: &HashSet<ProcessId>,
    living: &HashMap<u32, ProcessId>,
    deadline: &Deadline,
) -> Result<(Catch, HashSet<ProcessId>), Unknown> {
    let began = ticks_since_boot();
    let mut catch = Catch { pids: procfs.pids(deadline)?, ..Catch::default() };
    let mut by_now = HashSet::with_capacity(catch.pids.len());
    for at in 0..catch.pids.len() {
        deadline.check(Reading::Descriptors)?;
        let pid = catch.pids[at];
        if let Some(id) = living.get(&pid).filter(|id| swept.contains(id)) {
            by_now.insert(*id);
            continue;
        }
        if let Ok(Some(place)) = procfs.place(pid)
            && (place.kernel_thread || swept.contains(&place.kin.id))
        {
            by_now.insert(place.kin.id);
            continue;
        }
        let unreadable = catch.unreadable.len();
        process(procfs, wanted, pid, &mut catch);
        // Read afterwards: who has the pid now and is older than this pass is who was looked into.
        if catch.unreadable.len() == unreadable
            && let Ok(Some(place)) = procfs.place(pid)
            && place.kin.id.start_ticks < began
        {
            by_now.insert(place.kin.id);
        }
    }
    Ok((catch, by_now))
}

/// Every holder among the relatives of `root`: see [`crate::Search::Related`]. Reads one small line a process, and
/// the descriptors of relatives only; whoever can't be placed is looked into.
pub(super) fn relatives(
    procfs: &Procfs,
    wanted: &Wanted,
    root: ProcessId,
    deadline: &Deadline,
) -> Result<Catch, Unknown> {
    let mut catch = Catch { pids: procfs.pids(deadline)?, ..Catch::default() };
    let own = procfs.place(root.pid).ok().flatten().filter(|place| place.kin.id == root);
    let mut above = HashSet::new();
    let mut next = own.map_or(0, |own| own.kin.parent);
    // Ends at the top, or in a ring of pids that are used again.
    while next != 0 && above.insert(next) {
        next = procfs.place(next).ok().flatten().map_or(0, |place| place.kin.parent);
    }
    for at in 0..catch.pids.len() {
        deadline.check(Reading::Descriptors)?;
        let pid = catch.pids[at];
        let related = match (procfs.place(pid), own) {
            (Ok(None), _) => false,
            (Ok(Some(place)), Some(own)) => {
                let kin = place.kin;
                !place.kernel_thread
                    && !kin.zombie
                    && (kin.id.start_ticks >= root.start_ticks
                        || above.contains(&pid)
                        || kin.group == own.kin.group)
            }
            _ => true,
        };
        if related {
            process(procfs, wanted, pid, &mut catch);
        }
    }
    Ok(catch)
}

/// Which of these processes hold what is wanted.
pub(super) fn these(
    procfs: &Procfs,
    wanted: &Wanted,
    pids: &[u32],
    deadline: &Deadline,
) -> Result<Catch, Unknown> {
    let mut catch = Catch::default();
    for pid in pids {
        deadline.check(Reading::Descriptors)?;
        process(procfs, wanted, *pid, &mut catch);
    }
    Ok(catch)
}

fn process(procfs: &Procfs, wanted: &Wanted, pid: u32, catch: &mut Catch) {
    let read = procfs.directory(Path::pid(pid).name("/fd").as_c_str());
    match read.and_then(|descriptors| look(procfs, wanted, pid, descriptors.as_fd(), &mut catch.hits)) {
        Ok(()) | Err(Errno::NOENT | Errno::SRCH) => {}
        Err(_) => catch.unreadable.push(pid),
    }
}

fn look(
    procfs: &Procfs,
    wanted: &Wanted,
    pid: u32,
    descriptors: BorrowedFd<'_>,
    hits: &mut Vec<(usize, Holder)>,
) -> Result<(), Errno> {
    let mut names = [MaybeUninit::uninit(); 8 * 1024];
    let mut entries = RawDir::new(descriptors, &mut names);
    // The process' identity, once it was needed.
    let mut id = None;
    let first = hits.len();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        let Some(fd) = parse_number(name.to_bytes()) else { continue };
        let mut buffer = [0; 64];
        let Some(link) = absent(link_at(descriptors, name, &mut buffer))? else { continue };
        let found = socket_inode(link).and_then(|inode| Some((inode, *wanted.0.get(&inode)?)));
        let Some((inode, at)) = found else { continue };
        if id.is_none() {
            let Some(place) = procfs.place(pid)? else { return Ok(()) };
            // `descriptors` belongs to the process that was opened. If it still answers, that process lived
            // when the line was read, so the line is its own and not a successor's.
            let mut again = [0; 64];
            let Some(link) = absent(link_at(descriptors, name, &mut again))? else { continue };
            if socket_inode(link) != Some(inode) {
                continue;
            }
            id = Some(place.kin.id);
        }
        // One hit a process and socket, with the first descriptor.
        if let Some(process) = id
            && hits[first..].iter().all(|(earlier, _)| *earlier != at)
        {
            hits.push((at, Holder { process, fd }));
        }
    }
    Ok(())
}
