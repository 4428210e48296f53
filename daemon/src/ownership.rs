//! Whose a listener is: the rules by which a confirmed run proves, or doesn't prove, that a process is its own.
//!
//! A listener is the run's if its process is the confirmed root, one of the listeners that were confirmed, or
//! descends from one of them; or if it shares with one of them that lives a session or process group that is the
//! run's own: launchers exit, shells background, and then the line of parents ends at a reaper.
//! A session or group is the run's own if one of its processes leads it. One that a terminal or an agent's host
//! leads proves nothing: everything that was ever started there is in it.

use crate::rows::{Known, RunRow};
use portreeve_evidence::{Holding, Liveness, ProcessId, Source, Unknown};
use portreeve_records::{Ownership, OwnershipReason, Pid};

/// What of a run still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The root or a remembered listener lives.
    Alive,
    /// All of them have ended: the run is over.
    Over,
    /// Nobody is seen to live, and somebody couldn't be looked at.
    Unknown(Unknown),
}

/// Looks whether a run goes on. Costs one small read a process until one lives.
pub(crate) fn life(run: &RunRow, boot_id: &str, source: &dyn Source) -> Life {
    if run.boot_id != boot_id {
        return Life::Over;
    }
    let mut unknown = None;
    for process in run.processes() {
        match source.alive(process) {
            Liveness::Alive => return Life::Alive,
            Liveness::Gone => {}
            Liveness::Unknown(why) => unknown = Some(why),
        }
    }
    unknown.map_or(Life::Over, Life::Unknown)
}

/// The claim to ownership that a run, or a run about to be confirmed, makes.
pub(crate) struct Tree<'a> {
    pub(crate) root: Option<ProcessId>,
    pub(crate) known: &'a [Known],
}

impl<'a> Tree<'a> {
    pub(crate) fn of(run: &'a RunRow) -> Tree<'a> {
        Tree { root: run.root, known: &run.listeners }
    }

    /// Whether every one of these sockets has a holder, and all their holders belong to the tree.
    pub(crate) fn owns_all(&self, holdings: &[Holding], source: &dyn Source) -> bool {
        holdings.iter().all(|holding| {
            !holding.holders.is_empty()
                && holding.holders.iter().all(|h| self.owns(h.process, source).verified)
        })
    }

    /// Whether `process` belongs to the tree, and by which line.
    pub(crate) fn owns(&self, process: ProcessId, source: &dyn Source) -> Ownership {
        let lineage = match source.lineage(process.pid, self.root.map(|root| root.pid)) {
            Ok(lineage) => lineage,
            Err(_) => return refused(OwnershipReason::ProcessUnobservable, vec![process.pid]),
        };
        let Some(own) = lineage.chain.first().filter(|kin| kin.id == process).copied() else {
            return refused(OwnershipReason::ProcessUnobservable, vec![process.pid]);
        };
        let line: Vec<u32> = lineage.chain.iter().map(|kin| kin.id.pid).collect();
        // Up to the root, if it is above; else to the nearest listener that was confirmed.
        let root = lineage.chain.iter().position(|kin| self.root == Some(kin.id));
        let known = |id: ProcessId| self.known.iter().any(|k| k.id == id);
        if let Some(end) = root.or_else(|| lineage.chain.iter().position(|kin| known(kin.id))) {
            return verified(line[..=end].to_vec());
        }
        // The line of parents misses the root: a survivor in the run's own session or group still vouches. While
        // it lives there, the leader's pid can't have become another process' session or group.
        let leads = |pid: u32| {
            self.root.is_some_and(|root| root.pid == pid) || self.known.iter().any(|k| k.id.pid == pid)
        };
        let vouches = |k: &Known| {
            let session = k.session == own.session && leads(own.session);
            let group = k.group == own.group && leads(own.group);
            (session || group)
                && matches!(source.kin(k.id.pid), Ok(Some(now)) if now.id == k.id && !now.zombie
                    && ((session && now.session == own.session) || (group && now.group == own.group)))
        };
        if self.known.iter().any(vouches) {
            return verified(vec![process.pid]);
        }
        if let Some(root) = self.root
            && (own.session == root.pid || own.group == root.pid)
            && source.alive(root) == Liveness::Alive
        {
            return verified(vec![process.pid, root.pid]);
        }
        match self.root {
            Some(root) if matches!(source.kin(root.pid), Ok(Some(kin)) if kin.id != root) => {
                refused(OwnershipReason::RootProcessChanged, vec![process.pid])
            }
            _ => refused(OwnershipReason::NotInRunLineage, vec![process.pid]),
        }
    }
}

fn pids(line: Vec<u32>) -> Vec<Pid> {
    line.into_iter().filter_map(Pid::new).collect()
}

fn verified(line: Vec<u32>) -> Ownership {
    Ownership { verified: true, reason: OwnershipReason::Verified, lineage: pids(line) }
}

fn refused(reason: OwnershipReason, line: Vec<u32>) -> Ownership {
    Ownership { verified: false, reason, lineage: pids(line) }
}

/// A listener for which there is no run at all.
pub(crate) fn unowned() -> Ownership {
    refused(OwnershipReason::NoConfirmedRunEvidence, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use portreeve_evidence::simulated::Simulated;

    fn reason(tree: &Tree<'_>, id: ProcessId, machine: &Simulated) -> OwnershipReason {
        tree.owns(id, machine).reason
    }

    #[test]
    fn a_descendant_of_the_root_is_its_own_and_a_stranger_is_not() {
        let machine = Simulated::new();
        let root = machine.start(100, 1);
        machine.start(101, 100);
        let server = machine.start(102, 101);
        machine.start(200, 1);
        machine.change(200, |p| (p.session, p.group) = (200, 200));
        let stranger = machine.process(200).unwrap().unwrap().id;
        machine.change(100, |p| (p.session, p.group) = (100, 100));
        let tree = Tree { root: Some(root), known: &[] };
        assert_eq!(reason(&tree, server, &machine), OwnershipReason::Verified);
        assert_eq!(
            tree.owns(server, &machine).lineage.iter().map(|p| p.get()).collect::<Vec<_>>(),
            [102, 101, 100]
        );
        assert_eq!(reason(&tree, stranger, &machine), OwnershipReason::NotInRunLineage);
    }

    #[test]
    fn a_survivor_of_its_launcher_is_still_its_own() {
        let machine = Simulated::new();
        let root = machine.start(100, 1);
        machine.change(100, |p| (p.session, p.group) = (100, 100));
        let server = machine.start(101, 100);
        let known = [Known { id: server, session: 100, group: 100 }];
        machine.end(100);
        let tree = Tree { root: Some(root), known: &known };
        assert_eq!(reason(&tree, server, &machine), OwnershipReason::Verified);
        // A worker that the surviving server started afterwards, and one that only shares its session.
        let worker = machine.start(103, 101);
        assert_eq!(reason(&tree, worker, &machine), OwnershipReason::Verified);
        let sibling = machine.start(104, 1);
        machine.change(104, |p| (p.session, p.group) = (100, 104));
        assert_eq!(reason(&tree, sibling, &machine), OwnershipReason::Verified);
        machine.end(101);
        assert_eq!(reason(&tree, sibling, &machine), OwnershipReason::NotInRunLineage);
    }

    #[test]
    fn a_session_that_others_share_proves_nothing() {
        let machine = Simulated::new();
        // A terminal's shell, and below it two servers of different runs.
        machine.start(50, 1);
        machine.change(50, |p| (p.session, p.group) = (50, 50));
        let root = machine.start(100, 50);
        let stranger = machine.start(200, 50);
        for group in [50, 100] {
            machine.change(100, |p| (p.session, p.group) = (50, group));
            let known = [Known { id: root, session: 50, group }];
            let tree = Tree { root: Some(root), known: &known };
            assert_eq!(reason(&tree, root, &machine), OwnershipReason::Verified);
            assert_eq!(reason(&tree, stranger, &machine), OwnershipReason::NotInRunLineage);
        }
    }

    #[test]
    fn a_survivor_that_moved_on_vouches_for_nobody_in_its_old_group() {
        let machine = Simulated::new();
        let root = machine.start(100, 1);
        machine.change(100, |p| (p.session, p.group) = (100, 100));
        let server = machine.start(101, 100);
        let known = [Known { id: server, session: 100, group: 100 }];
        machine.end(100);
        machine.change(101, |p| (p.session, p.group) = (101, 101));
        let other = machine.start(104, 1);
        machine.change(104, |p| (p.session, p.group) = (100, 100));
        let tree = Tree { root: Some(root), known: &known };
        assert_eq!(reason(&tree, other, &machine), OwnershipReason::NotInRunLineage);
    }

    #[test]
    fn a_root_pid_that_is_another_process_proves_nothing() {
        let machine = Simulated::new();
        let root = machine.start(100, 1);
        let child = machine.start(100, 1);
        assert_ne!(root, child);
        machine.change(100, |p| (p.session, p.group) = (7, 7));
        let tree = Tree { root: Some(root), known: &[] };
        assert_eq!(reason(&tree, child, &machine), OwnershipReason::RootProcessChanged);
    }
}
