//! Raw logs are kept from agents.

use portreeve_history::{LogEntry, LogFilter};
use portreeve_registry::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

domain!("sample");

/// The same list, for everybody.
enum ListTame {}
impl Listing for ListTame {
    const PATH: &'static str = "/v1/sample";
    const CAPABILITY: &'static str = "sample-v1";
    type Class = Routine;
    type Filter = LogFilter;
    type Row = LogEntry;
    type Key = u64;
}

/// No filter.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Said {}

/// A line.
#[derive(Serialize, JsonSchema)]
struct Line {
    /// What it says.
    message: String,
}

tool! {
    /// List the log.
    collection Lines = "sample_lines"
}
impl Collection for Lines {
    type Listing = portreeve_history::ListLogs;
    type Filter = Said;
    type Item = Line;
    fn example() -> Example<Said> {
        Example::of(Said {})
    }
    fn filter(_: Said) -> LogFilter {
        LogFilter {}
    }
    fn item(entry: LogEntry) -> Line {
        Line { message: entry.message }
    }
    fn summary(_: &Page<Line>) -> String {
        String::new()
    }
}

fn main() {}
