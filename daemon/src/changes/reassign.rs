//! Giving a claim another port.
//!
//! The port is chosen in the preview and pinned by its receipt: that another one comes free meanwhile changes
//! nothing. It is chosen by the tables alone: nobody is about to bind it, so it isn't tried out.

use super::claim::{self, Row, Use};
use crate::Daemon;
use crate::fault::{invalid, of_evidence};
use crate::handler::{Asked, serve};
use crate::history::{self, Entry};
use crate::inventory;
use crate::leases;
use crate::receipts::{Act, Acting, Change, Purpose, directly, serve_change};
use crate::rows;
use crate::store::Tx;
use portreeve_claims::{
    ClaimRef, ReassignAction, ReassignClaim, ReassignObserved, ReassignProposal, ReassignRequest,
};
use portreeve_evidence::{Deadline, is_bad_port};
use portreeve_records::{Claim, Id, InventoryEntry, PortNumber};
use portreeve_registry::{Failure, FailureClass};
use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

serve_change!(Reassign);
serve!(ReassignClaim => reassign);

fn reassign(asked: &Asked<'_>, request: ReassignRequest) -> Result<Claim, Failure> {
    let ask = Reassign::ask(asked, request)?;
    directly::<Reassign>(asked, &ask)
}

enum Reassign {}

#[derive(Clone, Copy, Debug)]
struct Ask {
    claim: Id,
    wish: ReassignProposal,
    /// The port that the preview chose.
    pinned: Option<PortNumber>,
}

/// The facts that matter to a reassignment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    claim: Row,
    #[serde(flatten)]
    used: Use,
    /// The port that the claim gets.
    port: PortNumber,
    /// Who has that one.
    taken: Taken,
}

/// Who has the port that the claim is to get: nobody, or it is refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Taken {
    claim: Option<Id>,
    lease: Option<Id>,
    run: Option<Id>,
    listening: Vec<String>,
}

struct View {
    claim: Claim,
    inventory: Option<InventoryEntry>,
}

impl Change for Reassign {
    type Action = ReassignAction;
    type Ask = Ask;
    type Facts = Facts;
    type View = View;

    const TOOL: &'static str = "claims_reassign";
    const COMMAND: &'static str = "portreeve claims reassign";

    fn ask(_: &Asked<'_>, request: ReassignRequest) -> Result<Ask, Failure> {
        let ReassignRequest { claim_id, preferred_port, exact_port } = request;
        if preferred_port.is_some() && exact_port.is_some() {
            let text = "expected preferredPort or exactPort, not both";
            return Err(invalid(&["exactPort"], "custom", text));
        }
        Ok(Ask { claim: claim_id, wish: ReassignProposal { preferred_port, exact_port }, pinned: None })
    }

    fn again(_: &Asked<'_>, target: ClaimRef, wish: ReassignProposal, plan: &Value) -> Result<Ask, Failure> {
        let pinned =
            plan["port"].as_u64().and_then(|port| u16::try_from(port).ok()).and_then(PortNumber::new);
        Ok(Ask { claim: target.claim_id, wish, pinned })
    }

    fn target(ask: &Ask) -> String {
        ask.claim.to_string()
    }
    fn target_named(target: &ClaimRef) -> String {
        target.claim_id.to_string()
    }

    fn look(asked: &Asked<'_>, ask: &Ask, purpose: Purpose) -> Result<(Facts, View), Failure> {
        let daemon = asked.daemon;
        let standing = daemon.read(|conn| claim::standing(daemon, conn, ask.claim))?;
        let current = standing.claim.assigned_port;
        let used = standing.used(claim::listening(daemon, current)?);
        let chosen = ask.pinned.or(ask.wish.exact_port);
        let port = match (chosen, used.refusal(ask.claim, current)) {
            (Some(port), _) => port,
            (None, None) => choose(daemon, ask, current)?,
            // Refused anyway: there is no need to look for a port.
            (None, Some(refusal)) => return Err(refusal),
        };
        let taken = Taken {
            listening: claim::listening(daemon, Some(port).filter(|port| Some(*port) != current))?,
            ..daemon.read(|conn| recorded(daemon, conn, ask.claim, port))?
        };
        let inventory = match purpose {
            Purpose::Preview => Some(claim::entry(daemon, port)?),
            Purpose::Act => None,
        };
        let facts = Facts { claim: Row::of(&standing.claim), used, port, taken };
        Ok((facts, View { claim: standing.claim, inventory }))
    }

    fn refusal(ask: &Ask, facts: &Facts) -> Option<Failure> {
        if let Some(refusal) = facts.used.refusal(ask.claim, facts.claim.assigned_port) {
            return Some(refusal);
        }
        let port = facts.port;
        let Taken { claim, lease, run, listening } = &facts.taken;
        let refuse = |reason: &str, text: String| {
            Failure::new(FailureClass::Conflict, text)
                .detail("port", port.get())
                .detail("reason", reason)
                .next("see who has it, or choose another port")
                .by(Some("ports_get"), Some(format!("portreeve ports inspect {port}")))
        };
        if facts.claim.assigned_port == Some(port) {
            return Some(refuse("unchanged", format!("Claim {} has port {port} already.", ask.claim)));
        }
        if claim.is_some() || lease.is_some() || run.is_some() {
            return Some(refuse("reserved", format!("Port {port} is another claim's.")));
        }
        if !listening.is_empty() {
            let text = format!("Somebody listens on port {port}: {}.", listening.join(", "));
            return Some(refuse("live_listener", text).retryable());
        }
        None
    }

    fn proposal(ask: &Ask, _: &Facts, _: &View) -> ReassignProposal {
        ask.wish
    }

    fn observed(_: &Asked<'_>, ask: &Ask, facts: &Facts, view: View) -> Result<ReassignObserved, Failure> {
        let inventory = view.inventory.ok_or_else(|| {
            Failure::new(FailureClass::DaemonInternal, "what is to be shown was not looked at")
        })?;
        let ReassignProposal { preferred_port, exact_port } = ask.wish;
        Ok(ReassignObserved { claim: view.claim, port: facts.port, preferred_port, exact_port, inventory })
    }

    fn recheck(at: &Acting, tx: &Tx<'_>, ask: &Ask, facts: &Facts) -> Result<Facts, Failure> {
        let standing = claim::standing(&at.daemon, tx, ask.claim)?;
        let used = standing.used(facts.used.listening.clone());
        let listening = facts.taken.listening.clone();
        let taken = Taken { listening, ..recorded(&at.daemon, tx, ask.claim, facts.port)? };
        Ok(Facts { claim: Row::of(&standing.claim), used, port: facts.port, taken })
    }

    fn act(at: &Acting, tx: &Tx<'_>, ask: Ask, facts: Facts, _: View) -> Result<Act<Claim>, Failure> {
        claim::clear(at, tx, ask.claim)?;
        write(at, tx, &ask, facts.port)?;
        Ok(Act::Done(claim::standing(&at.daemon, tx, ask.claim)?.claim))
    }
}

fn write(at: &Acting, tx: &Tx<'_>, ask: &Ask, port: PortNumber) -> Result<(), Failure> {
    let before = claim::standing(&at.daemon, tx, ask.claim)?.claim;
    let (id, settings) = (ask.claim.to_string(), at.daemon.settings());
    let ReassignProposal { preferred_port, exact_port } = ask.wish;
    rows::change(
        tx,
        "UPDATE claim SET assigned_port = ?2, preferred_port = ?3, exact_port = ?4, updated_at = ?5, \
         last_used_at = ?5 WHERE id = ?1",
        params![
            id,
            port.get(),
            preferred_port.map(PortNumber::get),
            exact_port.map(PortNumber::get),
            at.now.stamp()
        ],
    )?;
    leases::used_until_now(&at.daemon, tx, &at.now, ask.claim)?;
    history::append(
        tx,
        Some(&at.caller),
        &at.now,
        settings.history_maximum_events,
        Entry {
            event_type: "claim.reassigned",
            entity_type: "claim",
            entity_id: &id,
            payload: json!({
                "previousPort": before.assigned_port,
                "port": port,
                "preferredPort": preferred_port,
                "exactPort": exact_port,
            }),
        },
    )?;
    let after = Arc::clone(&at.daemon);
    tx.after_commit(Box::new(move || {
        if let Some(port) = before.assigned_port {
            after.pool().unassign(port.get());
        }
        after.pool().assign(port.get());
    }));
    Ok(())
}

/// Who has a port by the store, other than this claim.
fn recorded(daemon: &Daemon, conn: &Connection, claim: Id, port: PortNumber) -> Result<Taken, Failure> {
    let found = inventory::recorded(conn, port)?;
    let (now, boot_id) = (daemon.clock().boot_ms(), daemon.clock().boot_id());
    Ok(Taken {
        claim: found
            .claim
            .filter(|other| other.id != claim && other.assigned_port == Some(port))
            .map(|other| other.id),
        lease: found
            .lease
            .filter(|lease| lease.claim_id != claim && !lease.expired(now, boot_id))
            .map(|lease| lease.id),
        run: found.run.filter(|run| run.view.claim_id != claim).map(|run| run.view.id),
        listening: Vec::new(),
    })
}

/// The preferred port if nobody has it, else the first one of the pool; never the current one.
fn choose(daemon: &Daemon, ask: &Ask, current: Option<PortNumber>) -> Result<PortNumber, Failure> {
    let deadline = Deadline::after(inventory::ONE);
    let source = daemon.evidence();
    let unknown = |unknown| of_evidence(&unknown);
    let sockets = source.listening(&deadline).map_err(unknown)?;
    let facts = source.facts().map_err(unknown)?;
    let listening: HashSet<u16> = sockets.iter().map(|socket| socket.port).collect();
    let settings = daemon.settings();
    let free = |port: &u16| {
        let mark = daemon.pool().mark(*port);
        !mark.assigned()
            && !mark.pending()
            && !listening.contains(port)
            && Some(*port) != current.map(PortNumber::get)
    };
    let excluded: HashSet<u16> = settings.excluded_ports.iter().map(|port| port.get()).collect();
    let pool = settings
        .automatic_port_ranges
        .iter()
        .flat_map(|range| range.start.get()..=range.end.get())
        .filter(|port| !facts.ephemeral.contains(port) && !excluded.contains(port))
        .filter(|port| *port >= facts.unprivileged_start);
    let preferred = ask.wish.preferred_port.map(PortNumber::get);
    let found = preferred.into_iter().chain(pool).filter(|port| !is_bad_port(*port)).find(free);
    found.and_then(PortNumber::new).ok_or_else(|| {
        Failure::new(FailureClass::Conflict, "no port of the automatic ranges is free")
            .next("widen the ranges or free ports")
            .by(Some("ports_list"), Some("portreeve ports list".into()))
    })
}
