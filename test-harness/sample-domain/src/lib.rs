//! Words: a domain that no product has, the one that `docs/adding-a-tool.md` adds.
//!
//! A test puts this folder under `domains/`, does what the guide says, and runs every rule.

#![warn(missing_docs)]

mod operations;
mod tools;

pub use operations::{GetWord, ListWords, Word, WordFilter, WordRef};
pub use tools::{SampleWordsGet, SampleWordsList, WordItem, WordsListFilter};

portreeve_registry::domain!("sample");
