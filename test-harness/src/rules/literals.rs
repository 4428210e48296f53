//! What the sources say to people and agents: tools and commands that text names exist.
//!
//! Next steps are written where a failure is made, in every room. So the rule reads the sources: a word in a string
//! literal that looks like a tool's name (`<domain>_…`) is one, and `portreeve <verb> …` is a command.
//! What only tests say is left out, and so is the command line's own help, which is prose about itself.

use super::workspace;
use portreeve_registry::Registry;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms whose text reaches people and agents.
const ROOMS: [&str; 5] = ["registry/src", "domains", "client/src", "bridge/src", "daemon/src"];

/// Every string literal of the rooms' sources, doc comments of tools included, with its file.
///
/// # Panics
/// If a source can't be read.
pub fn of_sources() -> Vec<(PathBuf, String)> {
    let mut literals = Vec::new();
    for room in ROOMS {
        files(&workspace().join(room), &mut |path| {
            let source = fs::read_to_string(path).expect("sources are text");
            let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            literals.extend(literals_of(source).into_iter().map(|text| (path.to_owned(), text)));
        });
    }
    literals
}

fn files(folder: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).expect("a source folder can be read") {
        let path = entry.expect("a source folder can be read").path();
        if path.is_dir() {
            files(&path, visit);
        } else if path.extension().is_some_and(|end| end == "rs") && !is_of_tests(&path) {
            visit(&path);
        }
    }
}

fn is_of_tests(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name == "tests" || name.ends_with("_tests") || path.components().any(|step| step.as_os_str() == "tests")
}

/// The string literals and doc comments of Rust source.
fn literals_of(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let bytes = source.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            let line = rest.lines().next().unwrap_or_default();
            if line.starts_with("///") {
                found.push(line.trim_start_matches('/').trim().to_owned());
            }
            at += line.len().max(1);
        } else if let Some((text, length)) = raw(rest) {
            found.push(text);
            at += length;
        } else if rest.starts_with('"') {
            let (text, length) = quoted(rest);
            found.push(text);
            at += length;
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") || rest.starts_with("b'\"'") {
            at += rest.find("\"'").map_or(1, |end| end + 2);
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

/// A raw literal at the start of `rest`: its text, and its length with the quotes.
fn raw(rest: &str) -> Option<(String, usize)> {
    let hashes = rest.strip_prefix('r')?.bytes().take_while(|b| *b == b'#').count();
    let open = 1 + hashes + 1;
    if rest.as_bytes().get(open - 1) != Some(&b'"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let end = rest[open..].find(&close)?;
    Some((rest[open..open + end].to_owned(), open + end + close.len()))
}

/// The same of a plain literal; an escape counts as a space, so that it parts words.
fn quoted(rest: &str) -> (String, usize) {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, at + 1),
            '\\' => {
                chars.next();
                text.push(' ');
            }
            c => text.push(c),
        }
    }
    (text, rest.len())
}

/// Words that look like tools and are none.
pub fn unknown_tools(registry: &Registry) -> Vec<String> {
    let domains: Vec<String> = portreeve_domains::ALL.iter().map(|d| format!("{}_", d.name())).collect();
    let mut faults = Vec::new();
    for (file, text) in of_sources() {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.' && c != '*');
        for word in
            words.map(|word| word.trim_end_matches('.')).filter(|word| looks_like_a_tool(word, &domains))
        {
            let pair = ["_preview", "_execute"].map(|face| registry.find(&format!("{word}{face}")).is_some());
            // `leases_*` names all of a domain, a change's own name both of its faces.
            if registry.find(word).is_none() && pair != [true; 2] && !word.ends_with("_*") {
                let file = file.strip_prefix(workspace()).unwrap_or(&file).display();
                faults.push(format!("{file}: there is no tool {word}"));
            }
        }
    }
    faults.sort();
    faults.dedup();
    faults
}

fn looks_like_a_tool(word: &str, domains: &[String]) -> bool {
    !word.contains('.') && domains.iter().any(|domain| word.len() > domain.len() && word.starts_with(domain))
}

/// The commands that text names, each with a file that does: the words after `portreeve` that are verbs.
pub fn commands() -> BTreeMap<Vec<String>, PathBuf> {
    let mut commands = BTreeMap::new();
    for (file, text) in of_sources() {
        for (at, _) in text.match_indices("portreeve ") {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_ascii_alphanumeric() || "-_/.".contains(c)) {
                continue;
            }
            let rest = text[at + "portreeve ".len()..].split(' ');
            let verbs = rest.map_while(|word| {
                let bare = word.trim_end_matches([';', ',', '.', ')', '`', '"', '\'', ':']);
                let verb = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_lowercase());
                verb.then(|| (bare.to_owned(), bare.len() == word.len()))
            });
            let mut command = Vec::new();
            for (verb, goes_on) in verbs {
                command.push(verb);
                if !goes_on {
                    break;
                }
            }
            if !command.is_empty() {
                commands.entry(command).or_insert_with(|| file.clone());
            }
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_found_and_code_is_not() {
        let source = r###"
            /// A doc of ports_get.
            // no comment
            let a = "one \"two\" three"; let b = '"'; let c = r#"raw "x" y"#; let d = b'"';
            call(ports_nowhere, "last");
        "###;
        assert_eq!(literals_of(source), ["A doc of ports_get.", "one  two  three", "raw \"x\" y", "last"]);
    }

    #[test]
    fn only_words_of_a_domain_look_like_tools() {
        let domains = ["ports_".to_owned()];
        assert!(looks_like_a_tool("ports_gone", &domains));
        for other in ["ports_", "ports", "supports_it", "ports_get.name"] {
            assert!(!looks_like_a_tool(other, &domains), "{other}");
        }
    }
}
