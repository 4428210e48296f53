//! Processes: their identity, what is shown of them, and how they descend from one another.

use std::collections::{HashMap, HashSet};

use crate::{Unknown, Why};

/// A process, within one boot: its pid, and its start in clock ticks since boot (field 22 of
/// `/proc/PID/stat`, see proc_pid_stat(5)). A pid that is used again has another start.
///
/// The executable is no part of it: a re-exec or a rebuild changes that, not the process. On macOS the start
/// is in microseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// The pid, as this process' own `/proc` numbers it.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// What one line of `/proc/PID/stat` says of how a process belongs to others. Readable of every user's
/// processes, unless `/proc` hides them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kin {
    /// Which process.
    pub id: ProcessId,
    /// Its parent's pid; 0 if it has none, or one outside this pid namespace.
    pub parent: u32,
    /// Its session: the pid of the session's leader, alive or not.
    pub session: u32,
    /// Its process group: the pid of the group's leader, alive or not.
    pub group: u32,
    /// Ended, and not yet reaped by its parent. Counts as dead: it holds no descriptor any more.
    pub zombie: bool,
}

/// A process as it is shown. What could not be read is `None` or empty, and does not spoil the rest.
///
/// Texts are as the process has them, lossily made UTF-8, and may hold any character; whoever prints them to
/// a terminal has to escape them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Which process.
    pub id: ProcessId,
    /// Its parent's pid; 0 if it has none.
    pub parent: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its session.
    pub session: u32,
    /// Its process group.
    pub group: u32,
    /// Its name: at most 15 bytes, may be empty.
    pub name: String,
    /// The path of its executable as the kernel tells it, with ` (deleted)` behind it once the file was
    /// replaced. `None` for another user's process and for kernel threads.
    pub executable: Option<String>,
    /// Its arguments, joined by spaces, at most 4 KiB; its name if it has none.
    pub command: String,
    /// Its working directory. `None` for another user's process.
    pub working_directory: Option<String>,
    /// When it started, in milliseconds since the epoch, to the clock tick (10 ms). For showing only: it
    /// moves when the wall clock is set.
    pub started_at_unix_ms: i64,
    /// Ended, and not yet reaped.
    pub zombie: bool,
    /// Its pids from this namespace inwards (`NSpid` of `/proc/PID/status`); the first is `id.pid`.
    pub ns_pids: Vec<u32>,
    /// Whether it is in our network namespace; `None` if that can't be read.
    pub net_ns_same: Option<bool>,
}

impl Process {
    /// Whether this is the process that somebody calls `pid`, perhaps from within a container.
    pub fn answers_to(&self, pid: u32) -> bool {
        self.id.pid == pid || self.ns_pids.contains(&pid)
    }

    /// Its place among the others.
    pub fn kin(&self) -> Kin {
        Kin {
            id: self.id,
            parent: self.parent,
            session: self.session,
            group: self.group,
            zombie: self.zombie,
        }
    }
}

/// A process and those above it, from the process itself upwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The process itself first, then its parent, and so on; the last is the one to stop at, if it was
    /// reached. Empty if the process is gone.
    pub chain: Vec<Kin>,
    /// Whether the climb met the pid it was to stop at.
    pub reached: bool,
}

impl Lineage {
    /// Whether this very process is in the chain.
    pub fn contains(&self, id: ProcessId) -> bool {
        self.chain.iter().any(|kin| kin.id == id)
    }
}

/// How many processes a climb visits at most.
const MAX_LINEAGE: usize = 64;

/// Climbs from `pid` by parents. A parent that started after its child is somebody who took over the pid of
/// a dead one, so the climb ends below it.
pub(crate) fn climb(
    pid: u32,
    stop_at: Option<u32>,
    mut look: impl FnMut(u32) -> Result<Option<Kin>, Unknown>,
) -> Result<Lineage, Unknown> {
    let mut lineage = Lineage { chain: Vec::new(), reached: false };
    let mut next = pid;
    while next != 0 && lineage.chain.len() < MAX_LINEAGE {
        let kin = match look(next) {
            Ok(Some(kin)) => kin,
            Ok(None) => break,
            // Above are others' processes, as sshd of a login shell: the climb has got as far as it goes.
            Err(Unknown { why: Why::Hidden | Why::Denied, .. }) if !lineage.chain.is_empty() => break,
            Err(unknown) => return Err(unknown),
        };
        if let Some(below) = lineage.chain.last()
            && (kin.id.start_ticks > below.id.start_ticks || lineage.contains(kin.id))
        {
            break;
        }
        lineage.chain.push(kin);
        if stop_at == Some(next) {
            lineage.reached = true;
            break;
        }
        next = kin.parent;
    }
    Ok(lineage)
}

/// Those of `all` that descend from `root`, parents before children, without zombies.
pub(crate) fn below(root: ProcessId, all: &[Kin]) -> Vec<Kin> {
    let mut children: HashMap<u32, Vec<&Kin>> = HashMap::new();
    for kin in all {
        children.entry(kin.parent).or_default().push(kin);
    }
    let mut found = Vec::new();
    if !all.iter().any(|kin| kin.id == root) {
        return found;
    }
    let mut seen = HashSet::from([root.pid]);
    let mut parents = vec![root.pid];
    let mut at = 0;
    while let Some(parent) = parents.get(at) {
        at += 1;
        let Some(below) = children.get(parent) else {
            continue;
        };
        for kin in below {
            if seen.insert(kin.id.pid) {
                parents.push(kin.id.pid);
                if !kin.zombie {
                    found.push(**kin);
                }
            }
        }
    }
    found
}

/// Whether a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// That very process is there, and is no zombie.
    Alive,
    /// It ended: nobody has the pid, somebody else has it, or a zombie is left.
    Gone,
    /// Could not be read.
    Unknown(Unknown),
}

/// Why there is no pidfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPidfd {
    /// The process has ended.
    #[error("process has ended")]
    Gone,
    /// Could not be opened or checked.
    #[error(transparent)]
    Unknown(#[from] Unknown),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kin(pid: u32, parent: u32, start_ticks: u64) -> Kin {
        Kin { id: ProcessId { pid, start_ticks }, parent, session: 1, group: 1, zombie: false }
    }

    fn pids(chain: &[Kin]) -> Vec<u32> {
        chain.iter().map(|kin| kin.id.pid).collect()
    }

    fn climb_in(all: &[Kin], pid: u32, stop_at: Option<u32>) -> Lineage {
        let look = |pid| Ok(all.iter().find(|kin| kin.id.pid == pid).copied());
        climb(pid, stop_at, look).expect("a table in memory is always readable")
    }

    #[test]
    fn a_climb_ends_at_the_root_asked_for() {
        let all = [kin(1, 0, 1), kin(10, 1, 5), kin(11, 10, 6), kin(12, 11, 6)];
        let lineage = climb_in(&all, 12, Some(10));
        assert!(lineage.reached);
        assert_eq!(pids(&lineage.chain), [12, 11, 10]);
        let lineage = climb_in(&all, 12, Some(99));
        assert!(!lineage.reached);
        assert_eq!(pids(&lineage.chain), [12, 11, 10, 1]);
    }

    #[test]
    fn a_climb_survives_cycles_and_reused_pids() {
        let cycle = [kin(10, 11, 5), kin(11, 10, 5)];
        assert_eq!(pids(&climb_in(&cycle, 10, None).chain), [10, 11]);
        // 10 is younger than its supposed child: another process under a reused pid.
        let reused = [kin(10, 1, 50), kin(11, 10, 6)];
        assert_eq!(pids(&climb_in(&reused, 11, Some(10)).chain), [11]);
    }

    #[test]
    fn a_climb_ends_below_what_is_hidden_and_fails_only_at_its_foot() {
        let unknown = Unknown::new(crate::Reading::Process(10), Why::Hidden);
        let look = |pid| if pid == 11 { Ok(Some(kin(11, 10, 6))) } else { Err(unknown) };
        let lineage = climb(11, Some(10), look).expect("as far as it goes");
        assert_eq!((pids(&lineage.chain), lineage.reached), (vec![11], false));
        assert_eq!(climb(10, None, look), Err(unknown));
    }

    #[test]
    fn a_climb_is_bounded() {
        let all: Vec<Kin> = (1..=1000).map(|pid| kin(pid, pid - 1, u64::from(pid))).collect();
        assert_eq!(climb_in(&all, 1000, None).chain.len(), MAX_LINEAGE);
    }

    #[test]
    fn descendants_come_parents_first_and_without_zombies() {
        let mut dead = kin(13, 10, 7);
        dead.zombie = true;
        let all = [kin(12, 11, 7), kin(11, 10, 6), kin(10, 1, 5), dead, kin(1, 0, 1), kin(20, 1, 9)];
        assert_eq!(pids(&below(kin(10, 1, 5).id, &all)), [11, 12]);
        // The same pid with another start is another process.
        assert!(below(kin(10, 1, 6).id, &all).is_empty());
    }
}
