//! What the daemon answers of words.

use portreeve_registry::{Listing, Routine, operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names one word.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WordRef {
    /// The word, in lower case.
    #[schemars(length(min = 1, max = 32))]
    pub word: String,
}

/// One word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Word {
    /// The word itself.
    pub word: String,
    /// How many letters it has.
    pub letters: u32,
    /// What it means; null where nobody said.
    pub meaning: Option<String>,
}

operation! {
    /// One word.
    pub GetWord: Routine = GET "/v1/sample/words/{word}" needs "observability-v1", WordRef => Word
}

/// Which words to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WordFilter {
    /// Only words of so many letters.
    pub letters: Option<u32>,
}

/// Lists words, in the order of the alphabet.
#[derive(Clone, Copy, Debug)]
pub enum ListWords {}
impl Listing for ListWords {
    const PATH: &'static str = "/v1/sample/words";
    const CAPABILITY: &'static str = "observability-v1";
    type Class = Routine;
    type Filter = WordFilter;
    type Row = Word;
    type Key = String;
}
operation! { list ListWords }
