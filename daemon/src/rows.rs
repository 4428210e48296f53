//! Records as they lie in the store: reading them, by the questions that are asked.
//!
//! What a row says is what was written; whether it still holds (an expired lease, a dead run) is decided by
//! whoever asks.

use crate::fault::of_sql;
use portreeve_evidence::ProcessId;
use portreeve_records::{
    BindingKind, Claim, ClaimIdentity, ClaimMode, ConfirmedListener, Id, LeaseState, LeaseView, Named, Pid,
    PortNumber, ProcessView, RunState, RunView, WorkspaceRoot,
};
use portreeve_registry::Failure;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, types::FromSqlError};

type Sql<T> = rusqlite::Result<T>;

/// A lease as it lies in the store.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRow {
    pub(crate) id: Id,
    pub(crate) claim_id: Id,
    pub(crate) port: PortNumber,
    pub(crate) state: LeaseState,
    pub(crate) token_hash: Vec<u8>,
    pub(crate) ttl_ms: i64,
    pub(crate) expires_at: String,
    pub(crate) expires_boot_ms: i64,
    pub(crate) boot_id: String,
}

impl LeaseRow {
    /// Whether its time ran out, by the boot clock of the boot it was made in.
    pub(crate) fn expired(&self, boot_ms: i64, boot_id: &str) -> bool {
        self.boot_id != boot_id || self.expires_boot_ms <= boot_ms
    }

    pub(crate) fn view(&self) -> LeaseView {
        LeaseView {
            id: self.id,
            claim_id: self.claim_id,
            port: self.port,
            state: self.state,
            expires_at: self.expires_at.clone(),
        }
    }
}

/// A confirmed run as it lies in the store, with the identities that prove it.
#[derive(Clone, Debug)]
pub(crate) struct RunRow {
    pub(crate) view: RunView,
    pub(crate) boot_id: String,
    pub(crate) root: Option<ProcessId>,
    pub(crate) listeners: Vec<Known>,
}

/// A listener process that a run remembers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) id: ProcessId,
    pub(crate) session: u32,
    pub(crate) group: u32,
}

impl RunRow {
    /// The root and every remembered listener, each once.
    pub(crate) fn processes(&self) -> Vec<ProcessId> {
        let mut all: Vec<ProcessId> =
            self.root.into_iter().chain(self.listeners.iter().map(|l| l.id)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

pub(crate) const CLAIM: &str = "claim.id, claim.project, claim.workspace_root, claim.component, claim.endpoint, \
     claim.mode, claim.assigned_port, claim.preferred_port, claim.exact_port, claim.assignment_expires_at, \
     claim.created_at, claim.updated_at, claim.last_used_at";

pub(crate) fn claim(row: &Row<'_>) -> Sql<Claim> {
    Ok(Claim {
        id: id(row, 0)?,
        identity: ClaimIdentity::new(
            checked(row, 1, |t| Named::parse(t).ok())?,
            checked(row, 2, |t| WorkspaceRoot::parse(t).ok())?,
            checked(row, 3, |t| Named::parse(t).ok())?,
            checked(row, 4, |t| Named::parse(t).ok())?,
        ),
        mode: checked(row, 5, |t| match t {
            "sticky" => Some(ClaimMode::Sticky),
            "ephemeral" => Some(ClaimMode::Ephemeral),
            _ => None,
        })?,
        assigned_port: port(row, 6)?,
        preferred_port: port(row, 7)?,
        exact_port: port(row, 8)?,
        assignment_expires_at: row.get(9)?,
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
        last_used_at: row.get(12)?,
    })
}

pub(crate) const LEASE: &str = "lease.id, lease.claim_id, lease.port, lease.state, lease.token_hash, \
     lease.ttl_ms, lease.expires_at, lease.expires_boot_ms, lease.boot_id";

pub(crate) fn lease(row: &Row<'_>) -> Sql<LeaseRow> {
    Ok(LeaseRow {
        id: id(row, 0)?,
        claim_id: id(row, 1)?,
        port: port(row, 2)?.ok_or(FromSqlError::InvalidType)?,
        state: checked(row, 3, |t| {
            [LeaseState::Pending, LeaseState::Confirmed, LeaseState::Abandoned, LeaseState::Expired]
                .into_iter()
                .find(|state| state.as_str() == t)
        })?,
        token_hash: row.get(4)?,
        ttl_ms: row.get(5)?,
        expires_at: row.get(6)?,
        expires_boot_ms: row.get(7)?,
        boot_id: row.get(8)?,
    })
}

pub(crate) const RUN: &str = "run.id, run.claim_id, run.lease_id, run.port, run.state, run.binding_kind, \
     run.root_pid, run.root_start, run.root_fingerprint, run.container_id, run.provider_evidence, run.boot_id, \
     run.confirmed_at, run.released_at";

fn run(row: &Row<'_>) -> Sql<RunRow> {
    let root_pid: Option<u32> = row.get(6)?;
    let root_start: Option<i64> = row.get(7)?;
    Ok(RunRow {
        view: RunView {
            id: id(row, 0)?,
            claim_id: id(row, 1)?,
            lease_id: id(row, 2)?,
            port: port(row, 3)?.ok_or(FromSqlError::InvalidType)?,
            state: checked(row, 4, |t| match t {
                "confirmed" => Some(RunState::Confirmed),
                "released" => Some(RunState::Released),
                _ => None,
            })?,
            binding_kind: checked(row, 5, |t| {
                [BindingKind::Process, BindingKind::Docker].into_iter().find(|kind| kind.as_str() == t)
            })?,
            root_pid: root_pid.and_then(Pid::new),
            root_fingerprint: json(row, 8)?,
            container_id: row.get(9)?,
            provider_evidence: json(row, 10)?,
            confirmed_at: row.get(12)?,
            released_at: row.get(13)?,
            confirmed_listener_fingerprints: Vec::new(),
        },
        boot_id: row.get(11)?,
        root: root_pid
            .zip(root_start)
            .map(|(pid, start)| ProcessId { pid, start_ticks: u64::try_from(start).unwrap_or_default() }),
        listeners: Vec::new(),
    })
}

fn with_listeners(conn: &Connection, mut run: RunRow) -> Sql<RunRow> {
    let mut statement = conn.prepare_cached(
        "SELECT pid, start_ticks, session, process_group, fingerprint, observed_at FROM run_listener \
         WHERE run_id = ?1 ORDER BY pid, start_ticks",
    )?;
    let mut rows = statement.query([run.view.id.to_string()])?;
    while let Some(row) = rows.next()? {
        let start: i64 = row.get(1)?;
        run.listeners.push(Known {
            id: ProcessId { pid: row.get(0)?, start_ticks: u64::try_from(start).unwrap_or_default() },
            session: row.get(2)?,
            group: row.get(3)?,
        });
        if let Some(fingerprint) = json::<ProcessView>(row, 4)? {
            let listener = ConfirmedListener { fingerprint, observed_at: row.get(5)? };
            run.view.confirmed_listener_fingerprints.push(listener);
        }
    }
    Ok(run)
}

/// One claim by a condition that gives at most one.
pub(crate) fn find_claim(
    conn: &Connection,
    condition: &str,
    params: impl Params,
) -> Result<Option<Claim>, Failure> {
    one(conn, &format!("SELECT {CLAIM} FROM claim WHERE {condition}"), params, claim)
}

/// One lease by a condition that gives at most one.
pub(crate) fn find_lease(
    conn: &Connection,
    condition: &str,
    params: impl Params,
) -> Result<Option<LeaseRow>, Failure> {
    one(conn, &format!("SELECT {LEASE} FROM lease WHERE {condition}"), params, lease)
}

/// One run by a condition that gives at most one, with its remembered listeners.
pub(crate) fn find_run(
    conn: &Connection,
    condition: &str,
    params: impl Params,
) -> Result<Option<RunRow>, Failure> {
    match one(conn, &format!("SELECT {RUN} FROM run WHERE {condition}"), params, run)? {
        Some(run) => with_listeners(conn, run).map(Some).map_err(of_sql),
        None => Ok(None),
    }
}

/// All runs by a condition, with their remembered listeners.
pub(crate) fn runs(conn: &Connection, condition: &str, params: impl Params) -> Result<Vec<RunRow>, Failure> {
    all(conn, &format!("SELECT {RUN} FROM run WHERE {condition}"), params, run)?
        .into_iter()
        .map(|run| with_listeners(conn, run).map_err(of_sql))
        .collect()
}

pub(crate) fn one<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> Sql<T>,
) -> Result<Option<T>, Failure> {
    conn.prepare_cached(sql).and_then(|mut s| s.query_row(params, read).optional()).map_err(of_sql)
}

pub(crate) fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> Sql<T>,
) -> Result<Vec<T>, Failure> {
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_map(params, read).and_then(|rows| rows.collect()))
        .map_err(of_sql)
}

/// Runs one changing statement; the number of rows it changed.
pub(crate) fn change(conn: &Connection, sql: &str, params: impl Params) -> Result<usize, Failure> {
    conn.prepare_cached(sql).and_then(|mut s| s.execute(params)).map_err(of_sql)
}

fn checked<T>(row: &Row<'_>, column: usize, read: impl Fn(&str) -> Option<T>) -> Sql<T> {
    let text = row.get_ref(column)?.as_str()?;
    Ok(read(text).ok_or(FromSqlError::InvalidType)?)
}

pub(crate) fn id(row: &Row<'_>, column: usize) -> Sql<Id> {
    checked(row, column, Id::parse)
}

pub(crate) fn port(row: &Row<'_>, column: usize) -> Sql<Option<PortNumber>> {
    Ok(row.get::<_, Option<u16>>(column)?.and_then(PortNumber::new))
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> Sql<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|e| FromSqlError::Other(Box::new(e)).into()))
        .transpose()
}
