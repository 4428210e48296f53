//! Protocol 1's one-step routes: reclaim, unsafe eviction, and replacement as part of an acquire.

use super::facts::{self, Ask};
use super::{Reclaim, record::Story};
use crate::fault::invalid;
use crate::handler::{Asked, serve};
use crate::receipts::{Acting, Purpose, directly};
use portreeve_ports::{
    EvictPort, EvictRequest, ReclaimKind, ReclaimPolicy, ReclaimPort, ReclaimRequest, Reclamation,
};
use portreeve_records::PortNumber;
use portreeve_registry::Failure;
use std::sync::Arc;

serve!(ReclaimPort => reclaim);
serve!(EvictPort => evict);

fn reclaim(asked: &Asked<'_>, request: ReclaimRequest) -> Result<Reclamation, Failure> {
    let ReclaimRequest { port, policy, dry_run } = request;
    run(asked, Ask { port, policy, workspace: None, kind: ReclaimKind::Reclaim, expected: None }, dry_run)
}

fn evict(asked: &Asked<'_>, request: EvictRequest) -> Result<Reclamation, Failure> {
    let EvictRequest { port, unsafe_any_owner, policy, dry_run, expected } = request;
    if !unsafe_any_owner {
        let text = "expected true: whoever holds the port is ended, proved or not";
        return Err(invalid(&["unsafeAnyOwner"], "invalid_value", text));
    }
    if policy == ReclaimPolicy::Never {
        return Err(invalid(&["policy"], "invalid_value", "expected graceful or force-after-grace"));
    }
    run(asked, Ask { port, policy, workspace: None, kind: ReclaimKind::UnsafeEviction, expected }, dry_run)
}

fn run(asked: &Asked<'_>, ask: Ask, dry_run: bool) -> Result<Reclamation, Failure> {
    if !dry_run {
        return directly::<Reclaim>(asked, &ask);
    }
    let (facts, view) = facts::look(asked.daemon, &ask, Purpose::Preview)?;
    let now = asked.daemon.clock().now();
    let at = Acting { daemon: Arc::clone(asked.daemon), caller: asked.caller.clone(), now };
    asked.daemon.write(move |tx| {
        let story = Story::begin(&at, tx, &ask, &facts, true)?;
        let result = story.result(&ask, facts.verdict, view.launcher_action, view.targets, Vec::new());
        story.end(&at, tx, &result)?;
        Ok(result)
    })
}

/// Ends the run that has a port, so that its own claim can be leased again.
pub(crate) fn replace(
    asked: &Asked<'_>,
    port: PortNumber,
    policy: ReclaimPolicy,
) -> Result<Reclamation, Failure> {
    let ask = Ask { port, policy, workspace: None, kind: ReclaimKind::Reclaim, expected: None };
    directly::<Reclaim>(asked, &ask)
}
