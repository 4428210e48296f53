//! Getting a port back by ending the processes that a confirmed run proves, and no others.
//!
//! | module | its job |
//! | --- | --- |
//! | `facts` | what is known of the port, the verdict that follows, and whom it would end |
//! | `guard` | who is never ended: this daemon, the caller, and those above them |
//! | `ending` | signals through pidfds, the grace, and the look afterwards |
//! | `record` | the reclamation's events in history, and the result |
//! | `direct` | protocol 1's one-step routes: reclaim, unsafe eviction, replacement |

mod direct;
mod ending;
mod facts;
mod guard;
mod record;

pub(crate) use direct::replace;

use self::facts::{Ask, Facts, Verdict, View};
use crate::handler::Asked;
use crate::receipts::{Act, Acting, Change, Purpose, Settle, serve_change};
use crate::store::Tx;
use crate::workspace;
use portreeve_ports::{
    PortRef, ReclaimAction, ReclaimActionRequest, ReclaimKind, ReclaimObserved, ReclaimOutcome,
    ReclaimProposal, Reclamation,
};
use portreeve_records::WorkspaceRoot;
use portreeve_registry::{Failure, FailureClass};
use serde_json::Value;

serve_change!(Reclaim);

/// Reclaiming a port.
pub(crate) enum Reclaim {}

/// A worktree as claims name it: its real path while it is there.
fn real(root: WorkspaceRoot) -> WorkspaceRoot {
    workspace::real_path(&root, &["workspaceRoot"]).unwrap_or(root)
}

impl Change for Reclaim {
    type Action = ReclaimAction;
    type Ask = Ask;
    type Facts = Facts;
    type View = View;

    const TOOL: &'static str = "ports_reclaim";
    const COMMAND: &'static str = "portreeve ports reclaim";

    fn ask(_: &Asked<'_>, request: ReclaimActionRequest) -> Result<Ask, Failure> {
        let ReclaimActionRequest { port, policy, workspace_root } = request;
        let workspace = workspace_root.map(real);
        Ok(Ask { port, policy, workspace, kind: ReclaimKind::Reclaim, expected: None })
    }

    fn again(_: &Asked<'_>, target: PortRef, proposal: ReclaimProposal, _: &Value) -> Result<Ask, Failure> {
        Ok(Ask {
            port: target.port,
            policy: proposal.policy,
            workspace: proposal.workspace_root,
            kind: ReclaimKind::Reclaim,
            expected: None,
        })
    }

    fn target(ask: &Ask) -> String {
        ask.port.to_string()
    }
    fn target_named(target: &PortRef) -> String {
        target.port.to_string()
    }

    fn look(asked: &Asked<'_>, ask: &Ask, purpose: Purpose) -> Result<(Facts, View), Failure> {
        facts::look(asked.daemon, ask, purpose)
    }

    /// Only the wrong worktree is refused outright; everything else is an outcome that says why.
    fn refusal(ask: &Ask, facts: &Facts) -> Option<Failure> {
        let (named, owner) = (ask.workspace.as_ref()?, facts.workspace.as_ref()?);
        if named == owner {
            return None;
        }
        let port = ask.port;
        let whose = facts.owner.as_deref().unwrap_or("another server");
        let text =
            format!("Port {port} is {whose} of {owner}, not of {named}: only its own worktree reclaims it.");
        Some(
            Failure::new(FailureClass::PolicyRefused, text)
                .detail("port", port.get())
                .detail("workspaceRoot", owner.as_str())
                .next("take another port, or ask whoever works there to stop it")
                .by(Some("leases_acquire"), Some("portreeve lease acquire".into())),
        )
    }

    fn proposal(ask: &Ask, _: &Facts, _: &View) -> ReclaimProposal {
        ReclaimProposal { policy: ask.policy, workspace_root: ask.workspace.clone() }
    }

    fn observed(asked: &Asked<'_>, ask: &Ask, facts: &Facts, view: View) -> Result<ReclaimObserved, Failure> {
        let mut verdict = facts.verdict.clone();
        // Told before anybody asks for it; whoever executes is looked at again.
        if verdict.outcome == ReclaimOutcome::WouldTerminate
            && let Some(why) = guard::refusal(asked.daemon, &asked.caller, &view.order)
        {
            verdict = Verdict::refused(why);
        }
        Ok(ReclaimObserved {
            port: ask.port,
            policy: ask.policy,
            outcome: verdict.outcome,
            reason: verdict.reason,
            launcher_action: view.launcher_action,
            targets: view.targets,
            confirmed_by: record::confirmed_by(asked.daemon, &view.entry)?,
            inventory: view.entry,
        })
    }

    fn recheck(at: &Acting, tx: &Tx<'_>, ask: &Ask, facts: &Facts) -> Result<Facts, Failure> {
        facts::recheck(&at.daemon, tx, ask.port, facts)
    }

    fn act(
        at: &Acting,
        tx: &Tx<'_>,
        ask: Ask,
        facts: Facts,
        view: View,
    ) -> Result<Act<Reclamation>, Failure> {
        let mut verdict = facts.verdict.clone();
        if verdict.outcome == ReclaimOutcome::WouldTerminate
            && let Some(why) = guard::refusal(&at.daemon, &at.caller, &view.order)
        {
            verdict = Verdict::refused(why);
        }
        let story = record::Story::begin(at, tx, &ask, &facts, false)?;
        if verdict.outcome != ReclaimOutcome::WouldTerminate {
            let result = story.result(&ask, verdict, view.launcher_action, view.targets, Vec::new());
            story.end(at, tx, &result)?;
            return Ok(Act::Done(result));
        }
        story.authorized(at, tx, &view)?;
        let daemon = std::sync::Arc::clone(&at.daemon);
        Ok(Act::Outside(Box::new(move || -> Settle<Reclamation> {
            let ended = ending::end(&daemon, &ask, &view);
            Box::new(move |at, tx| story.settle(at, tx, &ask, facts.run, view, ended))
        })))
    }
}
