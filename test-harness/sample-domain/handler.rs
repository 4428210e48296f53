//! `GET /v1/sample/words` and `GET /v1/sample/words/{word}`.

use crate::fault::not_found;
use crate::handler::{Asked, serve};
use portreeve_registry::{Cut, Failure, PageOf};
use portreeve_sample::{GetWord, ListWords, Word, WordFilter, WordRef};

serve!(inline GetWord => get);
serve!(list ListWords => list);

/// By the alphabet, as the list's key asks.
const WORDS: [(&str, Option<&str>); 4] = [
    ("claim", Some("a wish for a port")),
    ("lease", None),
    ("port", Some("a number to listen on")),
    ("run", None),
];

fn word((word, meaning): (&str, Option<&str>)) -> Word {
    Word { word: word.to_owned(), letters: word.len() as u32, meaning: meaning.map(str::to_owned) }
}

fn get(_: &Asked<'_>, request: WordRef) -> Result<Word, Failure> {
    let found = WORDS.into_iter().find(|(word, _)| *word == request.word);
    found.map(word).ok_or_else(|| not_found("Word", request.word, "sample_words_list", "portreeve tools"))
}

fn list(_: &Asked<'_>, filter: &WordFilter, cut: &Cut<String>) -> Result<PageOf<Word>, Failure> {
    let wanted = |word: &Word| {
        cut.after().is_none_or(|after| word.word > *after)
            && filter.letters.is_none_or(|letters| word.letters == letters)
    };
    cut.page(WORDS.into_iter().map(word).filter(wanted).map(|word| Ok((word.word.clone(), word))))
}
