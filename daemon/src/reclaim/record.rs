//! A reclamation in history: requested, each signal authorized and sent, completed, in this order.

use super::ending::Ended;
use super::facts::{Ask, Facts, Verdict, View};
use crate::Daemon;
use crate::handler::written;
use crate::history::{self, Entry};
use crate::leases;
use crate::ownership::{self, Life};
use crate::receipts::Acting;
use crate::rows;
use crate::store::Tx;
use portreeve_ports::{LauncherAction, ReclaimOutcome, ReclaimPolicy, Reclamation, SentSignal, SignalName};
use portreeve_records::{Id, InventoryEntry, Listener, Origin};
use portreeve_registry::Failure;
use serde_json::{Value, json};

/// One reclamation, as it is told.
pub(super) struct Story {
    id: Id,
    dry_run: bool,
}

impl Story {
    /// It is asked for.
    pub(super) fn begin(
        at: &Acting,
        tx: &Tx<'_>,
        ask: &Ask,
        facts: &Facts,
        dry_run: bool,
    ) -> Result<Story, Failure> {
        let story = Story { id: Id::fresh(), dry_run };
        let payload = json!({
            "operation": ask.kind,
            "port": ask.port,
            "request": {"policy": ask.policy, "dryRun": dry_run},
            "evidence": facts,
        });
        story.tell(at, tx, "reclamation.requested", payload)?;
        Ok(story)
    }

    /// The targets may be asked to end.
    pub(super) fn authorized(&self, at: &Acting, tx: &Tx<'_>, view: &View) -> Result<(), Failure> {
        for id in &view.order {
            let fingerprint =
                view.targets.iter().find(|t| t.pid.get() == id.pid).and_then(|t| t.process.as_ref());
            self.authorize(at, tx, id.pid, SignalName::Term, &written(&fingerprint)?)?;
        }
        Ok(())
    }

    fn authorize(
        &self,
        at: &Acting,
        tx: &Tx<'_>,
        pid: u32,
        signal: SignalName,
        fingerprint: &Value,
    ) -> Result<(), Failure> {
        let payload = json!({"pid": pid, "signal": signal, "fingerprint": fingerprint});
        self.tell(at, tx, "reclamation.signal-authorized", payload)
    }

    /// What was sent and what came of it; the run is over if its processes are.
    pub(super) fn settle(
        self,
        at: &Acting,
        tx: &Tx<'_>,
        ask: &Ask,
        run: Option<Id>,
        view: View,
        ended: Ended,
    ) -> Result<Reclamation, Failure> {
        for sent in &ended.signals {
            if sent.signal == SignalName::Kill && ask.policy == ReclaimPolicy::ForceAfterGrace {
                let target = view.targets.iter().find(|t| t.pid == sent.pid);
                let fingerprint = target.and_then(|t| t.process.as_ref());
                self.authorize(at, tx, sent.pid.get(), sent.signal, &written(&fingerprint)?)?;
            }
            self.tell(at, tx, "reclamation.signal-sent", written(sent)?)?;
        }
        let result = self.result(ask, ended.verdict, None, view.targets, ended.signals);
        self.end(at, tx, &result)?;
        if let Some(id) = run {
            let row = rows::find_run(tx, "id = ?1 AND state = 'confirmed'", [id.to_string()])?;
            let boot_id = at.daemon.clock().boot_id();
            let over =
                row.is_some_and(|run| ownership::life(&run, boot_id, at.daemon.evidence()) == Life::Over);
            if over || result.outcome == ReclaimOutcome::Terminated {
                leases::release(&at.daemon, tx, Some(&at.caller), &at.now, id, Some("reclaimed"))?;
            }
        }
        Ok(result)
    }

    /// It ends with this result.
    pub(super) fn end(&self, at: &Acting, tx: &Tx<'_>, result: &Reclamation) -> Result<(), Failure> {
        self.tell(at, tx, "reclamation.completed", written(result)?)
    }

    pub(super) fn result(
        &self,
        ask: &Ask,
        verdict: Verdict,
        launcher_action: Option<LauncherAction>,
        targets: Vec<Listener>,
        signals: Vec<SentSignal>,
    ) -> Reclamation {
        Reclamation {
            operation_id: self.id,
            operation: ask.kind,
            port: ask.port,
            policy: ask.policy,
            dry_run: self.dry_run,
            outcome: verdict.outcome,
            reason: verdict.reason,
            launcher_action,
            targets,
            signals,
        }
    }

    fn tell(
        &self,
        at: &Acting,
        tx: &Tx<'_>,
        event_type: &'static str,
        payload: Value,
    ) -> Result<(), Failure> {
        let most = at.daemon.settings().history_maximum_events;
        let entity_id = &self.id.to_string();
        let entry = Entry { event_type, entity_type: "reclamation", entity_id, payload };
        history::append(tx, Some(&at.caller), &at.now, most, entry)
    }
}

/// The label of whoever confirmed the run on the port, by their own account.
pub(super) fn confirmed_by(daemon: &Daemon, entry: &InventoryEntry) -> Result<Option<String>, Failure> {
    let Some(run) = &entry.run else { return Ok(None) };
    let origin = daemon.read(|conn| {
        rows::one(
            conn,
            "SELECT origin FROM event WHERE entity_type = 'lease' AND entity_id = ?1 \
             AND event_type = 'lease.confirmed'",
            [run.lease_id.to_string()],
            |row| row.get::<_, Option<String>>(0),
        )
    })?;
    let origin = origin.flatten().and_then(|text| serde_json::from_str::<Origin>(&text).ok());
    Ok(origin.and_then(|origin| origin.label).map(|label| label.as_str().to_owned()))
}
