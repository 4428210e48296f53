//! The registry's tools as MCP tools.
//!
//! Made from what is linked in and nothing else, so that listing needs neither the daemon nor the disk.

use std::collections::HashMap;

use portreeve_registry::{Advertised, LoadError, Registry};
use rmcp::model::{Tool, ToolAnnotations};

use crate::toolset::Toolset;

/// The tools that this bridge advertises.
#[derive(Debug)]
pub(crate) struct Tools {
    registry: Registry,
    shown: Vec<Tool>,
    names: HashMap<String, usize>,
}

impl Tools {
    /// Those of the linked domains that are in `set`.
    ///
    /// # Errors
    /// If what is linked breaks a rule of the registry.
    pub(crate) fn load(set: &Toolset) -> Result<Self, LoadError> {
        let registry = portreeve_domains::load()?;
        let shown: Vec<Tool> = registry.iter().filter(|tool| set.has(tool)).map(mcp_tool).collect();
        let names = shown.iter().enumerate().map(|(index, tool)| (tool.name.to_string(), index)).collect();
        Ok(Self { registry, shown, names })
    }

    /// What `tools/list` answers, in the registry's order.
    pub(crate) fn shown(&self) -> &[Tool] {
        &self.shown
    }

    /// Whether the bridge advertises `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The tool that a host calls by `name`, if it is advertised.
    pub(crate) fn find(&self, name: &str) -> Option<&Advertised> {
        if self.has(name) { self.registry.find(name) } else { None }
    }
}

fn mcp_tool(tool: &Advertised) -> Tool {
    let hints = tool.hints();
    let annotations = ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(false);
    let [input, output] = tool.shared_schemas();
    Tool::new(tool.name().to_owned(), tool.description().to_owned(), input)
        .with_raw_output_schema(output)
        .with_annotations(annotations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_outside_the_set_is_not_found() {
        let tools = Tools::load(&"leases".parse().expect("a toolset")).expect("a registry");
        assert!(tools.find("leases_acquire").is_some());
        assert!(tools.find("claims_list").is_none());
        assert!(tools.shown().iter().all(|tool| tool.name.starts_with("leases_")));
    }

    #[test]
    fn hints_follow_the_kind() {
        let tools = Tools::load(&Toolset::default()).expect("a registry");
        let hints = |name: &str| {
            let tool = tools.shown().iter().find(|tool| tool.name == name).expect("advertised");
            let hints = tool.annotations.clone().expect("annotated");
            (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        };
        assert_eq!(hints("ports_get"), (Some(true), Some(false), Some(true), Some(false)));
        assert_eq!(hints("leases_acquire"), (Some(false), Some(false), Some(true), Some(false)));
    }
}
