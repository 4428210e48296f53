//! What follows from the processes that could not be looked into: nobody holds the socket, or we can't see
//! who does.

use std::collections::{HashMap, HashSet};

use super::path::Path;
use super::procfs::{Place, Procfs};
use crate::{Deadline, Holding, Kin, Search, Visibility, Why};

/// Says of each socket without a holder why, and of the others whether their holders are all.
///
/// That an unreadable process may hold any socket would make every answer incomplete: an ordinary user can't
/// look into root's. So it counts as related to a seen holder only if it could have the socket by inheritance,
/// see [`Strangers::may_share`]. Without a seen holder, it may be any, those of the socket's own user first.
pub(super) fn judge(
    procfs: &Procfs,
    unreadable: &[u32],
    search: Search,
    found: &mut [Holding],
    deadline: &Deadline,
) {
    let mut family = Family { procfs, known: HashMap::new() };
    let strangers = Strangers::of(&mut family, unreadable);
    let mut hidden = None;
    for holding in found.iter_mut() {
        if holding.holders.is_empty() {
            let hidden = *hidden.get_or_insert_with(|| hides_others(procfs));
            holding.visibility = match strangers.obstacle(holding.socket.uid, hidden) {
                Some(reason) => Visibility::NotObservable { reason },
                None => Visibility::NotVisible,
            };
        } else if search == Search::Every {
            holding.complete = !strangers.may_share(&mut family, holding);
        }
    }
    if deadline.passed() {
        // What was seen stays seen; that it is all was perhaps not established.
        found.iter_mut().for_each(|holding| holding.complete = false);
    }
}

/// The processes that could not be looked into, read once for all sockets.
struct Strangers {
    /// Each with its user.
    all: Vec<(Kin, Option<u32>)>,
    /// Everybody above them.
    ancestors: HashSet<u32>,
    /// Their process groups, each with the start of the youngest in it.
    groups: HashMap<u32, u64>,
}

impl Strangers {
    fn of(family: &mut Family<'_>, unreadable: &[u32]) -> Self {
        let mut strangers = Self { all: Vec::new(), ancestors: HashSet::new(), groups: HashMap::new() };
        for pid in unreadable {
            let Some(place) = family.place(*pid) else { continue };
            // Threads of the kernel hold no descriptors, and are unreadable to ordinary users.
            if place.kernel_thread || place.kin.zombie {
                continue;
            }
            strangers.all.push((place.kin, owner(family.procfs, *pid)));
            let mut above = place.kin.parent;
            while let Some(place) = family.place(above) {
                if !strangers.ancestors.insert(above) {
                    break;
                }
                above = place.kin.parent;
            }
            if place.kin.group != 0 {
                let youngest = strangers.groups.entry(place.kin.group).or_default();
                *youngest = (*youngest).max(place.kin.id.start_ticks);
            }
        }
        strangers
    }

    /// What may stand between us and the holder of a socket of this user.
    fn obstacle(&self, uid: u32, hidden: bool) -> Option<Why> {
        let own = rustix::process::geteuid().as_raw();
        if let Some((suspect, _)) = self.all.iter().find(|(_, owner)| *owner == Some(uid)) {
            return Some(if uid == own { Why::NotDumpable(suspect.id.pid) } else { Why::OtherUser(uid) });
        }
        if hidden {
            return Some(Why::Hidden);
        }
        if self.all.is_empty() {
            return None;
        }
        Some(if uid == own { Why::Denied } else { Why::OtherUser(uid) })
    }

    /// Whether one of them may have inherited the socket from a holder, or a holder from it: it descends from
    /// one, or belongs to a holder's process group and is no older; or the socket was made by another user, it
    /// is that user's, and it is in the group or among the ancestors. (Unreadable ancestors of our own user are
    /// common, and no reason to doubt: the session's manager has capabilities that we haven't.)
    fn may_share(&self, family: &mut Family<'_>, holding: &Holding) -> bool {
        if self.all.is_empty() {
            return false;
        }
        let uid = holding.socket.uid;
        let foreign = uid != rustix::process::geteuid().as_raw();
        holding.holders.iter().any(|holder| {
            if self.ancestors.contains(&holder.process.pid) {
                return true;
            }
            let Some(place) = family.place(holder.process.pid) else { return false };
            let group = place.kin.group;
            if self.groups.get(&group).is_some_and(|youngest| *youngest >= holder.process.start_ticks) {
                return true;
            }
            let mut makers = self.all.iter().filter(|(_, owner)| foreign && *owner == Some(uid));
            makers.any(|(maker, _)| {
                (group != 0 && maker.group == group) || family.descends(place.kin.parent, maker.id.pid)
            })
        })
    }
}

/// Places of processes, each read once.
struct Family<'p> {
    procfs: &'p Procfs,
    known: HashMap<u32, Option<Place>>,
}

impl Family<'_> {
    fn place(&mut self, pid: u32) -> Option<Place> {
        if pid == 0 {
            return None;
        }
        *self.known.entry(pid).or_insert_with(|| self.procfs.place(pid).ok().flatten())
    }

    /// Whether `ancestor` is `pid` or above it.
    fn descends(&mut self, mut pid: u32, ancestor: u32) -> bool {
        // Bounded: pids that are used again could make a ring.
        for _ in 0..64 {
            if pid == ancestor {
                return true;
            }
            match self.place(pid) {
                Some(place) => pid = place.kin.parent,
                None => return false,
            }
        }
        false
    }
}

/// The effective user of a process: the owner of its directory, whether it may be looked into or not.
fn owner(procfs: &Procfs, pid: u32) -> Option<u32> {
    let stat = rustix::fs::statat(procfs.root(), Path::pid(pid).as_c_str(), rustix::fs::AtFlags::empty());
    stat.ok().map(|stat| stat.st_uid)
}

/// Whether `/proc` leaves out processes of others: pid 1 isn't there, or the mount says so and we aren't root.
fn hides_others(procfs: &Procfs) -> bool {
    let first = rustix::fs::statat(procfs.root(), c"1", rustix::fs::AtFlags::empty());
    if first.is_err() {
        return true;
    }
    if rustix::process::geteuid().is_root() {
        return false;
    }
    let mut buffer = vec![0; 256 * 1024];
    let Ok(mounts) = procfs.file(c"thread-self/mountinfo", &mut buffer) else {
        return false;
    };
    mounts.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()).any(hides)
}

/// One line of mountinfo (proc_pid_mountinfo(5)): whether it mounts a hiding `/proc`.
fn hides(line: &str) -> bool {
    let at = line.split(' ').nth(4);
    let options = line.rsplit(' ').next().unwrap_or_default();
    let hidden =
        |option: &str| option.strip_prefix("hidepid=").is_some_and(|value| !matches!(value, "0" | "off"));
    at == Some("/proc") && line.contains(" - proc ") && options.split(',').any(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hiding_mount_is_recognised() {
        assert!(hides("24 30 0:22 / /proc rw,nosuid - proc proc rw,hidepid=2"));
        assert!(hides("24 30 0:22 / /proc rw,nosuid shared:1 - proc proc rw,gid=5,hidepid=invisible"));
        assert!(!hides("24 30 0:22 / /proc rw,nosuid - proc proc rw"));
        assert!(!hides("24 30 0:22 / /proc rw,nosuid - proc proc rw,hidepid=off"));
        assert!(!hides("24 30 0:22 / /elsewhere rw - proc proc rw,hidepid=2"));
        assert!(!hides("") && !hides("- proc /proc"));
    }
}
