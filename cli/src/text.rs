//! Text for a terminal: what others wrote can't move the cursor, and colour is used only where it shows.

use std::io::IsTerminal as _;

/// `text` with everything escaped that a terminal would act on rather than show: control characters, and the
/// marks that turn the direction of writing.
pub(crate) fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// [`safe`], line by line: for text of our own with foreign parts in it.
pub(crate) fn safe_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(safe).collect();
    lines.join("\n")
}

/// Emphasis for headings, where `stream` is a terminal that wants it.
pub(crate) fn bold(text: &str) -> String {
    if wants_colour() { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// no-color.org: any value but an empty one turns colour off.
fn wants_colour() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        && std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_comes_through() {
        assert_eq!(safe("a\u{1b}[2Jb\r\n\u{9b}31m\u{7f}"), "a\\u{1b}[2Jb\\r\\n\\u{9b}31m\\u{7f}");
        assert_eq!(safe("in\u{202e}txt.exe"), "in\\u{202e}txt.exe");
        assert_eq!(safe("größe – ok"), "größe – ok");
        assert_eq!(safe_lines("one\ntwo\u{7}"), "one\ntwo\\u{7}");
    }
}
