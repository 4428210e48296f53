//! Tables for people: columns without lines, as other command-line programs print them.

use crate::text::{bold, safe};
use comfy_table::Table;
use comfy_table::presets::NOTHING;

/// A table with these headings; `empty` is what is said when there is no row.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>, empty: &str) -> String {
    if rows.is_empty() {
        return empty.to_owned();
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(headings.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| safe(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.trim_fmt();
    match text.split_once('\n') {
        Some((head, rest)) => format!("{}\n{rest}", bold(head)),
        None => text,
    }
}

/// Names and values, one a line.
pub(crate) fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> =
        rows.iter().map(|(name, value)| format!("{name:width$}  {}", safe(value))).collect();
    lines.join("\n")
}

/// A value, or a dash.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
