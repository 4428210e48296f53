//! What clients know of their leases from replies alone, and what the store must say then.

use rusqlite::{Connection, OptionalExtension as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Long enough that a lease outlives a round, short enough that some end within the test.
pub(crate) const TTL: Duration = Duration::from_millis(3000);

/// What a client knows of one lease from replies alone.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) port: u64,
    pub(crate) claim: String,
    /// The latest end that a reply stated.
    pub(crate) expires_at: String,
    /// It was surely held until then: its grant or renewal was asked for this much later than a lease time ago.
    pub(crate) held_until: Instant,
    /// The state that the last reply implies: pending, abandoned, confirmed.
    pub(crate) state: &'static str,
    pub(crate) run: Option<String>,
    /// What was asked last and never answered may have happened or not.
    pub(crate) asked: Option<&'static str>,
}

/// What all clients know.
pub(crate) struct Journal {
    pub(crate) file: File,
    pub(crate) leases: BTreeMap<String, Known>,
    pub(crate) replies: usize,
}

impl Journal {
    /// Notes a reply durably.
    pub(crate) fn note(&mut self, what: &str, id: &str, data: &Value) {
        let line = json!({"what": what, "lease": id, "data": data}).to_string();
        writeln!(self.file, "{line}")
            .and_then(|()| self.file.sync_data())
            .expect("the journal can be written");
        self.replies += 1;
    }

    /// Notes a grant; nobody else may surely have held the port when it was made.
    pub(crate) fn granted(&mut self, data: &Value, asked_at: Instant) -> String {
        let text = |field: &str| data[field].as_str().expect("text").to_owned();
        let port = data["port"].as_u64().expect("a port");
        let now = Instant::now();
        for (id, other) in &self.leases {
            let held = other.port == port
                && other.asked.is_none()
                && (other.state == "confirmed" || (other.state == "pending" && now < other.held_until));
            assert!(!held, "port {port} was given out while lease {id} held it: {other:?}");
        }
        let known = Known {
            port,
            claim: text("claimId"),
            expires_at: text("expiresAt"),
            held_until: asked_at + TTL,
            state: "pending",
            run: None,
            asked: None,
        };
        self.note("acquired", &text("leaseId"), data);
        self.leases.insert(text("leaseId"), known);
        text("leaseId")
    }
}

/// Holds what clients know against the store, and learns what became of what was never answered.
pub(crate) fn verify(conn: &Connection, leases: &mut BTreeMap<String, Known>) {
    for (id, known) in leases {
        let row: Option<(String, u64, String, String)> = conn
            .query_row("SELECT state, port, claim_id, expires_at FROM lease WHERE id = ?1", [id], |row| {
                Ok((row.get(0)?, u64::from(row.get::<_, u16>(1)?), row.get(2)?, row.get(3)?))
            })
            .optional()
            .expect("the store can be read");
        let surely_held = Instant::now() < known.held_until;
        let (state, port, claim, expires_at) = row.unwrap_or_else(|| panic!("{id} is lost: {known:?}"));
        assert_eq!((port, &claim), (known.port, &known.claim), "{id}");
        assert!(expires_at >= known.expires_at, "a renewal of {id} is lost: {expires_at}, {known:?}");
        let fits = match (known.state, known.asked) {
            ("pending", None) => state == "pending" || (state == "expired" && !surely_held),
            ("pending", Some("abandon")) => matches!(state.as_str(), "pending" | "expired" | "abandoned"),
            ("pending", Some("confirm")) => matches!(state.as_str(), "pending" | "expired" | "confirmed"),
            ("pending", Some(_)) => matches!(state.as_str(), "pending" | "expired"),
            (settled, _) => state == settled,
        };
        assert!(fits, "{id} is {state}: {known:?}");
        if let Some(run) = &known.run {
            let run: (String, String, u16) = conn
                .query_row("SELECT state, lease_id, port FROM run WHERE id = ?1", [run], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .unwrap_or_else(|e| panic!("run {run} is lost: {e}"));
            assert_eq!((run.0.as_str(), &run.1, u64::from(run.2)), ("confirmed", id, known.port));
        }
        let told: i64 = conn
            .query_row(
                "SELECT count(*) FROM event WHERE event_type = 'lease.acquired' AND entity_id = ?1",
                [id],
                |row| row.get(0),
            )
            .expect("the store can be read");
        assert_eq!(told, 1, "history tells of {id} {told} times");
        // What was asked and never answered is known now.
        known.asked = None;
        known.state = match state.as_str() {
            "abandoned" => "abandoned",
            "confirmed" => "confirmed",
            "expired" => "expired",
            _ => "pending",
        };
    }
}
