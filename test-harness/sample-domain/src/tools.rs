//! The tools of this domain.

use crate::{GetWord, ListWords, Word, WordFilter, WordRef};
use portreeve_registry::{Collection, Example, Page, Read, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Show one word and what it means.
    pub read SampleWordsGet = "sample_words_get"
}
impl Read for SampleWordsGet {
    type Operation = GetWord;
    type Input = WordRef;
    type Output = Word;
    fn example() -> Example<WordRef> {
        Example::of(WordRef { word: "port".into() })
    }
    fn request(input: WordRef) -> WordRef {
        input
    }
    fn output(reply: Word) -> Word {
        reply
    }
    fn summary(word: &Word) -> String {
        match &word.meaning {
            Some(meaning) => format!("{}: {meaning}.", word.word),
            None => format!("Nobody said what {} means.", word.word),
        }
    }
}

/// Narrows the list of words.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WordsListFilter {
    /// Only words of so many letters.
    pub letters: Option<u32>,
}

/// One word in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WordItem {
    /// The word itself.
    pub word: String,
    /// How many letters it has.
    pub letters: u32,
}

tool! {
    /// List the words there are, by the alphabet. What one means: sample_words_get.
    pub collection SampleWordsList = "sample_words_list"
}
impl Collection for SampleWordsList {
    type Listing = ListWords;
    type Filter = WordsListFilter;
    type Item = WordItem;
    fn example() -> Example<WordsListFilter> {
        Example::of(WordsListFilter { letters: Some(4) })
    }
    fn filter(filter: WordsListFilter) -> WordFilter {
        WordFilter { letters: filter.letters }
    }
    fn item(word: Word) -> WordItem {
        WordItem { word: word.word, letters: word.letters }
    }
    fn summary(page: &Page<WordItem>) -> String {
        match page.items() {
            [] => "No word has so many letters.".to_owned(),
            items => format!("{} words.", items.len()),
        }
    }
}
