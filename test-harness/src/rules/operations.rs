//! Operations: what is declared, what is served, what agents can reach, and what the daemon says it can do.

use super::excused;
use portreeve_registry::{ClassName, Method, OperationEntry, Registry, operations};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The list of served operations that no tool asks, each with its reason.
pub const WITHOUT_TOOL: &str = "without-tool.txt";

type Place = (Method, &'static str);

fn words((method, path): Place) -> String {
    format!("{} {path}", method.as_str())
}

fn place(operation: &OperationEntry) -> Place {
    (operation.method, operation.path)
}

/// What the daemon serves.
pub fn served() -> BTreeSet<Place> {
    portreeve_daemon::HANDLERS.iter().map(|handler| (handler.method, handler.path)).collect()
}

/// Every operation in a line: method and path, capability, class, whether it is served, who asks it.
pub fn text(registry: &Registry) -> String {
    let served = served();
    let mut text = String::new();
    for operation in operations() {
        let at = place(operation);
        let tools: Vec<&str> = registry
            .iter()
            .filter(|tool| tool.face().operation == Some(at))
            .map(|tool| tool.name())
            .collect();
        let state = if served.contains(&at) { "served" } else { "declared" };
        let class = match operation.class {
            ClassName::Routine => "routine",
            ClassName::CredentialBearing => "credential",
            ClassName::Consequential => "consequential",
            ClassName::Withheld => "withheld",
        };
        let capability = if operation.capability.is_empty() { "-" } else { operation.capability };
        let line = format!("{:<44} {capability:<24} {class:<14} {state:<9} {}", words(at), tools.join(", "));
        writeln!(text, "{}", line.trim_end()).expect("a string takes all");
    }
    text
}

/// Operations whose declarations contradict each other or protocol 1.
pub fn malformed(_: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen: BTreeMap<Place, &str> = BTreeMap::new();
    for operation in operations() {
        let (at, path) = (place(operation), operation.path);
        if let Some(first) = seen.insert(at, operation.domain) {
            faults.push(format!("{}: declared by {first} and by {}", words(at), operation.domain));
        }
        let plain = |part: &str| {
            let inner = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(part);
            !inner.is_empty() && inner.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if !path.strip_prefix("/v1/").is_some_and(|rest| rest.split('/').all(plain)) {
            faults.push(format!("{}: a path is /v1/ and plain words or {{fields}}", words(at)));
        }
    }
    faults
}

/// Tools that the daemon would not answer.
pub fn unserved(registry: &Registry) -> Vec<String> {
    let served = served();
    let faults = registry.iter().filter_map(|tool| {
        let operation = tool.face().operation?;
        let declared = operations().iter().any(|declared| place(declared) == operation);
        match (declared, served.contains(&operation)) {
            (false, _) => Some(format!("{}: {} is in no operation! list", tool.name(), words(operation))),
            (_, false) => {
                Some(format!("{}: the daemon has no handler for {}", tool.name(), words(operation)))
            }
            _ => None,
        }
    });
    faults.collect()
}

/// Handlers of what nobody declared, and handlers of one and the same operation.
pub fn undeclared(_: &Registry) -> Vec<String> {
    let declared: BTreeSet<Place> = operations().into_iter().map(place).collect();
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for handler in portreeve_daemon::HANDLERS {
        let at = (handler.method, handler.path);
        if !declared.contains(&at) {
            faults.push(format!("{}: served, but declared by no domain", words(at)));
        }
        if !seen.insert(at) {
            faults.push(format!("{}: served twice", words(at)));
        }
    }
    faults
}

/// Served operations out of every agent's reach, without a reason.
///
/// A withheld one says its reason where it is declared. A consequential one in a single step is what an action's
/// pair stands in for: no kind of tool accepts it.
pub fn unreachable(registry: &Registry) -> Vec<String> {
    let asked: BTreeSet<Place> = registry.iter().filter_map(|tool| tool.face().operation).collect();
    let served = served();
    let out_of_reach = operations().into_iter().filter(|operation| {
        let direct = operation.class == ClassName::Consequential
            && !operation.path.ends_with("/preview")
            && !operation.path.ends_with("/execute");
        let explained = direct || operation.withheld.is_some();
        served.contains(&place(operation)) && !asked.contains(&place(operation)) && !explained
    });
    excused(out_of_reach.map(|operation| words(place(operation))).collect(), WITHOUT_TOOL)
}

/// What is wrong with the capabilities that a daemon announces: one whose operations aren't all served, one that is
/// missing though they are, and one that a tool needs and never gets.
pub fn announced(registry: &Registry, announced: &[String]) -> Vec<String> {
    judge(registry, &operations(), &served(), announced)
}

fn judge(
    registry: &Registry,
    declared: &[&OperationEntry],
    served: &BTreeSet<Place>,
    announced: &[String],
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut by_capability: BTreeMap<&str, Vec<&OperationEntry>> = BTreeMap::new();
    for operation in declared.iter().filter(|operation| !operation.capability.is_empty()) {
        by_capability.entry(operation.capability).or_default().push(operation);
    }
    for (capability, operations) in by_capability {
        let missing: Vec<String> =
            operations.iter().map(|o| place(o)).filter(|at| !served.contains(at)).map(words).collect();
        let said = announced.iter().any(|said| said == capability);
        if said && !missing.is_empty() {
            faults.push(format!("{capability} is announced without {}", missing.join(", ")));
        }
        if !said && missing.is_empty() {
            faults
                .push(format!("{capability} is served and not announced: see KNOWN in daemon/src/health.rs"));
        }
        let needing = registry
            .iter()
            .find(|tool| operations.iter().any(|operation| tool.face().operation == Some(place(operation))));
        if let (false, Some(tool)) = (said, needing) {
            faults.push(format!("{} needs {capability}, which isn't announced", tool.name()));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(path: &'static str) -> OperationEntry {
        OperationEntry {
            domain: "weather",
            method: Method::Get,
            path,
            capability: "weather-v1",
            class: ClassName::Routine,
            withheld: None,
        }
    }

    #[test]
    fn a_capability_stands_for_all_of_its_operations() {
        let registry = portreeve_domains::load().expect("a registry");
        let (one, other) = (operation("/v1/sky"), operation("/v1/rain"));
        let declared = [&one, &other];
        let (both, half) = (declared.map(place).into(), BTreeSet::from([place(&one)]));
        let (said, unsaid) = (["weather-v1".to_owned()], []);
        let faults = |served: &BTreeSet<Place>, said: &[String]| judge(&registry, &declared, served, said);
        assert_eq!(faults(&both, &said), [""; 0]);
        assert_eq!(faults(&half, &unsaid), [""; 0]);
        assert_eq!(faults(&half, &said), ["weather-v1 is announced without GET /v1/rain"]);
        assert_eq!(faults(&both, &unsaid).len(), 1);
    }
}
