//! What is known of a port that is to be reclaimed, the verdict that follows, and whom it would end.

use crate::Daemon;
use crate::fault::of_evidence;
use crate::inventory::{self, Recorded};
use crate::ownership::{self, Life, Tree};
use crate::receipts::Purpose;
use portreeve_evidence::{Deadline, Holding, Liveness, NoPidfd, ProcessId, Search, Source, Visibility};
use portreeve_ports::{ExpectedProcess, LauncherAction, ReclaimKind, ReclaimOutcome, ReclaimPolicy};
use portreeve_records::{
    BindingKind, EvidenceNote, Id, InventoryEntry, Listener, OwnershipReason, Pid, PortNumber, WorkspaceRoot,
};
use portreeve_registry::{Failure, FailureClass};
use rusqlite::Connection;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// How often the tree may change while its pidfds are taken.
const TRIES: usize = 4;

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(super) port: PortNumber,
    pub(super) policy: ReclaimPolicy,
    /// The worktree that is said to own it.
    pub(super) workspace: Option<WorkspaceRoot>,
    pub(super) kind: ReclaimKind,
    /// The processes that the caller was shown.
    pub(super) expected: Option<Vec<ExpectedProcess>>,
}

/// The facts that matter to a reclamation. A receipt is good for exactly these.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts {
    pub(super) port: PortNumber,
    pub(super) policy: ReclaimPolicy,
    pub(super) boot_id: String,
    pub(super) claim: Option<Id>,
    pub(super) lease: Option<Id>,
    pub(super) run: Option<Id>,
    /// The owner's component and project.
    pub(super) owner: Option<String>,
    /// The owner's worktree.
    pub(super) workspace: Option<WorkspaceRoot>,
    /// Every listening socket of the port, by inode.
    pub(super) sockets: BTreeMap<String, Held>,
    /// Every process that would be ended: pid to start time, in clock ticks.
    pub(super) targets: BTreeMap<String, u64>,
    /// Containers that publish the port, and whether they run; null without an engine.
    pub(super) containers: Option<BTreeMap<String, bool>>,
    pub(super) verdict: Verdict,
}

/// A listening socket, and the processes that hold it: pid to start time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Held {
    address: String,
    visible: bool,
    holders: BTreeMap<String, u64>,
}

/// What would come of it, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    pub(super) outcome: ReclaimOutcome,
    pub(super) reason: Option<String>,
}

impl Verdict {
    pub(super) fn refused(reason: &str) -> Verdict {
        Verdict { outcome: ReclaimOutcome::Refused, reason: Some(reason.to_owned()) }
    }
    pub(super) fn of(outcome: ReclaimOutcome) -> Verdict {
        Verdict { outcome, reason: None }
    }
}

/// What else was seen.
pub(crate) struct View {
    pub(super) entry: InventoryEntry,
    /// Whom to end, leaf first, the root last.
    pub(super) order: Vec<ProcessId>,
    /// The same, as they are shown: those that listen first.
    pub(super) targets: Vec<Listener>,
    pub(super) launcher_action: Option<LauncherAction>,
    /// Taken before the last look; empty for a preview.
    pub(super) pidfds: Vec<(ProcessId, OwnedFd)>,
    /// Living parents of the tree that are not in it: one of them may start the server again.
    pub(super) supervisors: Vec<ProcessId>,
    /// The command lines of the targets, by which a restarted one is known.
    pub(super) commands: BTreeSet<String>,
}

/// Looks at the port. To act, the pidfd of every target is taken and then all is looked at once more.
pub(super) fn look(daemon: &Daemon, ask: &Ask, purpose: Purpose) -> Result<(Facts, View), Failure> {
    let mut seen = once(daemon, ask)?;
    if purpose == Purpose::Preview {
        return Ok(seen);
    }
    for _ in 0..TRIES {
        let Some(pidfds) = take(daemon.evidence(), &seen.1.order)? else {
            // One ended just now: it is another picture.
            seen = once(daemon, ask)?;
            continue;
        };
        let mut again = once(daemon, ask)?;
        if again.0.targets == seen.0.targets {
            again.1.pidfds = pidfds;
            return Ok(again);
        }
        seen = again;
    }
    let text = format!("the processes behind port {} kept changing while they were looked at", ask.port);
    Err(Failure::new(FailureClass::EvidenceUnavailable, text))
}

fn take(source: &dyn Source, order: &[ProcessId]) -> Result<Option<Vec<(ProcessId, OwnedFd)>>, Failure> {
    let mut taken = Vec::with_capacity(order.len());
    for id in order {
        match source.pidfd(*id) {
            Ok(pidfd) => taken.push((*id, pidfd)),
            Err(NoPidfd::Gone) => return Ok(None),
            Err(NoPidfd::Unknown(unknown)) => return Err(of_evidence(&unknown)),
        }
    }
    Ok(Some(taken))
}

fn once(daemon: &Daemon, ask: &Ask) -> Result<(Facts, View), Failure> {
    let source = daemon.evidence();
    let deadline = Deadline::after(inventory::ONE);
    let port = ask.port;
    let recorded = daemon.read(|conn| inventory::recorded(conn, port))?;
    let unknown = |unknown| of_evidence(&unknown);
    let sockets = source.listening_on(port.get(), &deadline).map_err(unknown)?;
    let holdings = source.holdings(&sockets, Search::Every, &deadline);
    if let Some(Visibility::Unknown(unknown)) = holdings.iter().map(|h| h.visibility).find(unsearched) {
        return Err(of_evidence(&unknown));
    }
    let mut notes = BTreeSet::new();
    if sockets.is_empty() && !source.answers(port.get(), &deadline).map_err(unknown)?.is_empty() {
        notes.insert(EvidenceNote::Forwarded);
    }
    let entry = inventory::judge(daemon, port, recorded.clone(), holdings.clone(), notes);
    let containers = containers(&entry);
    let launcher_action = launcher_action(containers.as_ref());
    let mut verdict = judge(ask, &entry, &holdings, launcher_action.is_some());
    let mut order = Vec::new();
    if verdict.outcome == ReclaimOutcome::WouldTerminate {
        order = match ask.kind {
            ReclaimKind::Reclaim => tree(source, &recorded, &holdings, &deadline)?,
            ReclaimKind::UnsafeEviction => holders(&holdings),
        };
        if ask.kind == ReclaimKind::Reclaim && serves_another(daemon, &recorded, &order)? {
            verdict = Verdict::refused("other-run-in-tree");
        } else if !as_expected(ask, &entry) {
            verdict = Verdict::refused("target-set-changed");
        }
        if verdict.outcome == ReclaimOutcome::Refused {
            order.clear();
        }
    }
    let launcher_action =
        launcher_action.filter(|_| verdict.outcome == ReclaimOutcome::LauncherActionRequired);
    let facts = Facts {
        port,
        policy: ask.policy,
        boot_id: daemon.clock().boot_id().to_owned(),
        claim: entry.claim.as_ref().map(|claim| claim.id),
        lease: entry.lease.as_ref().map(|lease| lease.id),
        run: entry.run.as_ref().map(|run| run.id),
        owner: entry.claim.as_ref().map(|c| format!("{} of {}", c.identity.component, c.identity.project)),
        workspace: entry.claim.as_ref().map(|claim| claim.identity.workspace_root.clone()),
        sockets: holdings.iter().map(|h| (h.socket.inode.to_string(), held(h))).collect(),
        targets: order.iter().map(|id| (id.pid.to_string(), id.start_ticks)).collect(),
        containers,
        verdict,
    };
    let view = shown(source, &recorded, entry, order, launcher_action);
    Ok((facts, view))
}

/// The containers that publish the port, and whether they run; none without an engine.
fn containers(entry: &InventoryEntry) -> Option<BTreeMap<String, bool>> {
    let docker = entry.docker.as_ref().filter(|docker| docker.available)?;
    Some(docker.containers.iter().map(|c| (c.id.clone(), c.running)).collect())
}

/// What is left to whoever launched them.
fn launcher_action(containers: Option<&BTreeMap<String, bool>>) -> Option<LauncherAction> {
    containers.filter(|found| !found.is_empty()).map(|found| LauncherAction {
        kind: "docker".to_owned(),
        action: "stop-container".to_owned(),
        container_ids: found.keys().cloned().collect(),
    })
}

fn unsearched(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Unknown(_))
}

fn held(holding: &Holding) -> Held {
    Held {
        address: inventory::name(&holding.socket),
        visible: holding.complete,
        holders: holding.holders.iter().map(|h| (h.process.pid.to_string(), h.process.start_ticks)).collect(),
    }
}

/// The verdict, in protocol 1's order of reasons.
fn judge(ask: &Ask, entry: &InventoryEntry, holdings: &[Holding], container: bool) -> Verdict {
    if container {
        let reason = Some("docker-managed-listener".to_owned());
        return Verdict { outcome: ReclaimOutcome::LauncherActionRequired, reason };
    }
    if holdings.is_empty() {
        return if entry.evidence.notes.contains(&EvidenceNote::Forwarded) {
            Verdict::refused("forwarded")
        } else {
            Verdict::of(ReclaimOutcome::AlreadyFree)
        };
    }
    let of_container = entry.run.as_ref().is_some_and(|run| run.binding_kind == BindingKind::Docker);
    if of_container || entry.docker.as_ref().is_some_and(|docker| !docker.available) {
        return Verdict::refused("docker-evidence-unavailable");
    }
    let unobservable = |listener: &Listener| {
        listener.process.is_none() || listener.ownership.reason == OwnershipReason::ProcessUnobservable
    };
    if !entry.holders.is_empty()
        || holdings.iter().any(|h| h.holders.is_empty() || !h.complete)
        || entry.listeners.is_empty()
        || (ask.kind == ReclaimKind::Reclaim && entry.listeners.iter().any(unobservable))
    {
        return Verdict::refused("process-unobservable");
    }
    if ask.kind == ReclaimKind::Reclaim {
        let proved = entry.listeners.iter().filter(|l| l.ownership.verified).count();
        if entry.run.is_none() || proved == 0 {
            return Verdict::refused("ownership-unverified");
        }
        if proved < entry.listeners.len() {
            return Verdict::refused("ownership-mixed");
        }
    }
    if ask.policy == ReclaimPolicy::Never {
        return Verdict::refused("replacement-policy-never");
    }
    Verdict::of(ReclaimOutcome::WouldTerminate)
}

/// The tree of the run, leaf first, the root last: what descends from the root, and from the listeners that are
/// its own by other evidence.
fn tree(
    source: &dyn Source,
    recorded: &Recorded,
    holdings: &[Holding],
    deadline: &Deadline,
) -> Result<Vec<ProcessId>, Failure> {
    let Some(run) = &recorded.run else { return Ok(Vec::new()) };
    let root = run.root.filter(|root| source.alive(*root) == Liveness::Alive);
    let tops = root.into_iter().chain(holdings.iter().flat_map(|h| &h.holders).map(|h| h.process));
    // From the root on, parents before children; each once.
    let mut order: Vec<ProcessId> = Vec::new();
    for top in tops {
        if order.contains(&top) {
            continue;
        }
        let below = source.descendants(top, deadline).map_err(|unknown| of_evidence(&unknown))?;
        let found = std::iter::once(top).chain(below.into_iter().map(|kin| kin.id));
        let fresh: Vec<ProcessId> = found.filter(|id| !order.contains(id)).collect();
        order.extend(fresh);
    }
    // The run's root goes last of all, and so each parent after its children.
    order.reverse();
    Ok(order)
}

/// Whoever holds the port, the youngest first.
fn holders(holdings: &[Holding]) -> Vec<ProcessId> {
    let mut order: Vec<ProcessId> =
        holdings.iter().flat_map(|h| &h.holders).map(|holder| holder.process).collect();
    order.sort_by_key(|id| (std::cmp::Reverse(id.start_ticks), std::cmp::Reverse(id.pid)));
    order.dedup();
    order
}

/// Whether one of these processes serves another run's port: then it isn't this run's alone.
fn serves_another(daemon: &Daemon, recorded: &Recorded, order: &[ProcessId]) -> Result<bool, Failure> {
    let Some(own) = &recorded.run else { return Ok(false) };
    let others = daemon.read(|conn| {
        crate::rows::runs(conn, "state = 'confirmed' AND id <> ?1", [own.view.id.to_string()])
    })?;
    let boot_id = daemon.clock().boot_id();
    let root = own.root;
    Ok(others
        .iter()
        .filter(|run| run.boot_id == boot_id)
        .any(|run| run.processes().iter().any(|id| order.contains(id) && Some(*id) != root)))
}

/// Whether only those listen whom the caller was shown.
fn as_expected(ask: &Ask, entry: &InventoryEntry) -> bool {
    ask.expected.as_ref().is_none_or(|expected| {
        entry.listeners.iter().all(|listener| {
            let start = listener.process.as_ref().map(|process| process.start_time.as_str());
            expected.iter().any(|e| e.pid == listener.pid && Some(e.start_time.as_str()) == start)
        })
    })
}

fn shown(
    source: &dyn Source,
    recorded: &Recorded,
    entry: InventoryEntry,
    order: Vec<ProcessId>,
    launcher_action: Option<LauncherAction>,
) -> View {
    let own = recorded.run.as_ref().map(Tree::of);
    let mut targets: Vec<Listener> = Vec::new();
    if !order.is_empty() {
        targets.extend(entry.listeners.iter().cloned());
    }
    let mut commands = BTreeSet::new();
    let mut supervisors = Vec::new();
    for id in order.iter().rev() {
        let process = source.process(id.pid).ok().flatten().filter(|process| process.id == *id);
        let Some(process) = process else { continue };
        commands.insert(process.command.clone());
        if process.parent > 1
            && let Ok(Some(parent)) = source.kin(process.parent)
            && !order.contains(&parent.id)
            && !supervisors.contains(&parent.id)
        {
            supervisors.push(parent.id);
        }
        let Some(pid) = Pid::new(id.pid).filter(|pid| !targets.iter().any(|t| t.pid == *pid)) else {
            continue;
        };
        targets.push(Listener {
            pid,
            port: entry.port,
            command: Some(process.name.clone()),
            names: Vec::new(),
            ownership: own.as_ref().map_or_else(ownership::unowned, |tree| tree.owns(*id, source)),
            process: inventory::view(&process),
        });
    }
    View { entry, order, targets, launcher_action, pidfds: Vec::new(), supervisors, commands }
}

/// The store's facts, read again; and whether the run goes on, by small reads.
pub(super) fn recheck(
    daemon: &Daemon,
    conn: &Connection,
    port: PortNumber,
    facts: &Facts,
) -> Result<Facts, Failure> {
    let found = inventory::recorded(conn, port)?;
    let (now, boot_id) = (daemon.clock().boot_ms(), daemon.clock().boot_id());
    let lease = found.lease.filter(|lease| !lease.expired(now, boot_id));
    let run = found.run.filter(|run| ownership::life(run, boot_id, daemon.evidence()) != Life::Over);
    let claim =
        found.claim.filter(|claim| lease.is_some() || run.is_some() || claim.assigned_port == Some(port));
    Ok(Facts {
        claim: claim.as_ref().map(|claim| claim.id),
        lease: lease.map(|lease| lease.id),
        run: run.map(|run| run.view.id),
        owner: claim.as_ref().map(|c| format!("{} of {}", c.identity.component, c.identity.project)),
        workspace: claim.map(|claim| claim.identity.workspace_root),
        ..facts.clone()
    })
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
