//! History: what happened, in the order of commits, and who caused it.

#![warn(missing_docs)]

mod operations;
mod tools;

pub use operations::{HistoryFilter, HistoryKey, ListHistory, ListLogs, LogEntry, LogFilter, Order};
pub use tools::{HistoryItem, HistoryList, HistoryListFilter};

portreeve_registry::domain!("history");
