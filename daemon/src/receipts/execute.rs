//! The execute of a change: only what was previewed, only while it still holds, and only once.

use super::record::{self, Record, State};
use super::{Act, Acting, Change, Outcome, Purpose, Settle, Target, failures, in_flight::Turn};
use crate::Daemon;
use crate::handler::{Asked, written};
use crate::history::{self, Entry};
use crate::store::Tx;
use portreeve_registry::{
    Action, Args, ExecuteRequest, Executed, Failure, FailureClass, Manner, Wire as _, decode,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long a call waits for the result: below the deadline of our own clients, who then ask again.
const PATIENCE: Duration = Duration::from_secs(18);

/// Handles an execute's request.
pub(crate) fn serve_execute<C: Change>(asked: &Asked<'_>, args: Args) -> Result<Value, Failure> {
    let request = ExecuteRequest::<Target<C>>::decode(args)
        .map_err(|issue| issue.failure(FailureClass::DaemonInvalidInput))?;
    written(&execute::<C>(asked, request)?)
}

fn execute<C: Change>(
    asked: &Asked<'_>,
    request: ExecuteRequest<Target<C>>,
) -> Result<Executed<Outcome<C>>, Failure> {
    let daemon = asked.daemon;
    let until = Instant::now() + PATIENCE;
    let id = request.receipt_id;
    // A look before waiting: what can be told at once doesn't wait for anybody.
    let found = find::<C>(daemon, &id, &request.target)?;
    if found.state == State::Completed {
        return replay::<C>(found);
    }
    let turn = daemon.in_flight.enter(&id, until).ok_or_else(|| failures::still_executing::<C>(&id))?;
    let receipt = find::<C>(daemon, &id, &request.target)?;
    match receipt.state {
        State::Completed => replay::<C>(receipt),
        State::Executing => Err(left_behind::<C>(asked, receipt, request.target)),
        State::Previewed => first::<C>(asked, receipt, request.target, turn, until),
    }
}

fn find<C: Change>(daemon: &Daemon, id: &str, target: &Target<C>) -> Result<Record, Failure> {
    let found = daemon.read(|conn| record::find(conn, id))?.ok_or_else(|| failures::unknown::<C>(id))?;
    if found.action != C::Action::ACTION || found.target_id != C::target_named(target) {
        return Err(failures::mismatch::<C>(id));
    }
    Ok(found)
}

fn replay<C: Change>(receipt: Record) -> Result<Executed<Outcome<C>>, Failure> {
    let result = stored(receipt.result.unwrap_or_default())?;
    Ok(Executed { changed: false, replayed: true, result })
}

fn stored<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    decode(value, Manner::default())
        .map_err(|issue| Failure::new(FailureClass::StoreCorrupt, format!("a stored receipt: {issue}")))
}

/// Somebody began and left no result: told with what is seen now, and never repeated.
fn left_behind<C: Change>(asked: &Asked<'_>, receipt: Record, target: Target<C>) -> Failure {
    let seen = || -> Result<(Value, Value), Failure> {
        let proposal = stored(receipt.proposal.clone())?;
        let ask = C::again(asked, target, proposal, &receipt.plan)?;
        let (facts, view) = C::look(asked, &ask, Purpose::Preview)?;
        Ok((written(&C::observed(asked, &ask, &facts, view)?)?, written(&facts)?))
    };
    match seen() {
        Ok((observed, plan)) => failures::outcome_unknown::<C>(&receipt, observed, Some(&plan)),
        Err(failure) => {
            failures::outcome_unknown::<C>(&receipt, json!({"unavailable": failure.message}), None)
        }
    }
}

/// What the transaction came to.
enum Step<R> {
    Done(R),
    Outside(Box<dyn FnOnce() -> Settle<R> + Send>),
    Changed(Box<Failure>),
}

fn first<C: Change>(
    asked: &Asked<'_>,
    receipt: Record,
    target: Target<C>,
    turn: Turn,
    until: Instant,
) -> Result<Executed<Outcome<C>>, Failure> {
    let id = receipt.id.clone();
    let named = |failure: Failure| failure.detail("receiptId", id.as_str());
    let proposal = stored(receipt.proposal.clone())?;
    let ask = C::again(asked, target, proposal, &receipt.plan).map_err(named)?;
    let (facts, view) = C::look(asked, &ask, Purpose::Act).map_err(named)?;
    let at = Acting::by(asked);
    if receipt.expired(at.now.boot_ms, at.daemon.clock().boot_id()) {
        return Err(failures::expired::<C>(&receipt));
    }
    if let Some(changed) = failures::changed::<C>(&receipt, &written(&facts)?, C::refusal(&ask, &facts)) {
        return Err(changed);
    }
    let step = {
        let (at, receipt) = (at.clone(), receipt.clone());
        asked.daemon.write(move |tx| {
            let again = C::recheck(&at, tx, &ask, &facts)?;
            if let Some(changed) =
                failures::changed::<C>(&receipt, &written(&again)?, C::refusal(&ask, &again))
            {
                return Ok(Step::Changed(Box::new(changed)));
            }
            Ok(match C::act(&at, tx, ask, again, view)? {
                Act::Done(result) => {
                    finish::<C>(&at, tx, &receipt, &written(&result)?)?;
                    Step::Done(result)
                }
                Act::Outside(effect) => {
                    record::executing(tx, &at.daemon, &receipt.id)?;
                    Step::Outside(effect)
                }
            })
        })
    };
    let result = match step.map_err(named)? {
        Step::Changed(changed) => return Err(*changed),
        Step::Done(result) => result,
        Step::Outside(effect) => outside::<C>(at, receipt, effect, turn, until)?,
    };
    Ok(Executed { changed: true, replayed: false, result })
}

/// Does the effect on a thread of its own, so that it ends and is recorded however long this call waits.
fn outside<C: Change>(
    at: Acting,
    receipt: Record,
    effect: Box<dyn FnOnce() -> Settle<Outcome<C>> + Send>,
    turn: Turn,
    until: Instant,
) -> Result<Outcome<C>, Failure> {
    let id = receipt.id.clone();
    let (sender, came) = mpsc::channel();
    let daemon = Arc::clone(&at.daemon);
    let work = move || {
        let ended = catch_unwind(AssertUnwindSafe(effect));
        let result = match ended {
            Ok(settle) => {
                let daemon = Arc::clone(&at.daemon);
                daemon.write(move |tx| {
                    let at = Acting { now: at.daemon.clock().now(), ..at };
                    let result = settle(&at, tx)?;
                    finish::<C>(&at, tx, &receipt, &written(&result)?)?;
                    Ok(result)
                })
            }
            Err(_) => Err(Failure::new(FailureClass::DaemonInternal, "PortReeve met a fault of its own")),
        };
        // Recorded first, then the next one may look.
        drop(turn);
        // Whoever waited may have gone on.
        drop(sender.send(result));
    };
    if let Err(error) = std::thread::Builder::new().name("execute".into()).spawn(work) {
        let again = id.clone();
        daemon.write(move |tx| record::not_begun(tx, &again))?;
        let text = format!("no thread to execute on: {error}");
        return Err(Failure::new(FailureClass::DaemonBusy, text).detail("receiptId", id.as_str()));
    }
    let unrecorded = |failure: Failure| {
        failure.detail("receiptId", id.as_str()).outcome(portreeve_registry::Outcome::Unknown)
    };
    match came.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(result) => result.map_err(unrecorded),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(failures::still_executing::<C>(&id)),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(unrecorded(Failure::new(FailureClass::DaemonInternal, "the execution was cut off")))
        }
    }
}

fn finish<C: Change>(at: &Acting, tx: &Tx<'_>, receipt: &Record, result: &Value) -> Result<(), Failure> {
    record::complete(tx, &receipt.id, result, &at.now)?;
    history::append(
        tx,
        Some(&at.caller),
        &at.now,
        at.daemon.settings().history_maximum_events,
        Entry {
            event_type: "receipt.executed",
            entity_type: "receipt",
            entity_id: &receipt.id,
            payload: json!({"action": receipt.action, "target": {"type": C::Action::TARGET, "id": receipt.target_id}}),
        },
    )
}
