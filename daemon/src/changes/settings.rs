//! Changing the settings: every bound is checked, and what a change touches is shown before.

use crate::Daemon;
use crate::handler::{Asked, serve, written};
use crate::history::{self, Entry};
use crate::receipts::{Act, Acting, Change, Purpose, directly, serve_change};
use crate::rows;
use crate::settings::load;
use crate::store::Tx;
use portreeve_records::{Id, PortNumber};
use portreeve_registry::{Failure, FailureClass, NoTarget};
use portreeve_settings::{
    AffectedClaim, AffectedLease, Impact, Settings, SettingsUpdates, UpdateAction, UpdateObserved,
    UpdateProposal, UpdateSettings, UpdateSettingsRequest, Updated,
};
use rusqlite::Connection;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

serve_change!(Update);
serve!(UpdateSettings => update);

/// How many affected claims and leases are told by name.
const NAMED: usize = 50;

fn update(asked: &Asked<'_>, request: UpdateSettingsRequest) -> Result<Settings, Failure> {
    let ask = Update::ask(asked, request)?;
    Ok(directly::<Update>(asked, &ask)?.settings)
}

enum Update {}

/// The facts that matter to a change of settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Facts {
    /// The settings in force.
    current: Settings,
    /// Claims whose port the new rules no longer give.
    claims: BTreeMap<String, u16>,
    /// Pending leases that are touched.
    leases: BTreeMap<String, u16>,
}

impl Change for Update {
    type Action = UpdateAction;
    type Ask = SettingsUpdates;
    type Facts = Facts;
    type View = Impact;

    const TOOL: &'static str = "settings_update";
    const COMMAND: &'static str = "portreeve config set";

    fn ask(asked: &Asked<'_>, request: UpdateSettingsRequest) -> Result<SettingsUpdates, Failure> {
        let updates = request.updates;
        if updates.is_empty() {
            let text = "expected at least one key to change";
            return Err(crate::fault::invalid(&["updates"], "too_small", text));
        }
        let issues = updates.broken_bounds();
        if issues.is_empty() {
            return Ok(updates);
        }
        let text: Vec<String> = issues.iter().map(ToString::to_string).collect();
        let current = asked.daemon.settings();
        Err(Failure::new(FailureClass::DaemonInvalidInput, text.join("; "))
            .detail("issues", written(&issues)?)
            .detail("current", written(&*current)?)
            .detail("proposed", written(&updates.over(&current))?))
    }

    fn again(
        asked: &Asked<'_>,
        _: NoTarget,
        proposal: UpdateProposal,
        _: &Value,
    ) -> Result<SettingsUpdates, Failure> {
        // The rules may have become stricter since: what is stored is checked as what is sent.
        Update::ask(asked, UpdateSettingsRequest { updates: proposal.updates })
    }

    fn target(_: &SettingsUpdates) -> String {
        "global".to_owned()
    }
    fn target_named(_: &NoTarget) -> String {
        "global".to_owned()
    }

    fn look(asked: &Asked<'_>, ask: &SettingsUpdates, _: Purpose) -> Result<(Facts, Impact), Failure> {
        let daemon = asked.daemon;
        daemon.read(|conn| affected(daemon, conn, ask))
    }

    fn refusal(_: &SettingsUpdates, _: &Facts) -> Option<Failure> {
        None
    }
    fn proposal(ask: &SettingsUpdates, facts: &Facts, _: &Impact) -> UpdateProposal {
        UpdateProposal { updates: ask.clone(), proposed: ask.over(&facts.current) }
    }
    fn observed(
        _: &Asked<'_>,
        _: &SettingsUpdates,
        facts: &Facts,
        impact: Impact,
    ) -> Result<UpdateObserved, Failure> {
        Ok(UpdateObserved { current: facts.current.clone(), impact })
    }

    fn recheck(at: &Acting, tx: &Tx<'_>, ask: &SettingsUpdates, _: &Facts) -> Result<Facts, Failure> {
        Ok(affected(&at.daemon, tx, ask)?.0)
    }

    fn act(
        at: &Acting,
        tx: &Tx<'_>,
        ask: SettingsUpdates,
        facts: Facts,
        _: Impact,
    ) -> Result<Act<Updated>, Failure> {
        let settings = ask.over(&facts.current);
        let Value::Object(changed) = written(&ask)? else {
            return Err(Failure::new(FailureClass::DaemonInternal, "the updates are no object"));
        };
        for (key, value) in changed {
            rows::change(
                tx,
                "INSERT INTO setting (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
                [&key, &value.to_string()],
            )?;
        }
        history::append(
            tx,
            Some(&at.caller),
            &at.now,
            settings.history_maximum_events,
            Entry {
                event_type: "config.updated",
                entity_type: "setting",
                entity_id: "server",
                payload: json!({"settings": settings}),
            },
        )?;
        let (after, new) = (Arc::clone(&at.daemon), Arc::new(settings.clone()));
        tx.after_commit(Box::new(move || after.put_in_force(new)));
        Ok(Act::Done(Updated { settings }))
    }
}

/// What holds now, and what the change touches.
fn affected(daemon: &Daemon, conn: &Connection, ask: &SettingsUpdates) -> Result<(Facts, Impact), Failure> {
    let current = load(conn)?;
    let proposed = ask.over(&current);
    let gives = |settings: &Settings| {
        let excluded: HashSet<PortNumber> = settings.excluded_ports.iter().copied().collect();
        let ranges = settings.automatic_port_ranges.clone();
        move |port: PortNumber| {
            !excluded.contains(&port) && ranges.iter().any(|r| (r.start..=r.end).contains(&port))
        }
    };
    let ports_change = (&current.automatic_port_ranges, &current.excluded_ports)
        != (&proposed.automatic_port_ranges, &proposed.excluded_ports);
    let time_changes = current.lease_ttl_milliseconds != proposed.lease_ttl_milliseconds;
    let (before, after) = (gives(&current), gives(&proposed));
    let lost = |port: PortNumber| ports_change && before(port) && !after(port);
    let mut impact = Impact::default();
    let mut claims = BTreeMap::new();
    let mut leases = BTreeMap::new();
    if ports_change {
        let sql =
            "SELECT id, assigned_port FROM claim WHERE assigned_port IS NOT NULL ORDER BY assigned_port";
        for (id, port) in ports(conn, sql)? {
            if lost(port) {
                if impact.claims.len() < NAMED {
                    impact.claims.push(AffectedClaim { claim_id: id, port });
                }
                claims.insert(id.to_string(), port.get());
            }
        }
    }
    if ports_change || time_changes {
        let (now, boot_id) = (daemon.clock().boot_ms(), daemon.clock().boot_id());
        let sql = format!("SELECT {} FROM lease WHERE state = 'pending' ORDER BY port", rows::LEASE);
        for lease in rows::all(conn, &sql, (), rows::lease)? {
            if lease.expired(now, boot_id) || !(time_changes || lost(lease.port)) {
                continue;
            }
            if impact.leases.len() < NAMED {
                let (lease_id, port) = (lease.id, lease.port);
                impact.leases.push(AffectedLease { lease_id, port, lease_time_changes: time_changes });
            }
            leases.insert(lease.id.to_string(), lease.port.get());
        }
    }
    (impact.claim_count, impact.lease_count) = (claims.len(), leases.len());
    Ok((Facts { current, claims, leases }, impact))
}

fn ports(conn: &Connection, sql: &str) -> Result<Vec<(Id, PortNumber)>, Failure> {
    let found = rows::all(conn, sql, (), |row| Ok((rows::id(row, 0)?, rows::port(row, 1)?)))?;
    Ok(found.into_iter().filter_map(|(id, port)| Some((id, port?))).collect())
}
