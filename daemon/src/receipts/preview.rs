//! The preview of a change: it plans, and stores the receipt and nothing else.

use super::record::{self, Record, State};
use super::{Change, Observed, Proposal, Purpose, Request};
use crate::handler::{Asked, written};
use portreeve_records::Id;
use portreeve_registry::{Action, Args, Failure, FailureClass, Issue, Receipt, TargetRef, Wire as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Handles a preview's request.
pub(crate) fn serve_preview<C: Change>(asked: &Asked<'_>, mut args: Args) -> Result<Value, Failure> {
    let invalid = |issue: Issue| issue.failure(FailureClass::DaemonInvalidInput);
    let key: Option<String> = args.take("idempotencyKey").map_err(invalid)?;
    if let Some(key) = &key
        && !(1..=256).contains(&key.chars().count())
    {
        let code = if key.is_empty() { "too_small" } else { "too_big" };
        let text = "expected 1 to 256 characters";
        return Err(crate::fault::invalid(&["idempotencyKey"], code, text));
    }
    let request = Request::<C>::decode(args).map_err(invalid)?;
    written(&preview::<C>(asked, request, key)?)
}

fn preview<C: Change>(
    asked: &Asked<'_>,
    request: Request<C>,
    key: Option<String>,
) -> Result<Receipt<Proposal<C>, Observed<C>>, Failure> {
    let daemon = asked.daemon;
    let ask = C::ask(asked, request)?;
    let (facts, view) = C::look(asked, &ask, Purpose::Preview)?;
    if let Some(refusal) = C::refusal(&ask, &facts) {
        return Err(refusal);
    }
    let proposal = written(&C::proposal(&ask, &facts, &view))?;
    let plan = written(&facts)?;
    let observed = written(&C::observed(asked, &ask, &facts, view)?)?;
    let now = daemon.clock().now();
    let until = now.plus_ms(record::LIFETIME);
    let fresh = Record {
        id: Id::fresh().to_string(),
        action: C::Action::ACTION.to_owned(),
        target_id: C::target(&ask),
        hash: hash(&json!([proposal, plan])),
        proposal,
        plan,
        observed,
        state: State::Previewed,
        result: None,
        expires_at: until.stamp(),
        expires_boot_ms: until.boot_ms,
        boot_id: daemon.clock().boot_id().to_owned(),
        executor: None,
    };
    let at = Arc::clone(daemon);
    let kept = daemon.write(move |tx| {
        if let Some(key) = &key
            && let Some(found) = record::find_by_key(tx, key)?
        {
            let over = found.state == State::Previewed && found.expired(now.boot_ms, at.clock().boot_id());
            let same = (&found.action, &found.target_id, &found.hash)
                == (&fresh.action, &fresh.target_id, &fresh.hash);
            if same && !over {
                return Ok(found);
            }
            if !same {
                return Err(taken(key, &found));
            }
        }
        record::insert(tx, &fresh, C::Action::TARGET, key.as_deref(), &now)?;
        Ok(fresh)
    })?;
    let read = |value: Value| portreeve_registry::decode(value, portreeve_registry::Manner::default());
    let unreadable =
        |issue: Issue| Failure::new(FailureClass::StoreCorrupt, format!("a stored receipt: {issue}"));
    Ok(Receipt {
        receipt_id: kept.id,
        action: kept.action,
        target: TargetRef { kind: C::Action::TARGET.to_owned(), id: kept.target_id },
        proposal: read(kept.proposal).map_err(unreadable)?,
        observed: portreeve_registry::decode(kept.observed, Default::default()).map_err(unreadable)?,
        expires_at: kept.expires_at,
    })
}

fn taken(key: &str, found: &Record) -> Failure {
    let text = format!(
        "The idempotency key {key:?} stands for {} of {}, as it was seen then.",
        found.action, found.target_id
    );
    Failure::new(FailureClass::Conflict, text)
        .detail("idempotencyKey", key)
        .detail("receiptId", found.id.as_str())
        .next("preview with another key, or without one")
}

/// SHA-256 of the JSON, in hex.
pub(super) fn hash(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
