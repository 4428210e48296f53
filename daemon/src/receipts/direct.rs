//! Protocol 1's one step without a receipt: the same look, recheck and act.

use super::{Act, Acting, Change, Outcome, Purpose, Settle};
use crate::handler::Asked;
use portreeve_registry::{Failure, FailureClass};
use std::sync::Arc;

/// How often the facts may change between the look and the act.
const TRIES: usize = 3;

enum Step<R> {
    Done(R),
    Outside(Box<dyn FnOnce() -> Settle<R> + Send>),
    Changed,
}

/// Does a change at once.
pub(crate) fn directly<C: Change>(asked: &Asked<'_>, ask: &C::Ask) -> Result<Outcome<C>, Failure> {
    for _ in 0..TRIES {
        let (facts, view) = C::look(asked, ask, Purpose::Act)?;
        if let Some(refusal) = C::refusal(ask, &facts) {
            return Err(refusal);
        }
        let at = Acting::by(asked);
        let step = {
            let (at, ask) = (at.clone(), ask.clone());
            asked.daemon.write(move |tx| {
                let again = C::recheck(&at, tx, &ask, &facts)?;
                if again != facts {
                    return Ok(Step::Changed);
                }
                Ok(match C::act(&at, tx, ask, again, view)? {
                    Act::Done(result) => Step::Done(result),
                    Act::Outside(effect) => Step::Outside(effect),
                })
            })?
        };
        match step {
            Step::Done(result) => return Ok(result),
            Step::Changed => {}
            Step::Outside(effect) => {
                let settle = effect();
                let daemon = Arc::clone(asked.daemon);
                return daemon.write(move |tx| {
                    let at = Acting { now: at.daemon.clock().now(), ..at };
                    settle(&at, tx)
                });
            }
        }
    }
    let text = "What this is about kept changing while it was looked at.";
    Err(Failure::new(FailureClass::Conflict, text).retryable().next("repeat the call in a moment"))
}
