//! `POST /v1/leases/acquire`

use super::candidates::{self, NoPort, Wanted};
use crate::Daemon;
use crate::fault::{invalid, of_evidence};
use crate::handler::{Asked, Caller, serve};
use crate::history::{self, Entry};
use crate::inventory;
use crate::ownership::{self, Life};
use crate::rows::{self, LeaseRow, RunRow};
use crate::store::Tx;
use crate::workspace;
use portreeve_evidence::is_bad_port;
use portreeve_leases::{
    AcquireLease, AcquireRequest, Acquired, Allocation, InsteadOf, LeaseStanding, WhyNot,
};
use portreeve_records::{Claim, ClaimIdentity, Id, PortNumber};
use portreeve_registry::{Failure, FailureClass, Secret};
use rusqlite::{Connection, params};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;

serve!(AcquireLease => acquire);

/// How often a request looks again when another one took its port in the meantime.
const TRIES: usize = 5;

fn acquire(asked: &Asked<'_>, request: AcquireRequest) -> Result<Acquired, Failure> {
    let AcquireRequest { claim: identity, allocation, lease_token, answer_running } = request;
    if allocation.preferred_port.is_some() && allocation.exact_port.is_some() {
        let message = "expected preferredPort or exactPort, not both";
        return Err(invalid(&["allocation", "exactPort"], "custom", message));
    }
    let root = workspace::real_path(&identity.workspace_root, &["claim", "workspaceRoot"])?;
    let identity = ClaimIdentity { workspace_root: root, ..identity };
    let brought = Brought {
        said: lease_token.is_some() || answer_running == Some(true),
        token: lease_token.unwrap_or_else(Secret::random),
        answer_running: answer_running == Some(true),
    };
    for _ in 0..TRIES {
        if let Some(acquired) = attempt(asked, &identity, &allocation, &brought)? {
            return Ok(acquired);
        }
    }
    let failure =
        Failure::new(FailureClass::StoreBusy, "other requests took every port that was tried; try again");
    Err(failure.retryable())
}

/// What the caller brought along.
struct Brought {
    token: Secret,
    answer_running: bool,
    /// Whether the caller knows our additions to the answer.
    said: bool,
}

/// What the store says of the claim.
struct Standing {
    claim: Option<Claim>,
    lease: Option<LeaseRow>,
    /// A lease is pending still, though its time is over.
    lapsed: bool,
    run: Option<RunRow>,
    set_aside: HashSet<u16>,
}

fn standing(daemon: &Daemon, conn: &Connection, identity: &ClaimIdentity) -> Result<Standing, Failure> {
    let claim = rows::find_claim(
        conn,
        "project = ?1 AND workspace_root = ?2 AND component = ?3 AND endpoint = ?4",
        [
            identity.project.as_str(),
            identity.workspace_root.as_str(),
            identity.component.as_str(),
            identity.endpoint.as_str(),
        ],
    )?;
    let Some(found) = &claim else {
        return Ok(Standing { claim, lease: None, lapsed: false, run: None, set_aside: HashSet::new() });
    };
    let id = found.id.to_string();
    let clock = daemon.clock();
    let pending = rows::find_lease(conn, "claim_id = ?1 AND state = 'pending'", [&id])?;
    let (lapsed, lease) = match pending {
        Some(lease) if lease.expired(clock.boot_ms(), clock.boot_id()) => (true, None),
        pending => (false, pending),
    };
    Ok(Standing {
        lease,
        lapsed,
        run: rows::find_run(conn, "claim_id = ?1 AND state = 'confirmed'", [&id])?,
        set_aside: candidates::set_aside(conn, found, clock.boot_ms(), clock.boot_id())?,
        claim,
    })
}

/// One try. `None`: somebody else was faster, so look again.
fn attempt(
    asked: &Asked<'_>,
    identity: &ClaimIdentity,
    allocation: &Allocation,
    brought: &Brought,
) -> Result<Option<Acquired>, Failure> {
    let daemon = asked.daemon;
    let standing = daemon.read(|conn| standing(daemon, conn, identity))?;
    if let Some(claim) = &standing.claim {
        agree(claim, allocation)?;
    }
    let mut over = None;
    if let Some(run) = &standing.run {
        match ownership::life(run, daemon.clock().boot_id(), daemon.evidence()) {
            Life::Over => over = Some(run.view.id),
            Life::Alive => match super::replace::policy(allocation.replacement_policy) {
                None => return running(daemon, run, brought).map(Some),
                Some(policy) => {
                    super::replace::replace(asked, run, policy)?;
                    return Ok(None);
                }
            },
            Life::Unknown(unknown) => return Err(of_evidence(&unknown)),
        }
    }
    if let Some(lease) = &standing.lease {
        return pending(lease, allocation, brought).map(Some);
    }
    if standing.lapsed {
        // Until that is written, the pool takes the claim's own port for somebody's.
        super::expire_due(daemon)?;
    }
    let exact = allocation.exact_port.or_else(|| {
        let claim = standing.claim.as_ref()?;
        claim.exact_port.filter(|_| allocation.preferred_port.is_none())
    });
    let wanted = Wanted {
        identity,
        claim: standing.claim.as_ref(),
        preferred: allocation.preferred_port.or_else(|| standing.claim.as_ref()?.preferred_port),
        exact,
        set_aside: &standing.set_aside,
    };
    let choice = match candidates::choose(daemon, &wanted) {
        Ok(choice) => choice,
        Err(no_port) => {
            // Taken, perhaps, by another request for this very claim, and then that is the answer.
            let again = daemon.read(|conn| self::standing(daemon, conn, identity))?;
            let run = |standing: &Standing| standing.run.as_ref().map(|run| run.view.id);
            if again.lease.is_some() || (again.run.is_some() && run(&again) != run(&standing)) {
                return Ok(None);
            }
            return Err(refused(no_port, identity));
        }
    };
    let port = PortNumber::new(choice.considered.port()).expect("a candidate is a port");
    let grant = Grant {
        identity: identity.clone(),
        allocation: *allocation,
        port,
        token: brought.token.clone(),
        over,
    };
    let written = {
        let daemon = Arc::clone(daemon);
        let caller = asked.caller.clone();
        asked.daemon.write(move |tx| grant.write(&daemon, &caller, tx))?
    };
    let Some(written) = written else { return Ok(None) };
    daemon.lease_changed();
    // Only now may another request consider this port: the pool holds it since the commit.
    drop(choice.considered);
    Ok(Some(Acquired {
        claim_id: written.claim_id,
        lease_id: Some(written.lease_id),
        lease_token: Some(brought.token.clone()),
        port,
        expires_at: Some(written.expires_at),
        reused_assignment: Some(written.reused),
        state: brought.said.then_some(LeaseStanding::Pending),
        changed: brought.said.then_some(true),
        instead_of: choice.instead_of,
        warning: (exact.is_some() && is_bad_port(port.get())).then_some(WhyNot::BadPort),
        run_id: None,
        since: None,
        listening: None,
        root_pid: None,
    }))
}

/// Refuses what contradicts the claim as it was made.
fn agree(claim: &Claim, allocation: &Allocation) -> Result<(), Failure> {
    if claim.mode != allocation.mode {
        let mode = claim.mode.as_str();
        return Err(Failure::new(
            FailureClass::Conflict,
            format!("Claim {} exists with mode {mode}.", claim.id),
        )
        .detail("claimId", claim.id.to_string())
        .detail("mode", mode)
        .next(format!("ask for it with mode {mode}")));
    }
    if let (Some(exact), Some(assigned)) = (allocation.exact_port, claim.assigned_port)
        && exact != assigned
    {
        let message = format!("Claim {} has port {assigned}, not the exact port {exact}.", claim.id);
        return Err(Failure::new(FailureClass::Conflict, message)
            .detail("claimId", claim.id.to_string())
            .detail("assignedPort", assigned.get())
            .next(format!("ask without exactPort to get {assigned}, or reassign the claim")));
    }
    Ok(())
}

/// The claim is served already.
fn running(daemon: &Daemon, run: &RunRow, brought: &Brought) -> Result<Acquired, Failure> {
    let view = &run.view;
    if !brought.answer_running {
        let message =
            format!("Claim {} already has the active run {} on port {}.", view.claim_id, view.id, view.port);
        return Err(Failure::new(FailureClass::Conflict, message)
            .detail("claimId", view.claim_id.to_string())
            .detail("runId", view.id.to_string())
            .detail("port", view.port.get())
            .next("use the server that runs, or stop it and release its run")
            .by(Some("leases_release"), Some(format!("portreeve run release {}", view.id))));
    }
    let recorded = daemon.read(|conn| inventory::recorded(conn, view.port))?;
    let entry = inventory::entry(daemon, view.port, recorded);
    let listening = entry.listeners.iter().any(|listener| listener.ownership.verified);
    if !listening && !entry.evidence.complete {
        let message = format!(
            "run {} of this claim goes on, and whether it listens on port {} can't be told: not everything could \
             be read",
            view.id, view.port
        );
        return Err(Failure::new(FailureClass::EvidenceUnavailable, message)
            .detail("claimId", view.claim_id.to_string())
            .detail("runId", view.id.to_string())
            .detail("port", view.port.get()));
    }
    Ok(Acquired {
        claim_id: view.claim_id,
        lease_id: None,
        lease_token: None,
        port: view.port,
        expires_at: None,
        reused_assignment: None,
        state: Some(LeaseStanding::Running),
        changed: Some(false),
        instead_of: None,
        warning: None,
        run_id: Some(view.id),
        since: Some(view.confirmed_at.clone()),
        listening: Some(listening),
        root_pid: view.root_pid,
    })
}

/// The claim has a pending lease: the caller's own, or somebody else's.
fn pending(lease: &LeaseRow, allocation: &Allocation, brought: &Brought) -> Result<Acquired, Failure> {
    if brought.said && brought.token.matches(&lease.token_hash) {
        if let Some(exact) = allocation.exact_port.filter(|exact| *exact != lease.port) {
            let message = format!(
                "Claim {} has a pending lease on port {}, not on the exact port {exact}.",
                lease.claim_id, lease.port
            );
            return Err(Failure::new(FailureClass::Conflict, message)
                .detail("claimId", lease.claim_id.to_string())
                .detail("leaseId", lease.id.to_string())
                .detail("port", lease.port.get())
                .next(format!("use port {}, or abandon that lease and ask again", lease.port))
                .by(Some("leases_abandon"), Some("portreeve lease abandon".into())));
        }
        return Ok(Acquired {
            claim_id: lease.claim_id,
            lease_id: Some(lease.id),
            lease_token: Some(brought.token.clone()),
            port: lease.port,
            expires_at: Some(lease.expires_at.clone()),
            reused_assignment: None,
            state: Some(LeaseStanding::Pending),
            changed: Some(false),
            instead_of: None,
            warning: None,
            run_id: None,
            since: None,
            listening: None,
            root_pid: None,
        });
    }
    let message = format!("Claim {} already has a pending lease.", lease.claim_id);
    let mut failure = Failure::new(FailureClass::Conflict, message)
        .retryable()
        .detail("claimId", lease.claim_id.to_string())
        .detail("reason", "claim_pending")
        .next(format!(
            "somebody is starting this very server on port {}: wait until {}, then ask again",
            lease.port, lease.expires_at
        ));
    if brought.said {
        failure = failure
            .detail("leaseId", lease.id.to_string())
            .detail("expiresAt", lease.expires_at.as_str())
            .detail("port", lease.port.get());
    }
    Err(failure)
}

fn refused(no_port: NoPort, identity: &ClaimIdentity) -> Failure {
    match no_port {
        NoPort::Failed(failure) => failure,
        NoPort::Unknown(unknown) => of_evidence(&unknown),
        NoPort::Exhausted => Failure::new(FailureClass::Conflict, "no port of the automatic ranges is free")
            .next("widen the ranges or free ports")
            .by(Some("ports_list"), Some("portreeve ports list".into())),
        NoPort::Taken(instead_of) => taken(&instead_of, identity),
    }
}

/// The exact port is taken: whose it is, and what to do.
fn taken(instead_of: &InsteadOf, identity: &ClaimIdentity) -> Failure {
    let port = instead_of.port;
    // Protocol 1 answers {port} for a listener, and no details for a claim or lease.
    let mut failure = Failure::new(
        FailureClass::Conflict,
        format!("Exact port {port} is unavailable. {}", instead_of.sentence()),
    );
    let waiting_helps = matches!(
        instead_of.reason,
        WhyNot::Leased | WhyNot::Listening | WhyNot::HeldUnseen | WhyNot::Forwarded | WhyNot::SetAside
    );
    if waiting_helps {
        failure = failure.retryable();
    }
    if matches!(instead_of.reason, WhyNot::Listening | WhyNot::HeldUnseen | WhyNot::Forwarded) {
        failure = failure.detail("port", port.get());
    }
    let own = instead_of.holder.as_ref().is_some_and(|holder| holder.same_workspace == Some(true));
    let next = if own {
        format!(
            "another component of {} has it: give that one up, or ask without exactPort",
            identity.workspace_root
        )
    } else {
        "ask without exactPort, or with another one".to_owned()
    };
    failure
        .detail("insteadOf", serde_json::to_value(instead_of).unwrap_or_default())
        .next(next)
        .by(Some("leases_acquire"), Some("portreeve lease acquire".into()))
}

/// What is written once a port is chosen.
struct Grant {
    identity: ClaimIdentity,
    allocation: Allocation,
    port: PortNumber,
    token: Secret,
    over: Option<Id>,
}

struct Written {
    claim_id: Id,
    lease_id: Id,
    expires_at: String,
    reused: bool,
}

impl Grant {
    /// Writes claim and lease. `None`: what was decided on has changed.
    fn write(self, daemon: &Arc<Daemon>, caller: &Caller, tx: &Tx<'_>) -> Result<Option<Written>, Failure> {
        let settings = daemon.settings();
        let now = daemon.clock().now();
        let boot_id = daemon.clock().boot_id();
        if let Some(run) = self.over {
            super::release(daemon, tx, Some(caller), &now, run, Some("processes-ended"))?;
        }
        let standing = standing(daemon, tx, &self.identity)?;
        if standing.run.is_some()
            || standing.lease.is_some()
            || !self.free(tx, standing.claim.as_ref(), now.boot_ms, boot_id)?
        {
            return Ok(None);
        }
        let (claim_id, reused) = match &standing.claim {
            Some(claim) => {
                agree(claim, &self.allocation)?;
                rows::change(
                    tx,
                    "UPDATE claim SET last_used_at = ?2, updated_at = ?2 WHERE id = ?1",
                    [claim.id.to_string(), now.stamp()],
                )?;
                (claim.id, claim.assigned_port == Some(self.port))
            }
            None => (self.insert_claim(caller, tx, &now, settings.history_maximum_events)?, false),
        };
        // A lease of this claim or port whose time is over, and that nobody has swept yet, makes way.
        super::expire::expire_within(daemon, tx, &now)?;
        let ttl = i64::try_from(settings.lease_ttl_milliseconds).unwrap_or(i64::MAX);
        let until = now.plus_ms(ttl);
        let lease_id = Id::fresh();
        rows::change(
            tx,
            "INSERT INTO lease (id, claim_id, port, state, token_hash, ttl_ms, expires_at, expires_boot_ms, \
             boot_id, created_at) VALUES (?1, ?2, ?3, 'pending', ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                lease_id.to_string(),
                claim_id.to_string(),
                self.port.get(),
                self.token.digest().as_slice(),
                ttl,
                until.stamp(),
                until.boot_ms,
                boot_id,
                now.stamp()
            ],
        )?;
        candidates::forget_set_aside(tx, now.boot_ms, boot_id)?;
        history::append(
            tx,
            Some(caller),
            &now,
            settings.history_maximum_events,
            Entry {
                event_type: "lease.acquired",
                entity_type: "lease",
                entity_id: &lease_id.to_string(),
                payload: json!({"claimId": claim_id, "port": self.port, "expiresAt": until.stamp()}),
            },
        )?;
        let after = Arc::clone(daemon);
        tx.after_commit(Box::new(move || after.pool().hold(self.port.get())));
        Ok(Some(Written { claim_id, lease_id, expires_at: until.stamp(), reused }))
    }

    /// Whether the store still has the port free for this claim.
    fn free(&self, tx: &Tx<'_>, claim: Option<&Claim>, boot_ms: i64, boot_id: &str) -> Result<bool, Failure> {
        let port = self.port.get();
        let own = claim.map(|claim| claim.id.to_string()).unwrap_or_default();
        let taken = rows::one(
            tx,
            "SELECT EXISTS (SELECT 1 FROM claim WHERE assigned_port = ?1 AND id <> ?2) \
             OR EXISTS (SELECT 1 FROM run WHERE port = ?1 AND state = 'confirmed' AND claim_id <> ?2) \
             OR EXISTS (SELECT 1 FROM lease WHERE port = ?1 AND state = 'pending' AND boot_id = ?3 \
                AND expires_boot_ms > ?4)",
            params![port, own, boot_id, boot_ms],
            |row| row.get::<_, bool>(0),
        )?;
        Ok(taken != Some(true))
    }

    fn insert_claim(
        &self,
        caller: &Caller,
        tx: &Tx<'_>,
        now: &crate::clock::Moment,
        most: u64,
    ) -> Result<Id, Failure> {
        let id = Id::fresh();
        let Allocation { mode, preferred_port, exact_port, .. } = self.allocation;
        let identity = &self.identity;
        rows::change(
            tx,
            "INSERT INTO claim (id, project, workspace_root, component, endpoint, mode, preferred_port, \
             exact_port, created_at, updated_at, last_used_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?9)",
            params![
                id.to_string(),
                identity.project.as_str(),
                identity.workspace_root.as_str(),
                identity.component.as_str(),
                identity.endpoint.as_str(),
                mode.as_str(),
                preferred_port.map(PortNumber::get),
                exact_port.map(PortNumber::get),
                now.stamp()
            ],
        )?;
        history::append(
            tx,
            Some(caller),
            now,
            most,
            Entry {
                event_type: "claim.created",
                entity_type: "claim",
                entity_id: &id.to_string(),
                payload: json!({
                    "identity": identity,
                    "mode": mode,
                    "preferredPort": preferred_port,
                    "exactPort": exact_port,
                }),
            },
        )?;
        Ok(id)
    }
}
