//! `POST /v1/leases/{leaseId}/confirm`: a lease becomes a run when the kernel shows that only the named process
//! tree listens on its port.

use super::{check_token, expired, lease, not_pending};
use crate::Daemon;
use crate::fault::of_evidence;
use crate::handler::{Asked, Caller, serve};
use crate::history::{self, Entry};
use crate::inventory::{self, view};
use crate::ownership::{self, Life, Tree};
use crate::rows::{self, Known, LeaseRow};
use crate::store::Tx;
use portreeve_evidence::{
    Deadline, Holding, Kin, Liveness, Process, ProcessId, Search, Socket, Source, Unknown, Visibility, Why,
};
use portreeve_leases::{ConfirmLease, ConfirmRequest, Confirmed};
use portreeve_records::{Id, LeaseState, Ownership, Pid, ProcessView};
use portreeve_registry::{Failure, FailureClass};
use rusqlite::params;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

serve!(ConfirmLease => confirm);

fn confirm(asked: &Asked<'_>, request: ConfirmRequest) -> Result<Confirmed, Failure> {
    let daemon = asked.daemon;
    let found = daemon.read(|conn| lease(conn, request.lease_id))?;
    if let Some(confirmed) = already(daemon, &found, &request)? {
        return Ok(confirmed);
    }
    if request.answer_settled == Some(true) {
        // Protocol 1 looks at the processes first; who asks as we do isn't sent to wait for a lease that is gone.
        confirmable(daemon, &found, &request)?;
    }
    let proof = prove(asked, &found, request.root_pid)?;
    let caller = asked.caller.clone();
    let at = Arc::clone(daemon);
    let written = {
        let request = request.clone();
        daemon.write(move |tx| proof.write(&at, &caller, tx, &request))
    };
    let confirmed = match written {
        Err(failure) if failure.class == FailureClass::LeaseNotPending => {
            // By a repeat of this very request that was faster, perhaps.
            let found = daemon.read(|conn| lease(conn, request.lease_id))?;
            return already(daemon, &found, &request)?.ok_or(failure);
        }
        written => written?,
    };
    daemon.lease_changed();
    daemon.watch_run(confirmed.run_id);
    Ok(confirmed)
}

/// Whether a lease can be confirmed by this request, apart from what listens.
fn confirmable(daemon: &Daemon, lease: &LeaseRow, request: &ConfirmRequest) -> Result<(), Failure> {
    if lease.state != LeaseState::Pending {
        return Err(not_pending(lease));
    }
    check_token(lease, &request.lease_token)?;
    let clock = daemon.clock();
    if lease.expired(clock.boot_ms(), clock.boot_id()) {
        return Err(expired(lease));
    }
    Ok(())
}

/// The run that this lease became, if it goes on: the answer to a repeat, for those who asked for such answers.
fn already(
    daemon: &Daemon,
    lease: &LeaseRow,
    request: &ConfirmRequest,
) -> Result<Option<Confirmed>, Failure> {
    if lease.state != LeaseState::Confirmed
        || request.answer_settled != Some(true)
        || !request.lease_token.matches(&lease.token_hash)
    {
        return Ok(None);
    }
    let condition = "lease_id = ?1 AND state = 'confirmed'";
    let run = daemon.read(|conn| rows::find_run(conn, condition, [lease.id.to_string()]))?;
    let Some(run) = run else { return Ok(None) };
    let source = daemon.evidence();
    if ownership::life(&run, daemon.clock().boot_id(), source) == Life::Over {
        return Ok(None);
    }
    let sockets = source.listening_on(lease.port.get(), &Deadline::after(inventory::ONE)).unwrap_or_default();
    Ok(Some(Confirmed {
        claim_id: lease.claim_id,
        lease_id: lease.id,
        run_id: run.view.id,
        port: lease.port,
        confirmed_at: run.view.confirmed_at,
        addresses: addresses(&sockets),
        changed: Some(false),
    }))
}

/// Where these sockets listen, as people write it, each once.
fn addresses<'a>(sockets: impl IntoIterator<Item = &'a Socket>) -> Vec<String> {
    let names: BTreeSet<String> = sockets.into_iter().map(inventory::name).collect();
    names.into_iter().collect()
}

/// The listener went away while it was looked at.
fn lost(lease: &LeaseRow, root_pid: Pid) -> Failure {
    let message = format!("Port {} lost its listener while it was being confirmed.", lease.port);
    Failure::new(FailureClass::Conflict, message)
        .retryable()
        .detail("port", lease.port.get())
        .detail("rootPid", root_pid.get())
        .next("start the server again, then confirm again")
}

/// What the kernel showed.
struct Proof {
    root: Process,
    listeners: Vec<Process>,
    addresses: Vec<String>,
}

/// A process that listens on the lease's port, and whether it is the tree's.
struct Found {
    id: ProcessId,
    process: Option<Process>,
    ownership: Ownership,
}

fn prove(asked: &Asked<'_>, lease: &LeaseRow, root_pid: Pid) -> Result<Proof, Failure> {
    let daemon = asked.daemon;
    let source = daemon.evidence();
    let deadline = Deadline::after(inventory::ONE);
    let unknown = |unknown| of_evidence(&unknown);
    let port = lease.port.get();
    let sockets = source.listening_on(port, &deadline).map_err(unknown)?;
    // A server's relatives are looked into first: nobody else can have inherited its socket. Whatever that leaves
    // open, all processes answer.
    let named = source.kin(root_pid.get()).ok().flatten().filter(|kin| !kin.zombie);
    let among_relatives = named.and_then(|root| {
        let holdings = source.holdings(&sockets, Search::Related(root.id), &deadline);
        let tree = Tree { root: Some(root.id), known: &[] };
        (!holdings.is_empty() && tree.owns_all(&holdings, source)).then_some(holdings)
    });
    let holdings = among_relatives.unwrap_or_else(|| source.holdings(&sockets, Search::Every, &deadline));
    for holding in &holdings {
        // Not searched to the end: that nobody was found says nothing.
        if let Visibility::Unknown(why) = holding.visibility {
            return Err(of_evidence(&why));
        }
    }
    let holders: BTreeSet<ProcessId> = holdings.iter().flat_map(|h| &h.holders).map(|h| h.process).collect();

    let owned_by = |root: Option<&Process>| -> Vec<Found> {
        holders
            .iter()
            .map(|id| Found {
                id: *id,
                process: source.process(id.pid).ok().flatten().filter(|p| p.id == *id),
                ownership: Tree { root: root.map(|root| root.id), known: &[] }.owns(*id, source),
            })
            .collect()
    };
    let all = |found: &[Found]| !found.is_empty() && found.iter().all(|f| f.ownership.verified);
    let direct = source.process(root_pid.get());
    let hidden = direct.as_ref().err().copied();
    let mut root = direct.ok().flatten().filter(|process| !process.zombie);
    let mut found = owned_by(root.as_ref());
    if !all(&found) && (root.is_none() || !holders.is_empty()) {
        // Whoever starts the server in a container of its own may know it by another number.
        let inside = source.resolve_ns_pid(root_pid.get(), &deadline).unwrap_or_default();
        for other in inside.into_iter().filter(|process| !process.zombie) {
            let its = owned_by(Some(&other));
            let proved = all(&its);
            if proved || root.is_none() {
                (root, found) = (Some(other), its);
            }
            if proved {
                break;
            }
        }
    }
    if root.is_none()
        && let Some(why) = hidden
    {
        return Err(of_evidence(&why));
    }
    let seen = holdings.iter().all(|holding| !holding.holders.is_empty());
    let root = match root {
        Some(root) if seen && all(&found) => root,
        root => return Err(not_owned(daemon, lease, root_pid, root.as_ref(), &found, &holdings, &deadline)),
    };
    guard(asked, &root, lease)?;
    let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1])];
    if !holdings.iter().any(|holding| loopback.iter().any(|address| holding.socket.accepts(*address))) {
        let names = addresses(holdings.iter().map(|h| &h.socket));
        return Err(Failure::new(
            FailureClass::Conflict,
            format!("Port {port} is served on {} only, which loopback doesn't reach.", names.join(", ")),
        )
        .detail("port", port)
        .detail("rootPid", root_pid.get())
        .detail("listeners", json!(names))
        .next("let the server listen on 127.0.0.1 or ::1, then confirm again"));
    }
    let listeners: Vec<Process> = found.into_iter().filter_map(|f| f.process).collect();
    if listeners.is_empty() {
        return Err(lost(lease, root_pid));
    }
    Ok(Proof { root, listeners, addresses: addresses(holdings.iter().map(|h| &h.socket)) })
}

/// The tree doesn't own the port alone: who does hold it, and where the tree does listen.
fn not_owned(
    daemon: &Daemon,
    lease: &LeaseRow,
    root_pid: Pid,
    root: Option<&Process>,
    found: &[Found],
    holdings: &[Holding],
    deadline: &Deadline,
) -> Failure {
    let source = daemon.evidence();
    let port = lease.port.get();
    let workspace = daemon
        .read(|conn| rows::find_claim(conn, "id = ?1", [lease.claim_id.to_string()]))
        .ok()
        .flatten()
        .map(|claim| claim.identity.workspace_root);
    let mut listeners = Vec::new();
    let mut ownership = Vec::new();
    for f in found {
        let command = f.process.as_ref().map(|p| p.command.clone()).unwrap_or_default();
        let directory = f.process.as_ref().and_then(|p| p.working_directory.clone());
        let inside = directory
            .as_ref()
            .zip(workspace.as_ref())
            .map(|(directory, root)| std::path::Path::new(directory).starts_with(root.as_str()));
        let parents: Vec<u32> = source
            .lineage(f.id.pid, None)
            .map(|lineage| lineage.chain.iter().skip(1).map(|kin| kin.id.pid).collect())
            .unwrap_or_default();
        listeners.push(json!({
            "pid": f.id.pid,
            "command": command,
            "parents": parents,
            "workingDirectory": directory,
            "insideWorkspace": inside,
        }));
        ownership.push(json!({
            "pid": f.id.pid,
            "verified": f.ownership.verified,
            "reason": f.ownership.reason,
            "lineage": f.ownership.lineage,
        }));
    }
    let elsewhere = root.map(|root| tree_ports(source, root.id, port, deadline)).unwrap_or_default();
    let unseen = holdings.iter().filter(|h| h.holders.is_empty()).count();

    let mut message =
        format!("Port {port} is not exclusively owned by the confirmed run rooted at PID {root_pid}.");
    if root.is_none() {
        message.push_str(&format!(" There is no process {root_pid}."));
    }
    let stranger = found.iter().find(|f| !f.ownership.verified);
    let next = if let Some(stranger) = stranger {
        let command: String = stranger
            .process
            .as_ref()
            .map(|p| p.command.chars().filter(|c| !c.is_control()).take(80).collect())
            .unwrap_or_default();
        message.push_str(&format!(" Process {} ({command}) listens on it.", stranger.id.pid));
        "if that is your server, confirm with its pid or its launcher's; if it is a stranger, abandon with \
         address-in-use and acquire again"
            .to_owned()
    } else if unseen > 0 {
        message.push_str(" Whoever listens on it can't be seen from here.");
        "abandon with address-in-use and acquire again".to_owned()
    } else if root.is_none() {
        "start the server, then confirm with its pid".to_owned()
    } else if let Some(other) = elsewhere.first() {
        message.push_str(&format!(
            " Nothing listens on it; that process tree listens on {}.",
            elsewhere.join(", ")
        ));
        format!("start the server on port {port} instead of {other}, then confirm again")
    } else {
        message.push_str(" Nothing listens on it yet.");
        format!("wait until the server listens on port {port}, then confirm again")
    };
    let mut failure = Failure::new(FailureClass::Conflict, message)
        .retryable()
        .detail("port", port)
        .detail("rootPid", root_pid.get())
        .detail("listeners", listeners)
        .detail("ownership", ownership)
        .next(next)
        .by(Some("leases_confirm"), Some("portreeve lease confirm".into()));
    if !elsewhere.is_empty() {
        failure = failure.detail("treeListensOn", json!(elsewhere));
    }
    if unseen > 0 {
        failure = failure.detail("unseenHolders", unseen);
    }
    if root.is_none() {
        // Whoever waits for the listener need not wait for a process that is gone.
        failure = failure.detail("rootLives", false);
        failure.retry = portreeve_registry::Retry::AfterAction;
    }
    failure
}

/// Where the tree listens, other than on `port`.
fn tree_ports(source: &dyn Source, root: ProcessId, port: u16, deadline: &Deadline) -> Vec<String> {
    let below = source.descendants(root, deadline).unwrap_or_default();
    let pids: Vec<u32> = std::iter::once(root.pid).chain(below.iter().map(|kin| kin.id.pid)).collect();
    let mut names: Vec<String> = source
        .listeners_of(&pids, deadline)
        .unwrap_or_default()
        .iter()
        .filter(|holding| holding.socket.port != port)
        .map(|holding| inventory::name(&holding.socket))
        .collect();
    names.sort();
    names.dedup();
    names.truncate(16);
    names
}

/// Refuses a root that would prove too much: an ancestor of the daemon or of the calling process, or one that
/// would prove another run's confirmed listener as well.
fn guard(asked: &Asked<'_>, root: &Process, lease: &LeaseRow) -> Result<(), Failure> {
    let source = asked.daemon.evidence();
    let own = std::process::id();
    let refuse = |whose: String| {
        Failure::new(
            FailureClass::PolicyRefused,
            format!("Process {} is no root for this run: {whose}.", root.id.pid),
        )
        .detail("port", lease.port.get())
        .detail("rootPid", root.id.pid)
        .next("confirm with the pid of the server itself, or of the launcher that started nothing else")
        .by(Some("leases_confirm"), Some("portreeve lease confirm".into()))
    };
    let above = |pid: u32| -> Result<bool, Failure> {
        match source.lineage(pid, None) {
            Ok(lineage) => Ok(lineage.chain.iter().skip(1).any(|kin: &Kin| kin.id == root.id)),
            // Only root's own processes are hidden from us and yet let in; what they ask for is no agent's slip.
            Err(Unknown { why: Why::Hidden | Why::Denied, .. }) => Ok(false),
            Err(unknown) => Err(of_evidence(&unknown)),
        }
    };
    if root.id.pid == own || above(own)? {
        return Err(refuse("the PortReeve daemon runs in it or below it".into()));
    }
    if let Some(caller) = asked.caller.pid
        && above(caller.get())?
    {
        return Err(refuse(format!("the caller, process {caller}, runs below it")));
    }
    let tree = Tree { root: Some(root.id), known: &[] };
    let others = asked.daemon.read(|conn| {
        rows::runs(conn, "state = 'confirmed' AND claim_id <> ?1", [lease.claim_id.to_string()])
    })?;
    for run in others {
        let alive = |known: &&Known| source.alive(known.id) == Liveness::Alive;
        let inside = run.listeners.iter().filter(alive).find(|known| tree.owns(known.id, source).verified);
        if let Some(known) = inside {
            return Err(refuse(format!(
                "process {} below it serves port {} for run {}",
                known.id.pid, run.view.port, run.view.id
            )));
        }
    }
    Ok(())
}

impl Proof {
    fn write(
        self,
        daemon: &Arc<Daemon>,
        caller: &Caller,
        tx: &Tx<'_>,
        request: &ConfirmRequest,
    ) -> Result<Confirmed, Failure> {
        let now = daemon.clock().now();
        let boot_id = daemon.clock().boot_id().to_owned();
        let settings = daemon.settings();
        let lease = lease(tx, request.lease_id)?;
        confirmable(daemon, &lease, request)?;
        let source = daemon.evidence();
        if self.listeners.iter().all(|listener| source.alive(listener.id) != Liveness::Alive) {
            return Err(lost(&lease, request.root_pid));
        }
        // A run of this claim or port that is over, and that nobody has noticed yet, makes way.
        let earlier = rows::runs(
            tx,
            "state = 'confirmed' AND (claim_id = ?1 OR port = ?2)",
            params![lease.claim_id.to_string(), lease.port.get()],
        )?;
        for run in earlier {
            if ownership::life(&run, &boot_id, source) == Life::Over {
                super::release(daemon, tx, Some(caller), &now, run.view.id, Some("processes-ended"))?;
            } else {
                let message = format!("Claim {} is served by run {}.", run.view.claim_id, run.view.id);
                return Err(
                    Failure::new(FailureClass::Conflict, message).detail("runId", run.view.id.to_string())
                );
            }
        }
        let run_id = Id::fresh();
        self.insert(tx, &lease, run_id, &boot_id, &now.stamp())?;
        rows::change(
            tx,
            "UPDATE lease SET state = 'confirmed', settled_at = ?2 WHERE id = ?1",
            [lease.id.to_string(), now.stamp()],
        )?;
        let previous = rows::find_claim(tx, "id = ?1", [lease.claim_id.to_string()])?;
        let previous = previous.and_then(|claim| claim.assigned_port);
        rows::change(
            tx,
            "UPDATE claim SET assigned_port = ?2, updated_at = ?3, last_used_at = ?3 WHERE id = ?1",
            params![lease.claim_id.to_string(), lease.port.get(), now.stamp()],
        )?;
        let until =
            now.plus_ms(i64::try_from(settings.ephemeral_assignment_ttl_milliseconds).unwrap_or(i64::MAX));
        rows::change(
            tx,
            "UPDATE claim SET assignment_expires_at = ?2, assignment_expires_boot_ms = ?3, \
             assignment_boot_id = ?4 WHERE id = ?1 AND mode = 'ephemeral'",
            params![lease.claim_id.to_string(), until.stamp(), until.boot_ms, boot_id],
        )?;
        history::append(
            tx,
            Some(caller),
            &now,
            settings.history_maximum_events,
            Entry {
                event_type: "lease.confirmed",
                entity_type: "lease",
                entity_id: &lease.id.to_string(),
                payload: json!({
                    "runId": run_id,
                    "claimId": lease.claim_id,
                    "port": lease.port,
                    "rootPid": self.root.id.pid,
                }),
            },
        )?;
        let after = Arc::clone(daemon);
        let port = lease.port.get();
        tx.after_commit(Box::new(move || {
            if let Some(previous) = previous {
                after.pool().unassign(previous.get());
            }
            after.pool().assign(port);
            after.pool().let_go(port);
        }));
        Ok(Confirmed {
            claim_id: lease.claim_id,
            lease_id: lease.id,
            run_id,
            port: lease.port,
            confirmed_at: now.stamp(),
            addresses: self.addresses,
            changed: (request.answer_settled == Some(true)).then_some(true),
        })
    }

    fn insert(
        &self,
        tx: &Tx<'_>,
        lease: &LeaseRow,
        run_id: Id,
        boot_id: &str,
        now: &str,
    ) -> Result<(), Failure> {
        let root = fingerprint(&self.root);
        rows::change(
            tx,
            "INSERT INTO run (id, claim_id, lease_id, port, state, binding_kind, root_pid, root_start, \
             root_fingerprint, boot_id, confirmed_at) VALUES (?1, ?2, ?3, ?4, 'confirmed', 'process', ?5, ?6, ?7, ?8, ?9)",
            params![
                run_id.to_string(),
                lease.claim_id.to_string(),
                lease.id.to_string(),
                lease.port.get(),
                self.root.id.pid,
                ticks(self.root.id),
                root.to_string(),
                boot_id,
                now
            ],
        )?;
        for listener in &self.listeners {
            let known = Known { id: listener.id, session: listener.session, group: listener.group };
            rows::change(
                tx,
                "INSERT INTO run_listener (run_id, pid, start_ticks, session, process_group, fingerprint, \
                 observed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    run_id.to_string(),
                    known.id.pid,
                    ticks(known.id),
                    known.session,
                    known.group,
                    fingerprint(listener).to_string(),
                    now
                ],
            )?;
        }
        Ok(())
    }
}

fn ticks(id: ProcessId) -> i64 {
    i64::try_from(id.start_ticks).unwrap_or(i64::MAX)
}

fn fingerprint(process: &Process) -> Value {
    let shown: Option<ProcessView> = view(process);
    serde_json::to_value(shown).unwrap_or_default()
}
