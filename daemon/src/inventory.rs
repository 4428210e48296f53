//! What is known of a port: the one resolver behind every view of ports.
//!
//! It joins what the store says (claim, pending lease, confirmed run) with what the kernel says now, and keeps
//! nothing: two questions are two readings.

use crate::Daemon;
use crate::handler::{Asked, serve};
use crate::ownership::{self, Life, Tree};
use crate::rows::{self, LeaseRow, RunRow};
use portreeve_evidence::{Deadline, Holding, Search, Socket, Source, Visibility};
use portreeve_ports::{GetPort, ListPorts, PortFilter, PortRef};
use portreeve_records::{
    Claim, ClaimIdentity, Classification, EvidenceNote, EvidenceState, HolderView, InventoryEntry, Listener,
    Ownership, Pid, PortNumber, ProcessView, Transport,
};
use portreeve_registry::{Cut, Failure, PageOf};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

serve!(GetPort => get);
serve!(list ListPorts => list);

/// How long looking at one port may take.
pub(crate) const ONE: Duration = Duration::from_secs(5);
/// How long looking at all of them may take.
const ALL: Duration = Duration::from_secs(10);
/// How many ports are looked at together at most.
const STRETCH: usize = 4096;

/// What the store says of one port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) claim: Option<Claim>,
    pub(crate) lease: Option<LeaseRow>,
    pub(crate) run: Option<RunRow>,
}

/// Reads what the store says of one port.
pub(crate) fn recorded(conn: &Connection, port: PortNumber) -> Result<Recorded, Failure> {
    let lease = rows::find_lease(conn, "port = ?1 AND state = 'pending'", [port.get()])?;
    let run = rows::find_run(conn, "port = ?1 AND state = 'confirmed'", [port.get()])?;
    let claim = rows::find_claim(conn, "assigned_port = ?1", [port.get()])?;
    let other = lease.as_ref().map(|l| l.claim_id).or_else(|| run.as_ref().map(|r| r.view.claim_id));
    let claim = match (claim, other) {
        (Some(claim), _) => Some(claim),
        (None, Some(id)) => rows::find_claim(conn, "id = ?1", [id.to_string()])?,
        (None, None) => None,
    };
    Ok(Recorded { claim, lease, run })
}

fn get(asked: &Asked<'_>, request: PortRef) -> Result<InventoryEntry, Failure> {
    let recorded = asked.daemon.read(|conn| recorded(conn, request.port))?;
    Ok(entry(asked.daemon, request.port, recorded))
}

/// Reads the kernel on one port and judges it.
pub(crate) fn entry(daemon: &Daemon, port: PortNumber, recorded: Recorded) -> InventoryEntry {
    let source = daemon.evidence();
    let deadline = Deadline::after(ONE);
    let mut notes = BTreeSet::new();
    let sockets = source.listening_on(port.get(), &deadline).unwrap_or_else(|_| {
        notes.insert(EvidenceNote::Deadline);
        Vec::new()
    });
    let run = recorded.run.as_ref();
    let holdings = held(source, run, &sockets, &deadline);
    let entry = judge(daemon, port, recorded, holdings, notes);
    look_behind(source, entry, &deadline)
}

/// Who holds the sockets of one port.
///
/// A confirmed owner is looked for where it was seen; only what that doesn't settle costs a look into every
/// process.
fn held(source: &dyn Source, run: Option<&RunRow>, sockets: &[Socket], deadline: &Deadline) -> Vec<Holding> {
    if sockets.is_empty() {
        return Vec::new();
    }
    if let Some(run) = run {
        let holdings = source.holdings(sockets, Search::Known, deadline);
        if Tree::of(run).owns_all(&holdings, source) {
            return holdings;
        }
    }
    source.holdings(sockets, Search::Every, deadline)
}

/// Who holds these sockets, by port, for a list: one survey of all processes, and what has changed since.
fn surveyed(source: &dyn Source, sockets: &[Socket], deadline: &Deadline) -> BTreeMap<u16, Vec<Holding>> {
    let mut by_port: BTreeMap<u16, Vec<Holding>> = BTreeMap::new();
    if !sockets.is_empty() {
        for holding in source.holdings(sockets, Search::Since, deadline) {
            by_port.entry(holding.socket.port).or_default().push(holding);
        }
    }
    by_port
}

/// Looks whether somebody answers on a port that nobody listens on: it is forwarded elsewhere, and not free.
fn look_behind(source: &dyn Source, mut entry: InventoryEntry, deadline: &Deadline) -> InventoryEntry {
    let port = entry.port.get();
    let forwarded = entry.listeners.is_empty()
        && entry.holders.is_empty()
        && !entry.evidence.notes.contains(&EvidenceNote::Deadline)
        && source.answers(port, deadline).is_ok_and(|from| !from.is_empty())
        // A server that came in between answers as well.
        && source.listening_on(port, deadline).is_ok_and(|sockets| sockets.is_empty());
    if forwarded {
        entry.evidence.complete = false;
        entry.evidence.notes.push(EvidenceNote::Forwarded);
        entry.evidence.notes.sort_unstable();
        if entry.classification == Classification::Available {
            entry.classification = Classification::Unclaimed;
        }
    }
    entry
}

/// Judges one port from what the store and the kernel say.
pub(crate) fn judge(
    daemon: &Daemon,
    port: PortNumber,
    recorded: Recorded,
    holdings: Vec<Holding>,
    mut notes: BTreeSet<EvidenceNote>,
) -> InventoryEntry {
    let source = daemon.evidence();
    let now = daemon.clock().boot_ms();
    let boot_id = daemon.clock().boot_id();
    let lease = recorded.lease.filter(|lease| !lease.expired(now, boot_id));
    let life = recorded.run.as_ref().map(|run| ownership::life(run, boot_id, source));
    // In the instant before its end is recorded, a run that is over is left out of the picture.
    let run = recorded.run.filter(|_| life != Some(Life::Over));
    let mut claim = recorded.claim;
    if let Some(found) = &claim
        && lease.is_none()
        && run.is_none()
        && found.assigned_port != Some(port)
    {
        claim = None;
    }
    let (listeners, holders) = listeners(port, &holdings, run.as_ref(), source, &mut notes);
    let seen = !listeners.is_empty() || !holders.is_empty();
    let proved = listeners.iter().filter(|l| l.ownership.verified).count();
    let classification = if lease.is_some() {
        Classification::Pending
    } else if run.is_some() {
        match (seen, proved) {
            (true, n) if n == listeners.len() && holders.is_empty() => Classification::Verified,
            (true, n) if n > 0 => Classification::Mixed,
            _ => Classification::Conflicting,
        }
    } else if claim.is_some() {
        if seen { Classification::Conflicting } else { Classification::Idle }
    } else if seen {
        Classification::Unclaimed
    } else {
        Classification::Available
    };
    if let Some(Life::Unknown(_)) = life {
        notes.insert(EvidenceNote::HolderNotObservable);
    }
    if seen && !reachable(&holdings) {
        notes.insert(EvidenceNote::OtherFamily);
    }
    let incomplete =
        [EvidenceNote::Deadline, EvidenceNote::HolderNotObservable, EvidenceNote::HolderNotVisible];
    InventoryEntry {
        port,
        transport: Transport::Tcp,
        classification,
        claim,
        lease: lease.map(|lease| lease.view()),
        run: run.map(|run| run.view),
        docker: None,
        listeners,
        evidence: EvidenceState {
            complete: !incomplete.iter().any(|note| notes.contains(note)),
            notes: notes.into_iter().collect(),
        },
        holders,
    }
}

/// Whether `127.0.0.1` reaches one of the sockets.
fn reachable(holdings: &[Holding]) -> bool {
    holdings.iter().any(|holding| holding.socket.accepts(IpAddr::from([127, 0, 0, 1])))
}

/// An address and its port as people write it.
pub(crate) fn name(socket: &Socket) -> String {
    SocketAddr::new(socket.address, socket.port).to_string()
}

fn listeners(
    port: PortNumber,
    holdings: &[Holding],
    run: Option<&RunRow>,
    source: &dyn Source,
    notes: &mut BTreeSet<EvidenceNote>,
) -> (Vec<Listener>, Vec<HolderView>) {
    let mut by_process: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let mut unseen = Vec::new();
    for holding in holdings {
        let name = name(&holding.socket);
        for holder in &holding.holders {
            let names = by_process.entry(holder.process).or_default();
            if !names.contains(&name) {
                names.push(name.clone());
            }
        }
        if holding.holders.is_empty() {
            let note = match holding.visibility {
                Visibility::Visible | Visibility::NotVisible => EvidenceNote::HolderNotVisible,
                Visibility::NotObservable { .. } => EvidenceNote::HolderNotObservable,
                Visibility::Unknown(_) => EvidenceNote::Deadline,
            };
            notes.insert(note);
            unseen.push(HolderView { name, uid: holding.socket.uid, note });
        }
    }
    let tree = run.map(Tree::of);
    let listeners = by_process
        .into_iter()
        .filter_map(|(id, mut names)| {
            names.sort();
            let process = source.outline(id.pid).ok().flatten().filter(|process| process.id == id);
            let ownership: Ownership = match &tree {
                Some(tree) => tree.owns(id, source),
                None => ownership::unowned(),
            };
            Some(Listener {
                pid: Pid::new(id.pid)?,
                port,
                command: process.as_ref().map(|process| process.name.clone()),
                names,
                process: process.as_ref().and_then(view),
                ownership,
            })
        })
        .collect();
    (listeners, unseen)
}

/// A process as protocol 1 shows it.
pub(crate) fn view(process: &portreeve_evidence::Process) -> Option<ProcessView> {
    let started =
        jiff::Timestamp::from_millisecond(process.started_at_unix_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    Some(ProcessView {
        pid: Pid::new(process.id.pid)?,
        parent_pid: process.parent,
        uid: process.uid,
        start_time: crate::clock::stamp(started),
        executable: process.executable.clone().unwrap_or_default(),
        command: process.name.clone(),
        working_directory: process.working_directory.clone().unwrap_or_default(),
    })
}

fn list(
    asked: &Asked<'_>,
    filter: &PortFilter,
    cut: &Cut<PortNumber>,
) -> Result<PageOf<InventoryEntry>, Failure> {
    let daemon = asked.daemon;
    let source = daemon.evidence();
    let deadline = Deadline::after(ALL);
    if let Some(port) = filter.port {
        let skip = cut.after().is_some_and(|after| *after >= port);
        let entry = if skip { None } else { Some(get(asked, PortRef { port })?) };
        let found = entry.filter(|e| e.classification != Classification::Available && suits(filter, e));
        return cut.page(found.map(|entry| Ok((port, entry))));
    }
    let first = cut.after().map_or(1, |after| u32::from(after.get()) + 1);
    let sockets = source.listening(&deadline).map_err(|unknown| crate::fault::of_evidence(&unknown))?;
    let mut listening: BTreeMap<u16, Vec<Socket>> = BTreeMap::new();
    for socket in sockets {
        if u32::from(socket.port) >= first {
            listening.entry(socket.port).or_default().push(socket);
        }
    }
    // Only what the filter can let through is looked at.
    let needs_claim = filter.claimed == Some(true)
        || filter.project.is_some()
        || filter.workspace.is_some()
        || filter.component.is_some()
        || filter.service.is_some()
        || filter.endpoint.is_some();
    let only_listening = filter.listening == Some(true);
    let mut found = Vec::new();
    let wanted = cut.fetch();
    let mut stretch = wanted.saturating_add(8).min(STRETCH);
    let mut from = first;
    while found.len() < wanted {
        let heard = listening.keys().copied().filter(|port| u32::from(*port) >= from).take(stretch);
        let recorded: Vec<(PortNumber, Recorded)> = daemon.read(|conn| {
            let mut ports: BTreeSet<u16> = BTreeSet::new();
            if !only_listening {
                ports = spoken_for(conn, from, stretch)?;
            }
            if only_listening || !needs_claim {
                ports.extend(heard);
            }
            let ports = ports.into_iter().take(stretch).filter_map(PortNumber::new);
            ports.map(|port| Ok((port, recorded_if_any(conn, port)?))).collect::<Result<_, Failure>>()
        })?;
        let Some((last, _)) = recorded.last() else { break };
        from = u32::from(last.get()) + 1;
        stretch = stretch.saturating_mul(2).min(STRETCH);
        let recorded: Vec<_> = recorded
            .into_iter()
            .filter(|(_, recorded)| !needs_claim || claimed_so(filter, recorded))
            .collect();
        let here: Vec<Socket> =
            recorded.iter().filter_map(|(port, _)| listening.get(&port.get())).flatten().copied().collect();
        let mut holdings = surveyed(source, &here, &deadline);
        for (port, recorded) in recorded {
            let its = holdings.remove(&port.get()).unwrap_or_default();
            let entry = judge(daemon, port, recorded, its, BTreeSet::new());
            if entry.classification != Classification::Available
                && suits(filter, &entry)
                && found.len() < wanted
            {
                found.push((port, look_behind(source, entry, &deadline)));
            }
        }
    }
    cut.page(found.into_iter().map(Ok))
}

/// The first ports from `first` on that a claim, a pending lease or a confirmed run has, so many at most.
fn spoken_for(conn: &Connection, first: u32, most: usize) -> Result<BTreeSet<u16>, Failure> {
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let mut ports = BTreeSet::new();
    for sql in [
        "SELECT assigned_port FROM claim WHERE assigned_port >= ?1 ORDER BY assigned_port LIMIT ?2",
        "SELECT port FROM lease WHERE state = 'pending' AND port >= ?1 ORDER BY port LIMIT ?2",
        "SELECT port FROM run WHERE state = 'confirmed' AND port >= ?1 ORDER BY port LIMIT ?2",
    ] {
        ports.extend(rows::all(conn, sql, params![first, limit], |row| row.get::<_, u16>(0))?);
    }
    // Each list is whole up to its last port, so all of them are up to the first so many.
    Ok(ports.into_iter().take(most).collect())
}

/// What the store says of one port of a list: most have nothing, which one question tells.
fn recorded_if_any(conn: &Connection, port: PortNumber) -> Result<Recorded, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM claim WHERE assigned_port = ?1) \
         OR EXISTS (SELECT 1 FROM lease WHERE port = ?1 AND state = 'pending') \
         OR EXISTS (SELECT 1 FROM run WHERE port = ?1 AND state = 'confirmed')";
    match rows::one(conn, sql, [port.get()], |row| row.get::<_, bool>(0))? {
        Some(true) => recorded(conn, port),
        _ => Ok(Recorded::default()),
    }
}

/// Whether the claim that is recorded for a port, if it still counts, is one that the filter asks for.
fn claimed_so(filter: &PortFilter, recorded: &Recorded) -> bool {
    recorded.claim.as_ref().is_some_and(|claim| is_for(filter, Some(&claim.identity)))
}

fn suits(filter: &PortFilter, entry: &InventoryEntry) -> bool {
    let identity = entry.claim.as_ref().map(|claim| &claim.identity);
    let listens = !entry.listeners.is_empty() || !entry.holders.is_empty();
    filter.classification.is_none_or(|c| c == entry.classification)
        && filter.claimed.is_none_or(|claimed| claimed == identity.is_some())
        && filter.listening.is_none_or(|listening| listening == listens)
        && is_for(filter, identity)
}

/// Whether a port's claim is one that the filter asks for.
fn is_for(filter: &PortFilter, identity: Option<&ClaimIdentity>) -> bool {
    let is = |wanted: Option<&str>, has: Option<&str>| wanted.is_none_or(|wanted| has == Some(wanted));
    is(filter.project.as_ref().map(|n| n.as_str()), identity.map(|i| i.project.as_str()))
        && is(filter.workspace.as_deref(), identity.map(|i| i.workspace_root.as_str()))
        && is(filter.component.as_ref().map(|n| n.as_str()), identity.map(|i| i.component.as_str()))
        && is(filter.service.as_ref().map(|n| n.as_str()), identity.map(|i| i.component.as_str()))
        && is(filter.endpoint.as_ref().map(|n| n.as_str()), identity.map(|i| i.endpoint.as_str()))
}
