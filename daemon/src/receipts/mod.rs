//! Receipts: nothing consequential happens that wasn't previewed, and nothing happens twice.
//!
//! A change is declared once, as a [`Change`]: what is asked, the facts that matter to it, what comes of it.
//! The engine does the rest, the same for all of them:
//!
//! - [`preview`] plans on a snapshot and fresh evidence, and stores nothing but the receipt.
//! - [`execute`] gathers the evidence again outside the writer and compares it with the plan; inside the
//!   transaction the store's facts are read once more, then it acts, and the result and history are written with
//!   it.
//!   Whatever differs is named and nothing is done; the receipt stays good for when the world moves back.
//! - [`directly`] is protocol 1's one step without a receipt: the same look, the same recheck, the same act.
//!
//! An effect outside the store (a signal) is bracketed: the receipt is `executing`, with this daemon's identity,
//! before it, and `completed` after it.
//! Whoever finds one `executing` by a daemon that is gone is told that the outcome is unknown, and what is seen
//! now; it is never done again.
//!
//! What isn't part of the facts makes no receipt stale; times are no facts.

mod difference;
mod direct;
mod execute;
mod failures;
mod in_flight;
mod preview;
mod record;

pub(crate) use direct::directly;
pub(crate) use execute::serve_execute;
pub(crate) use in_flight::InFlight;
pub(crate) use preview::serve_preview;
pub(crate) use record::sweep;

use crate::Daemon;
use crate::clock::Moment;
use crate::handler::{Asked, Caller};
use crate::store::Tx;
use portreeve_registry::{Action, Failure};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// What the action of a change takes and gives.
pub(crate) type Request<C> = <<C as Change>::Action as Action>::Request;
pub(crate) type Target<C> = <<C as Change>::Action as Action>::Target;
pub(crate) type Proposal<C> = <<C as Change>::Action as Action>::Proposal;
pub(crate) type Observed<C> = <<C as Change>::Action as Action>::Observed;
pub(crate) type Outcome<C> = <<C as Change>::Action as Action>::Result;

/// A consequential act, as the engine needs to know it.
pub(crate) trait Change: Sized + 'static {
    /// The pair of operations.
    type Action: Action;
    /// What is asked: the target and what to do with it.
    type Ask: Clone + Send + 'static;
    /// The facts that matter to the act; a receipt is good for just these.
    type Facts: Serialize + Clone + PartialEq + Send + 'static;
    /// What else was seen: to be shown, or needed to act.
    type View: Send + 'static;

    /// The tool's name without its suffix.
    const TOOL: &'static str;
    /// The command that does the same.
    const COMMAND: &'static str;

    /// Checks and completes what is asked.
    fn ask(asked: &Asked<'_>, request: Request<Self>) -> Result<Self::Ask, Failure>;
    /// What a receipt stands for, asked again; `plan` holds the facts that it was previewed with.
    fn again(
        asked: &Asked<'_>,
        target: Target<Self>,
        proposal: Proposal<Self>,
        plan: &Value,
    ) -> Result<Self::Ask, Failure>;
    /// The target's id, as receipts and execute name it.
    fn target(ask: &Self::Ask) -> String;
    /// The same of the target that an execute names.
    fn target_named(target: &Target<Self>) -> String;
    /// Reads the store's snapshot and the machine. Fails where they can't be read, not where they forbid the act.
    fn look(
        asked: &Asked<'_>,
        ask: &Self::Ask,
        purpose: Purpose,
    ) -> Result<(Self::Facts, Self::View), Failure>;
    /// Why these facts forbid the act.
    fn refusal(ask: &Self::Ask, facts: &Self::Facts) -> Option<Failure>;
    /// What is proposed.
    fn proposal(ask: &Self::Ask, facts: &Self::Facts, view: &Self::View) -> Proposal<Self>;
    /// What was seen.
    fn observed(
        asked: &Asked<'_>,
        ask: &Self::Ask,
        facts: &Self::Facts,
        view: Self::View,
    ) -> Result<Observed<Self>, Failure>;
    /// The facts with the store's part of them read again, inside the transaction.
    fn recheck(
        at: &Acting,
        tx: &Tx<'_>,
        ask: &Self::Ask,
        facts: &Self::Facts,
    ) -> Result<Self::Facts, Failure>;
    /// Acts, within the transaction, or says what is to be done outside of it.
    fn act(
        at: &Acting,
        tx: &Tx<'_>,
        ask: Self::Ask,
        facts: Self::Facts,
        view: Self::View,
    ) -> Result<Act<Outcome<Self>>, Failure>;
}

/// What a look is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To show it.
    Preview,
    /// To act on it: what has to be held for that is taken.
    Act,
}

/// Who acts, and when.
#[derive(Clone)]
pub(crate) struct Acting {
    pub(crate) daemon: Arc<Daemon>,
    pub(crate) caller: Caller,
    pub(crate) now: Moment,
}

impl Acting {
    fn by(asked: &Asked<'_>) -> Acting {
        let now = asked.daemon.clock().now();
        Acting { daemon: Arc::clone(asked.daemon), caller: asked.caller.clone(), now }
    }
}

/// What acting came to.
pub(crate) enum Act<R> {
    /// It is done, in the transaction.
    Done(R),
    /// The rest happens outside the store: this, and then what it gives, in a transaction of its own.
    Outside(Box<dyn FnOnce() -> Settle<R> + Send>),
}

/// Writes what came of an effect outside the store.
pub(crate) type Settle<R> = Box<dyn FnOnce(&Acting, &Tx<'_>) -> Result<R, Failure> + Send>;

/// Serves both operations of a change.
macro_rules! serve_change {
    ($change:ty) => {
        $crate::handler::serve!(@entry portreeve_registry::Preview<<$change as $crate::receipts::Change>::Action>,
            true, $crate::receipts::serve_preview::<$change>);
        $crate::handler::serve!(@entry portreeve_registry::Execute<<$change as $crate::receipts::Change>::Action>,
            true, $crate::receipts::serve_execute::<$change>);
    };
}
pub(crate) use serve_change;
