//! `claims_prune_preview` and `claims_prune_execute`.

use crate::{Age, ClaimItem, PruneAction, PruneProposal, PruneTotals, Pruned, Skipped};
use portreeve_records::Id;
use portreeve_registry::{Change, Effect, Example, Executed, NoTarget, Receipt, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Delete the claims whose worktree's folder is gone and that weren't used for a while (seven days unless
    /// you say otherwise). What is leased, served, listened on, or on a folder that merely can't be reached
    /// is skipped, with its reason.
    pub change ClaimsPrune = "claims_prune"
}

/// How many of each list a tool shows.
const SHOWN: u32 = 20;
/// The age that is meant when none is given: seven days.
const WEEK: u64 = 7 * 24 * 60 * 60 * 1000;

/// How old.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PruneInput {
    /// Only claims that weren't used for so long; seven days by default.
    #[serde(default)]
    pub older_than_milliseconds: Option<Age>,
}

/// What would happen: of each list at most 20.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PruneShown {
    /// Claims that would go.
    #[schemars(length(max = 20))]
    pub candidates: Vec<ClaimItem>,
    /// Claims that are passed over.
    #[schemars(length(max = 20))]
    pub skipped: Vec<Skipped>,
    /// How many there are in all.
    pub totals: PruneTotals,
}

/// What happened: of each list at most 20.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PruneDone {
    /// Claims that are gone.
    #[schemars(length(max = 20))]
    pub deleted_claim_ids: Vec<Id>,
    /// Claims that were passed over.
    #[schemars(length(max = 20))]
    pub skipped: Vec<Skipped>,
    /// How many there are in all.
    pub totals: PruneTotals,
}

impl Change for ClaimsPrune {
    const EFFECT: Effect = Effect::Destructive;
    type Action = PruneAction;
    type Input = PruneInput;
    type Shown = PruneShown;
    type Done = PruneDone;

    fn example() -> Example<PruneInput> {
        Example::of(PruneInput { older_than_milliseconds: Age::new(WEEK) })
    }
    fn example_target() -> NoTarget {
        NoTarget {}
    }
    fn request(input: PruneInput) -> PruneProposal {
        let age = input.older_than_milliseconds.or(Age::new(WEEK)).expect("a week is under ten years");
        PruneProposal { older_than_milliseconds: age, most_shown: Some(SHOWN) }
    }
    fn shown(receipt: Receipt<PruneProposal, Pruned>) -> PruneShown {
        let seen = receipt.observed;
        let totals = totals(&seen);
        PruneShown {
            candidates: seen.candidates.into_iter().map(|c| super::item(c.claim)).collect(),
            skipped: seen.skipped,
            totals,
        }
    }
    fn done(result: Pruned) -> PruneDone {
        let totals = totals(&result);
        PruneDone { deleted_claim_ids: result.deleted_claim_ids, skipped: result.skipped, totals }
    }
    fn preview_summary(shown: &PruneShown) -> String {
        let PruneTotals { candidates, skipped, .. } = shown.totals;
        format!("{} would be deleted; {skipped} skipped.", count(candidates))
    }
    fn execute_summary(done: &Executed<PruneDone>) -> String {
        let PruneTotals { deleted, skipped, .. } = done.result.totals;
        let text = format!("{} deleted; {skipped} skipped.", count(deleted));
        if done.replayed { format!("As recorded: {text}") } else { text }
    }
}

fn count(claims: usize) -> String {
    if claims == 1 { "1 claim".to_owned() } else { format!("{claims} claims") }
}

fn totals(pruned: &Pruned) -> PruneTotals {
    pruned.totals.unwrap_or(PruneTotals {
        candidates: pruned.candidates.len(),
        deleted: pruned.deleted_claim_ids.len(),
        skipped: pruned.skipped.len(),
    })
}
