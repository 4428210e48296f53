//! What the tools cost every conversation: bytes of `tools/list`, and of the part that models read.

use serde_json::{Value, json};
use std::fmt::Write as _;

const KB: usize = 1024;
/// `tools/list` in all.
const LIST: usize = 100 * KB;
/// Name, description and input schema of all tools: what models see.
const SEEN: usize = 26 * KB;
/// The same of one tool.
const SEEN_OF_ONE: usize = 2 * KB + KB / 2;
/// The same of the set `core`.
const SEEN_OF_CORE: usize = 8 * KB;

fn bytes(tool: &Value) -> usize {
    tool.to_string().len()
}

fn seen(tool: &Value) -> usize {
    let part = |name: &str| (name.to_owned(), tool[name].clone());
    let seen = ["name", "description", "inputSchema"].map(part);
    json!(seen.into_iter().collect::<serde_json::Map<_, _>>()).to_string().len()
}

/// One line a tool, largest first, and the sums.
pub fn table(tools: &[Value]) -> String {
    let mut rows: Vec<(usize, usize, &str)> =
        tools.iter().map(|t| (seen(t), bytes(t), t["name"].as_str().unwrap_or_default())).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.0, row.1)));
    let mut text = "   seen  listed  tool\n".to_owned();
    let sum = rows.iter().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    for (seen, listed, name) in rows.into_iter().chain([(sum.0, sum.1, "in all")]) {
        writeln!(text, "{seen:>7} {listed:>7}  {name}").expect("a string takes all");
    }
    text
}

/// What is over its budget.
pub fn over(tools: &[Value], core: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |what: &str, found: usize, most: usize| {
        if found > most {
            faults.push(format!("{what}: {found} bytes, {} more than {most}", found - most));
        }
    };
    check("tools/list", tools.iter().map(bytes).sum(), LIST);
    check("what models see of all tools", tools.iter().map(seen).sum(), SEEN);
    check("what models see of the set core", core.iter().map(seen).sum(), SEEN_OF_CORE);
    for tool in tools {
        check(tool["name"].as_str().unwrap_or_default(), seen(tool), SEEN_OF_ONE);
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(bytes: usize) -> Value {
        json!({"name": "a", "description": "x".repeat(bytes), "inputSchema": {}, "outputSchema": {}})
    }

    #[test]
    fn each_budget_is_kept_apart() {
        assert_eq!(over(&[tool(2000)], &[tool(2000)]), [""; 0]);
        assert_eq!(over(&[tool(2600)], &[]).len(), 1, "one tool");
        assert_eq!(over(&vec![tool(2000); 14], &[]).len(), 1, "all that models see");
        assert_eq!(over(&[], &vec![tool(2000); 5]).len(), 1, "core");
        let answer = json!({"name": "a", "inputSchema": {}, "outputSchema": "x".repeat(101 * KB)});
        assert_eq!(over(&[answer], &[]).len(), 1, "the list");
    }
}
