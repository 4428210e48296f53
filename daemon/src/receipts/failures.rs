//! How executing fails, each in its own class, and always with the receipt.

use super::Change;
use super::difference::{Difference, differences};
use super::record::Record;
use portreeve_registry::{Failure, FailureClass, Outcome};
use serde_json::{Value, json};

/// Protocol 1's word for the kind of receipt failure.
const CODE: &str = "receiptCode";

fn again<C: Change>(failure: Failure, id: &str) -> Failure {
    let tool = format!("{}_preview", C::TOOL);
    failure
        .detail("receiptId", id)
        .next("preview again, then execute with the new receipt")
        .by(Some(&tool), Some(C::COMMAND.to_owned()))
}

pub(super) fn unknown<C: Change>(id: &str) -> Failure {
    let failure = Failure::new(FailureClass::ReceiptUnknown, "Action receipt was not found.");
    again::<C>(failure, id).detail(CODE, "not_found")
}

pub(super) fn mismatch<C: Change>(id: &str) -> Failure {
    let text = "Action receipt does not match the requested action and target.";
    again::<C>(Failure::new(FailureClass::ReceiptMismatch, text), id).detail(CODE, "receipt_mismatch")
}

pub(super) fn expired<C: Change>(receipt: &Record) -> Failure {
    let text = format!("Action receipt expired at {}.", receipt.expires_at);
    again::<C>(Failure::new(FailureClass::ReceiptExpired, text), &receipt.id)
        .detail(CODE, "receipt_expired")
        .detail("expiresAt", receipt.expires_at.as_str())
}

/// The facts differ: each is named, and if they now forbid the act, why.
pub(super) fn changed<C: Change>(
    receipt: &Record,
    after: &Value,
    refusal: Option<Failure>,
) -> Option<Failure> {
    let found = differences(&receipt.plan, after);
    if found.is_empty() {
        return refusal.map(|refusal| refusal.detail("receiptId", receipt.id.as_str()));
    }
    let mut text = format!("What the preview saw has changed: {}.", told(&found));
    if let Some(refusal) = &refusal {
        text.push_str(&format!(" {}", refusal.message));
    }
    let mut failure = Failure::new(FailureClass::ReceiptChanged, text);
    for (name, value) in refusal.map(|refusal| refusal.details).unwrap_or_default() {
        failure = failure.detail(&name, value);
    }
    let next = format!(
        "preview again to see what holds now; until {} this receipt is good if that changes back",
        receipt.expires_at
    );
    let tool = format!("{}_preview", C::TOOL);
    Some(
        failure
            .detail("receiptId", receipt.id.as_str())
            .detail(CODE, "receipt_mismatch")
            .detail("changes", json!(found))
            .next(next)
            .by(Some(&tool), Some(C::COMMAND.to_owned())),
    )
}

fn told(found: &[Difference]) -> String {
    let short = |value: &Value| {
        let text = value.to_string();
        match text.char_indices().nth(60) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    let mut parts: Vec<String> = found
        .iter()
        .take(4)
        .map(|d| format!("{} was {} and is {}", d.path, short(&d.before), short(&d.after)))
        .collect();
    if found.len() > parts.len() {
        parts.push(format!("and {} more", found.len() - parts.len()));
    }
    parts.join("; ")
}

/// A daemon began to execute it and left no result: what is seen now.
pub(super) fn outcome_unknown<C: Change>(receipt: &Record, observed: Value, now: Option<&Value>) -> Failure {
    let text =
        "The daemon that executed this receipt ended before it recorded the result; nothing is repeated.";
    let mut failure = again::<C>(Failure::new(FailureClass::ReceiptOutcomeUnknown, text), &receipt.id)
        .detail(CODE, "outcome_unknown")
        .detail("observed", observed)
        .detail("executor", receipt.executor.clone().unwrap_or_default());
    if let Some(now) = now {
        failure = failure.detail("changes", json!(differences(&receipt.plan, now)));
    }
    failure.next("look at what is seen now; if the effect is still wanted, preview again")
}

/// It goes on, longer than this call may wait.
pub(super) fn still_executing<C: Change>(id: &str) -> Failure {
    let text = "The receipt is still executing; its result is not known yet.";
    Failure::new(FailureClass::Conflict, text)
        .retryable()
        .outcome(Outcome::Unknown)
        .detail("receiptId", id)
        .detail(CODE, "executing")
        .next("execute again with the same receipt: it waits for the result and does nothing twice")
        .by(Some(&format!("{}_execute", C::TOOL)), None)
}
