//! Deleting the claims of worktrees that are gone.
//!
//! A candidate wasn't used for the age asked and its folder is missing now; who is leased, served, listened on,
//! or merely can't be reached is skipped and told why.
//! A receipt is good for the candidates that its preview showed, each as it was: others that have come of age
//! since are nothing to it.

use super::delete::remove;
use super::folders::{self, Folder};
use crate::Daemon;
use crate::fault::{of_evidence, of_sql};
use crate::handler::{Asked, serve};
use crate::inventory;
use crate::leases;
use crate::ownership::{self, Life};
use crate::receipts::{Act, Acting, Change, Purpose, directly, serve_change};
use crate::rows;
use crate::store::Tx;
use portreeve_claims::{
    PruneAction, PruneCandidate, PruneClaims, PruneProposal, PruneReason, PruneRequest, PruneTotals, Pruned,
    Skipped,
};
use portreeve_evidence::Deadline;
use portreeve_records::{Claim, Id, PortNumber};
use portreeve_registry::{Failure, FailureClass, NoTarget};
use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

serve_change!(Prune);
serve!(PruneClaims => prune);

fn prune(asked: &Asked<'_>, request: PruneRequest) -> Result<Pruned, Failure> {
    let proposal =
        PruneProposal { older_than_milliseconds: request.older_than_milliseconds, most_shown: None };
    let ask = Prune::ask(asked, proposal)?;
    if request.dry_run {
        let (facts, view) = Prune::look(asked, &ask, Purpose::Preview)?;
        return Prune::observed(asked, &ask, &facts, view);
    }
    directly::<Prune>(asked, &ask)
}

enum Prune {}

#[derive(Clone, Debug)]
struct Ask {
    proposal: PruneProposal,
    /// The candidates that the preview showed.
    only: Option<BTreeSet<String>>,
}

/// The facts that matter to pruning: every candidate, by its id.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Facts {
    candidates: BTreeMap<String, Candidate>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    last_used_at: String,
    workspace_root: String,
    port: Option<PortNumber>,
    /// Why it is missing: null once it isn't.
    missing: Option<PruneReason>,
    lease: Option<String>,
    run: Option<String>,
    listening: bool,
}

impl Candidate {
    /// Why it is to be passed over.
    fn spared(&self) -> Option<&'static str> {
        if self.run.is_some() {
            Some("active_run")
        } else if self.lease.is_some() {
            Some("pending_lease")
        } else if self.listening {
            Some("live_listener")
        } else {
            None
        }
    }
}

struct View {
    claims: Vec<Claim>,
    skipped: Vec<Skipped>,
}

impl Change for Prune {
    type Action = PruneAction;
    type Ask = Ask;
    type Facts = Facts;
    type View = View;

    const TOOL: &'static str = "claims_prune";
    const COMMAND: &'static str = "portreeve claims prune";

    fn ask(_: &Asked<'_>, proposal: PruneProposal) -> Result<Ask, Failure> {
        Ok(Ask { proposal, only: None })
    }
    fn again(_: &Asked<'_>, _: NoTarget, proposal: PruneProposal, plan: &Value) -> Result<Ask, Failure> {
        let only = plan["candidates"].as_object().map(|found| found.keys().cloned().collect());
        Ok(Ask { proposal, only: Some(only.unwrap_or_default()) })
    }
    fn target(_: &Ask) -> String {
        "global".to_owned()
    }
    fn target_named(_: &NoTarget) -> String {
        "global".to_owned()
    }

    fn look(asked: &Asked<'_>, ask: &Ask, _: Purpose) -> Result<(Facts, View), Failure> {
        let daemon = asked.daemon;
        let claims = daemon.read(|conn| match &ask.only {
            Some(only) => named(conn, only),
            None => old(daemon, conn, ask),
        })?;
        let held = daemon.read(|conn| held(daemon, conn))?;
        let deadline = Deadline::after(inventory::ONE);
        let listening: HashSet<u16> = daemon
            .evidence()
            .listening(&deadline)
            .map_err(|unknown| of_evidence(&unknown))?
            .iter()
            .map(|socket| socket.port)
            .collect();
        let roots = claims.iter().map(|claim| claim.identity.workspace_root.as_str().to_owned()).collect();
        let folders = folders::look(roots);
        let mut facts = Facts { candidates: BTreeMap::new() };
        let mut view = View { claims: Vec::new(), skipped: Vec::new() };
        for claim in claims {
            let id = claim.id;
            let folder = folders.get(claim.identity.workspace_root.as_str()).copied();
            let listened = claim.assigned_port.is_some_and(|port| listening.contains(&port.get()));
            let candidate = candidate(&claim, &held, folder == Some(Folder::Missing), listened);
            let skip = match folder {
                Some(Folder::Missing) => candidate.spared(),
                Some(Folder::There) => Some(""),
                Some(Folder::Unreachable) | None => Some("workspace-unreachable"),
            };
            // What the preview showed is a fact whatever became of it.
            if ask.only.is_some() || skip.is_none() {
                facts.candidates.insert(id.to_string(), candidate);
                view.claims.push(claim);
            } else if let Some(reason) = skip.filter(|reason| !reason.is_empty()) {
                view.skipped.push(Skipped { claim_id: id, reason: reason.to_owned() });
            }
        }
        Ok((facts, view))
    }

    fn refusal(_: &Ask, facts: &Facts) -> Option<Failure> {
        let (id, why) = facts.candidates.iter().find_map(|(id, candidate)| {
            let reappeared = candidate.missing.is_none().then_some("workspace-reappeared");
            Some((id, reappeared.or(candidate.spared())?))
        })?;
        let text = format!("Claim {id} is none to prune any more.");
        Some(
            Failure::new(FailureClass::Conflict, text)
                .detail("claimId", id.as_str())
                .detail("reason", why)
                .next("preview again: it is skipped then"),
        )
    }

    fn proposal(ask: &Ask, _: &Facts, _: &View) -> PruneProposal {
        ask.proposal
    }

    fn observed(_: &Asked<'_>, ask: &Ask, _: &Facts, view: View) -> Result<Pruned, Failure> {
        Ok(told(ask, true, view.claims, Vec::new(), view.skipped))
    }

    fn recheck(at: &Acting, tx: &Tx<'_>, _: &Ask, facts: &Facts) -> Result<Facts, Failure> {
        let held = held(&at.daemon, tx)?;
        let ids: BTreeSet<String> = facts.candidates.keys().cloned().collect();
        let mut again = Facts { candidates: BTreeMap::new() };
        for claim in named(tx, &ids)? {
            let id = claim.id.to_string();
            let Some(was) = facts.candidates.get(&id) else { continue };
            again.candidates.insert(id, candidate(&claim, &held, was.missing.is_some(), was.listening));
        }
        Ok(again)
    }

    fn act(at: &Acting, tx: &Tx<'_>, ask: Ask, _: Facts, view: View) -> Result<Act<Pruned>, Failure> {
        leases::expire_within(&at.daemon, tx, &at.now)?;
        let mut deleted = Vec::with_capacity(view.claims.len());
        for claim in &view.claims {
            remove(at, tx, claim, "claim.pruned", "workspace-missing")?;
            deleted.push(claim.id);
        }
        Ok(Act::Done(told(&ask, false, view.claims, deleted, view.skipped)))
    }
}

fn candidate(claim: &Claim, held: &Held, missing: bool, listening: bool) -> Candidate {
    let id = claim.id.to_string();
    Candidate {
        last_used_at: claim.last_used_at.clone(),
        workspace_root: claim.identity.workspace_root.as_str().to_owned(),
        port: claim.assigned_port,
        missing: missing.then_some(PruneReason::WorkspaceMissing),
        lease: held.leases.get(&id).cloned(),
        run: held.runs.get(&id).cloned(),
        listening,
    }
}

/// The claims that weren't used for the age asked.
fn old(daemon: &Daemon, conn: &Connection, ask: &Ask) -> Result<Vec<Claim>, Failure> {
    let age = i64::try_from(ask.proposal.older_than_milliseconds.milliseconds()).unwrap_or(i64::MAX);
    let before = daemon.clock().now().plus_ms(-age).stamp();
    let sql = format!("SELECT {} FROM claim WHERE last_used_at <= ?1 ORDER BY id", rows::CLAIM);
    rows::all(conn, &sql, [before], rows::claim)
}

/// The claims with these ids that are still there.
fn named(conn: &Connection, ids: &BTreeSet<String>) -> Result<Vec<Claim>, Failure> {
    let sql = format!("SELECT {} FROM claim WHERE id = ?1", rows::CLAIM);
    let mut statement = conn.prepare_cached(&sql).map_err(of_sql)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let mut claims = statement.query_map([id], rows::claim).map_err(of_sql)?;
        if let Some(claim) = claims.next() {
            found.push(claim.map_err(of_sql)?);
        }
    }
    Ok(found)
}

/// Every pending lease and every run that may go on, by claim.
struct Held {
    leases: HashMap<String, String>,
    runs: HashMap<String, String>,
}

fn held(daemon: &Daemon, conn: &Connection) -> Result<Held, Failure> {
    let (now, boot_id) = (daemon.clock().boot_ms(), daemon.clock().boot_id());
    let sql = format!("SELECT {} FROM lease WHERE state = 'pending'", rows::LEASE);
    let leases = rows::all(conn, &sql, (), rows::lease)?
        .into_iter()
        .filter(|lease| !lease.expired(now, boot_id))
        .map(|lease| (lease.claim_id.to_string(), lease.id.to_string()))
        .collect();
    let runs = rows::runs(conn, "state = 'confirmed'", ())?
        .into_iter()
        .filter(|run| ownership::life(run, boot_id, daemon.evidence()) != Life::Over)
        .map(|run| (run.view.claim_id.to_string(), run.view.id.to_string()))
        .collect();
    Ok(Held { leases, runs })
}

/// The result, cut to what is to be shown.
fn told(ask: &Ask, dry_run: bool, claims: Vec<Claim>, deleted: Vec<Id>, skipped: Vec<Skipped>) -> Pruned {
    let totals = PruneTotals { candidates: claims.len(), deleted: deleted.len(), skipped: skipped.len() };
    let most = ask.proposal.most_shown.map_or(usize::MAX, |most| most as usize);
    Pruned {
        dry_run,
        candidates: claims
            .into_iter()
            .take(most)
            .map(|claim| PruneCandidate { claim, reason: PruneReason::WorkspaceMissing })
            .collect(),
        deleted_claim_ids: deleted.into_iter().take(most).collect(),
        skipped: skipped.into_iter().take(most).collect(),
        totals: ask.proposal.most_shown.map(|_| totals),
    }
}
