//! Choosing a port: which ones a claim may get, in order, and why not the ones before.
//!
//! What was wanted comes first (the preferred port, the assigned one), then the pool from below: the automatic
//! ranges without excluded ports, without the ones that browsers refuse, without the range from which outgoing
//! connections take theirs.
//! A candidate is free when no table shows a listener, a strict bind works, and nobody answers on it.

use crate::Daemon;
use crate::fault::{of_evidence, of_sql};
use crate::inventory;
use crate::pool::Considered;
use crate::rows;
use portreeve_evidence::{Deadline, PortFacts, Probe, Unknown, is_bad_port};
use portreeve_leases::{Holder, InsteadOf, WhyNot};
use portreeve_records::{Claim, ClaimIdentity, PortNumber};
use portreeve_registry::Failure;
use portreeve_settings::Settings;
use rusqlite::Connection;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// How long looking for a port may take.
const SEARCH: Duration = Duration::from_secs(5);

/// What is wanted.
pub(crate) struct Wanted<'a> {
    pub(crate) identity: &'a ClaimIdentity,
    pub(crate) claim: Option<&'a Claim>,
    pub(crate) preferred: Option<PortNumber>,
    pub(crate) exact: Option<PortNumber>,
    /// Ports that this claim met an unseen holder on.
    pub(crate) set_aside: &'a HashSet<u16>,
}

/// The port that was chosen, marked until the choice is dropped.
pub(crate) struct Choice<'a> {
    pub(crate) considered: Considered<'a>,
    pub(crate) instead_of: Option<InsteadOf>,
}

/// Why there is no port.
pub(crate) enum NoPort {
    /// The exact port is taken.
    Taken(InsteadOf),
    /// Whether the exact port is free can't be told.
    Unknown(Unknown),
    /// The pool has none left.
    Exhausted,
    /// Something else failed.
    Failed(Failure),
}

impl From<Failure> for NoPort {
    fn from(failure: Failure) -> NoPort {
        NoPort::Failed(failure)
    }
}

/// Chooses a port.
pub(crate) fn choose<'a>(daemon: &'a Daemon, wanted: &Wanted<'_>) -> Result<Choice<'a>, NoPort> {
    let deadline = Deadline::after(SEARCH);
    let source = daemon.evidence();
    let sockets = source.listening(&deadline).map_err(|unknown| of_evidence(&unknown))?;
    let facts = source.facts().map_err(|unknown| of_evidence(&unknown))?;
    let search = Search {
        daemon,
        wanted,
        deadline,
        facts,
        settings: &daemon.settings(),
        listening: sockets.iter().map(|socket| socket.port).collect(),
    };
    let assigned = wanted.claim.and_then(|claim| claim.assigned_port);
    if let Some(exact) = wanted.exact {
        return match search.wish(exact, assigned == Some(exact)) {
            Ok(considered) => Ok(Choice { considered, instead_of: None }),
            Err(Passed::For(reason)) => Err(NoPort::Taken(search.tell(exact, reason)?)),
            Err(Passed::Unknown(unknown)) => Err(NoPort::Unknown(unknown)),
        };
    }
    // The preferred port is gone back to once it is free; the assigned one is kept otherwise.
    let mut wishes: Vec<PortNumber> = wanted.preferred.into_iter().chain(assigned).collect();
    wishes.dedup();
    let mut instead_of = None;
    for port in wishes {
        match search.unruled(port).and_then(|()| search.wish(port, assigned == Some(port))) {
            Ok(considered) => return Ok(Choice { considered, instead_of }),
            Err(passed) if instead_of.is_none() => {
                let reason = match passed {
                    Passed::For(reason) => reason,
                    Passed::Unknown(_) => WhyNot::HeldUnseen,
                };
                instead_of = Some(search.tell(port, reason)?);
            }
            Err(_) => {}
        }
    }
    let considered = search.pool()?.ok_or(NoPort::Exhausted)?;
    Ok(Choice { considered, instead_of })
}

enum Passed {
    For(WhyNot),
    Unknown(Unknown),
}

struct Search<'a, 'w> {
    daemon: &'a Daemon,
    wanted: &'w Wanted<'w>,
    deadline: Deadline,
    facts: PortFacts,
    settings: &'w Settings,
    listening: HashSet<u16>,
}

impl<'a> Search<'a, '_> {
    /// Refuses what a rule forbids unless it is the exact port: one that browsers refuse, and one that was only
    /// ever chosen for the claim and has been excluded since.
    fn unruled(&self, port: PortNumber) -> Result<(), Passed> {
        if is_bad_port(port.get()) {
            Err(Passed::For(WhyNot::BadPort))
        } else if self.wanted.preferred != Some(port) && self.settings.excluded_ports.contains(&port) {
            Err(Passed::For(WhyNot::Excluded))
        } else {
            Ok(())
        }
    }

    /// Takes a port that was asked for by number, if it is free; excluded and ephemeral ones too.
    fn wish(&self, port: PortNumber, own: bool) -> Result<Considered<'a>, Passed> {
        let number = port.get();
        // Before the look: what is seen free from here on is taken by nobody else in between. Another request that
        // considers it just now is waited for: what becomes of that is the reason, or the answer.
        let considered = self.daemon.pool().consider(number, self.deadline.remaining());
        let considered = considered.ok_or(Passed::For(WhyNot::Leased))?;
        let mark = self.daemon.pool().mark(number);
        if mark.pending() && self.leased(port) {
            return Err(Passed::For(WhyNot::Leased));
        }
        if mark.assigned() && !own {
            return Err(Passed::For(WhyNot::Assigned));
        }
        if self.wanted.set_aside.contains(&number) {
            return Err(Passed::For(WhyNot::SetAside));
        }
        if self.listening.contains(&number) {
            return Err(Passed::For(WhyNot::Listening));
        }
        self.try_out(number, true)?;
        Ok(considered)
    }

    /// Whether the lease that the pool marks is still in time; one that isn't and that nobody has swept yet makes
    /// way as the new one is written.
    fn leased(&self, port: PortNumber) -> bool {
        let clock = self.daemon.clock();
        let lease =
            self.daemon.read(|conn| rows::find_lease(conn, "port = ?1 AND state = 'pending'", [port.get()]));
        lease.map_or(true, |lease| lease.is_some_and(|l| !l.expired(clock.boot_ms(), clock.boot_id())))
    }

    /// Tries the port itself: whether it can be bound, and whether nobody answers on it.
    fn try_out(&self, port: u16, settling_will_do: bool) -> Result<(), Passed> {
        let source = self.daemon.evidence();
        match source.probe(port, &self.deadline) {
            Probe::Free => {}
            Probe::Settling if settling_will_do => {}
            Probe::Settling | Probe::Held => return Err(Passed::For(self.held(port))),
            Probe::Privileged => return Err(Passed::For(WhyNot::Privileged)),
            Probe::Unknown(unknown) => return Err(Passed::Unknown(unknown)),
        }
        match source.answers(port, &self.deadline) {
            Ok(from) if from.is_empty() => Ok(()),
            // A server that came in between answers as well.
            Ok(_) => match self.held(port) {
                WhyNot::Listening => Err(Passed::For(WhyNot::Listening)),
                _ => Err(Passed::For(WhyNot::Forwarded)),
            },
            Err(unknown) => Err(Passed::Unknown(unknown)),
        }
    }

    /// A port that can't be bound: by a listener that came in the meantime, or by somebody unseen.
    fn held(&self, port: u16) -> WhyNot {
        match self.daemon.evidence().listening_on(port, &self.deadline) {
            Ok(sockets) if !sockets.is_empty() => WhyNot::Listening,
            _ => WhyNot::HeldUnseen,
        }
    }

    /// The first free port of the pool.
    fn pool(&self) -> Result<Option<Considered<'a>>, NoPort> {
        let excluded: HashSet<u16> = self.settings.excluded_ports.iter().map(|port| port.get()).collect();
        let mut tried: HashSet<u16> = HashSet::new();
        loop {
            if self.deadline.passed() {
                let failure = Failure::new(
                    portreeve_registry::FailureClass::EvidenceUnavailable,
                    format!("no free port was found within {} s", SEARCH.as_secs()),
                );
                return Err(NoPort::Failed(failure));
            }
            let ports = self.settings.automatic_port_ranges.iter().flat_map(|r| r.start.get()..=r.end.get());
            let suits = |port: u16| {
                !tried.contains(&port)
                    && !self.listening.contains(&port)
                    && !self.facts.ephemeral.contains(&port)
                    && !excluded.contains(&port)
                    && !is_bad_port(port)
                    && !self.wanted.set_aside.contains(&port)
            };
            let Some(considered) = self.daemon.pool().next(ports, suits) else { return Ok(None) };
            match self.try_out(considered.port(), false) {
                Ok(()) => return Ok(Some(considered)),
                Err(_) => tried.insert(considered.port()),
            };
        }
    }

    /// Who has the port that was passed over.
    fn tell(&self, port: PortNumber, reason: WhyNot) -> Result<InsteadOf, Failure> {
        let holder = match reason {
            WhyNot::Assigned | WhyNot::Leased | WhyNot::Listening => self.holder(port)?,
            _ => None,
        };
        Ok(InsteadOf { port, reason, holder })
    }

    fn holder(&self, port: PortNumber) -> Result<Option<Holder>, Failure> {
        let recorded = self.daemon.read(|conn| inventory::recorded(conn, port))?;
        let entry = inventory::entry(self.daemon, port, recorded);
        let mut holder = Holder::default();
        let asking = self.wanted.identity;
        // Who is on the asking claim's own port is told by its process: it is not this claim's server, or that
        // would have been the answer.
        let claim = entry.claim.as_ref().filter(|claim| claim.identity != *asking);
        if let Some(claim) = claim {
            let identity = &claim.identity;
            holder.workspace_root = Some(identity.workspace_root.as_str().to_owned());
            holder.component = Some(identity.component.as_str().to_owned());
            holder.since = Some(claim.updated_at.clone());
            holder.same_workspace = Some(identity.workspace_root == asking.workspace_root);
            if let Some(run) = &entry.run {
                holder.since = Some(run.confirmed_at.clone());
            }
        }
        if let Some(listener) = entry.listeners.first() {
            holder.pid = Some(listener.pid);
            holder.command = listener.command.clone().filter(|command| !command.is_empty());
            if claim.is_none() {
                let process = listener.process.as_ref();
                let directory = process.map(|p| p.working_directory.clone()).filter(|d| !d.is_empty());
                holder.same_workspace = directory
                    .as_ref()
                    .map(|directory| Path::new(directory).starts_with(asking.workspace_root.as_str()));
                holder.workspace_root = directory;
                holder.since = process.map(|p| p.start_time.clone());
            }
        }
        Ok((holder != Holder::default()).then_some(holder))
    }
}

/// The ports that a claim met an unseen holder on and that are still set aside.
pub(crate) fn set_aside(
    conn: &Connection,
    claim: &Claim,
    boot_ms: i64,
    boot_id: &str,
) -> Result<HashSet<u16>, Failure> {
    let sql = "SELECT port FROM set_aside WHERE claim_id = ?1 AND boot_id = ?2 AND until_boot_ms > ?3";
    let params = rusqlite::params![claim.id.to_string(), boot_id, boot_ms];
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_map(params, |row| row.get(0)).and_then(|rows| rows.collect()))
        .map_err(of_sql)
}

/// Drops what is set aside no longer.
pub(crate) fn forget_set_aside(conn: &Connection, boot_ms: i64, boot_id: &str) -> Result<(), Failure> {
    rows::change(
        conn,
        "DELETE FROM set_aside WHERE boot_id <> ?1 OR until_boot_ms <= ?2",
        rusqlite::params![boot_id, boot_ms],
    )
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use portreeve_records::{ClaimMode, Id, Named, WorkspaceRoot};

    #[test]
    fn a_port_is_set_aside_for_its_time_and_under_its_boot() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        let name = |text| Named::parse(text).unwrap();
        let claim = Claim {
            id: Id::fresh(),
            identity: ClaimIdentity::new(
                name("shop"),
                WorkspaceRoot::parse("/w").unwrap(),
                name("web"),
                Named::default_endpoint(),
            ),
            mode: ClaimMode::Sticky,
            assigned_port: None,
            preferred_port: None,
            exact_port: None,
            assignment_expires_at: None,
            created_at: String::new(),
            updated_at: String::new(),
            last_used_at: String::new(),
        };
        let id = claim.id.to_string();
        let written: Result<(), crate::store::WriteError<Failure>> = store.write(move |tx| {
            rows::change(
                tx,
                "INSERT INTO claim (id, project, workspace_root, component, endpoint, mode, created_at, updated_at, \
                 last_used_at) VALUES (?1, 'shop', '/w', 'web', 'default', 'sticky', '', '', '')",
                [&id],
            )?;
            let sql = "INSERT INTO set_aside (claim_id, port, until_boot_ms, boot_id) VALUES (?1, 3000, 100, 'one')";
            rows::change(tx, sql, [&id]).map(drop)
        });
        written.unwrap();
        let at = |boot_ms, boot_id| -> Vec<u16> {
            let found: Result<_, Failure> = store.read(|conn| set_aside(conn, &claim, boot_ms, boot_id));
            found.unwrap().into_iter().collect()
        };
        assert_eq!(at(99, "one"), [3000]);
        assert_eq!(at(100, "one"), [] as [u16; 0]);
        assert_eq!(at(1, "two"), [] as [u16; 0]);
        let forgotten: Result<(), crate::store::WriteError<Failure>> =
            store.write(|tx| forget_set_aside(tx, 100, "one"));
        forgotten.unwrap();
        assert_eq!(at(99, "one"), [] as [u16; 0]);
    }
}
