//! The advertised surface as text: what is checked in, so that a tool lost at link time is a diff.

use portreeve_registry::{Advertised, Hints, Registry};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// One line a tool: domain, name, kind, hints, operation.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    for tool in registry.iter() {
        let operation = match tool.face().operation {
            Some((method, path)) => format!("{} {path}", method.as_str()),
            None => "in the bridge".to_owned(),
        };
        let (domain, name, kind) = (tool.domain(), tool.name(), tool.kind().as_str());
        writeln!(text, "{domain:<12} {name:<28} {kind:<10} {:<18} {operation}", hints(tool))
            .expect("a string takes all");
    }
    text
}

fn hints(tool: &Advertised) -> String {
    let Hints { read_only, destructive, idempotent } = tool.hints();
    let words = [(read_only, "reads"), (destructive, "destroys"), (idempotent, "repeatable")];
    words.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect::<Vec<_>>().join(",")
}

/// The tools as `tools/list` shows them.
pub fn listed(registry: &Registry) -> Vec<Value> {
    let shown = |tool: &Advertised| {
        let Hints { read_only, destructive, idempotent } = tool.hints();
        json!({
            "name": tool.name(),
            "description": tool.description(),
            "inputSchema": tool.input_schema(),
            "outputSchema": tool.output_schema(),
            "annotations": {
                "readOnlyHint": read_only,
                "destructiveHint": destructive,
                "idempotentHint": idempotent,
                "openWorldHint": false,
            },
        })
    };
    registry.iter().map(shown).collect()
}
