//! The tools that the bridge answers itself.
//!
//! Their declarations are in the domains; a test fails on one that has no answer here.

mod custody_extend;
mod diagnostics_get;

use portreeve_diagnostics::DiagnosticsGet;
use portreeve_leases::LeasesCustodyExtend;
use portreeve_registry::{Advertised, Answer, Args, Described, Failure};

use crate::call::unknown_tool;
use crate::house::Bridge;

/// Which of them.
#[derive(Debug, Clone, Copy)]
enum Which {
    DiagnosticsGet,
    LeasesCustodyExtend,
}

fn which(name: &str) -> Option<Which> {
    [(DiagnosticsGet::NAME, Which::DiagnosticsGet), (LeasesCustodyExtend::NAME, Which::LeasesCustodyExtend)]
        .into_iter()
        .find(|(declared, _)| declared.to_string() == name)
        .map(|(_, which)| which)
}

/// Answers a local tool.
pub(crate) async fn answer(bridge: &Bridge, tool: &Advertised, args: Args) -> Result<Answer, Failure> {
    match which(tool.name()) {
        Some(Which::DiagnosticsGet) => diagnostics_get::answer(bridge, args).await,
        Some(Which::LeasesCustodyExtend) => custody_extend::answer(bridge, args),
        None => Err(unknown_tool(tool.name())),
    }
}

#[cfg(test)]
mod tests {
    use portreeve_registry::Behavior;

    use super::*;

    #[test]
    fn every_local_tool_is_answered() {
        let registry = portreeve_domains::load().expect("a registry");
        let local = registry.iter().filter(|tool| matches!(tool.face().behavior, Behavior::Local { .. }));
        for tool in local {
            assert!(which(tool.name()).is_some(), "{} has no answer in bridge/src/local", tool.name());
        }
    }
}
