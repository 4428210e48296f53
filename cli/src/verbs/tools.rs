//! `portreeve tools`.

use crate::report::{Report, fault};
use crate::table::table;
use portreeve_registry::{Advertised, Failure, Registry};
use serde_json::{Value, json};

const AFTER: &str = "\
Examples:
  portreeve tools
  portreeve tools --markdown > docs/tools.md
  portreeve tools --json | jq '.data.tools[].inputSchema'";

/// List the tools that agents get, as this program has them; works without the daemon
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// As a page of documentation
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, Failure> {
    let registry =
        portreeve_domains::load().map_err(|error| fault(format!("the tools break a rule: {error}")))?;
    let tools: Vec<Value> = registry.iter().map(describe).collect();
    let text = if args.markdown { markdown(&registry) } else { list(&registry) };
    Ok(Report::done(&json!({ "tools": tools }), text))
}

fn describe(tool: &Advertised) -> Value {
    let hints = tool.hints();
    json!({
        "name": tool.name(),
        "domain": tool.domain(),
        "kind": tool.kind().as_str(),
        "description": tool.description(),
        "readOnly": hints.read_only,
        "destructive": hints.destructive,
        "idempotent": hints.idempotent,
        "inputSchema": tool.input_schema(),
        "outputSchema": tool.output_schema(),
        "example": tool.example(),
    })
}

fn list(registry: &Registry) -> String {
    let rows = registry
        .iter()
        .map(|tool| {
            let first = tool.description().split(". ").next().unwrap_or_default();
            vec![
                tool.name().to_owned(),
                tool.kind().as_str().to_owned(),
                first.trim_end_matches('.').to_owned(),
            ]
        })
        .collect();
    table(&["TOOL", "KIND", "WHAT IT DOES"], rows, "There are no tools.")
}

fn markdown(registry: &Registry) -> String {
    let mut text = "# Tools\n".to_owned();
    let mut domain = "";
    for tool in registry.iter() {
        if tool.domain() != domain {
            domain = tool.domain();
            text.push_str(&format!("\n## {domain}\n"));
        }
        let hints = tool.hints();
        let effect = match (hints.read_only, hints.destructive) {
            (true, _) => "changes nothing",
            (_, true) => "may be hard to undo",
            _ => "changes something",
        };
        text.push_str(&format!("\n### `{}`\n\n", tool.name()));
        text.push_str(&format!("*{}; {effect}.* {}\n", tool.kind().as_str(), tool.description()));
        text.push_str(&inputs(tool));
    }
    text.trim_end().to_owned()
}

fn inputs(tool: &Advertised) -> String {
    let schema = tool.input_schema();
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty())
    else {
        return "\nTakes nothing.\n".to_owned();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let mut text = "\n| input | | |\n|---|---|---|\n".to_owned();
    for (name, property) in properties {
        let needed = required.is_some_and(|all| all.iter().any(|one| one == name.as_str()));
        let kind = property.get("type").and_then(Value::as_str).unwrap_or("any");
        let about =
            property.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
        let about = about.replace('|', "\\|");
        text.push_str(&format!(
            "| `{name}` | {kind}{} | {about} |\n",
            if needed { ", required" } else { "" }
        ));
    }
    text
}
