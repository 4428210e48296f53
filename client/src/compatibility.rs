//! Whether this client and that daemon fit together, and which of the two is to be restarted if they don't.

use portreeve_diagnostics::{Health, ProtocolRange};
use portreeve_registry::{Failure, FailureClass, Method, operations};
use serde_json::json;
use std::collections::BTreeSet;

/// The protocols that this client speaks.
pub const PROTOCOL: ProtocolRange = ProtocolRange { minimum: 1, maximum: 1 };

/// What lists ask for beyond the capability of their operation.
const PAGED: &str = "paged-lists-v1";

/// Both sides, as they are found over a fresh connection.
#[derive(Clone, Debug)]
pub struct Compatibility {
    /// This program's version.
    pub client_version: String,
    /// The protocols that this client speaks.
    pub client_protocol: ProtocolRange,
    /// What the daemon says of itself.
    pub health: Health,
    /// What the tools that are linked into this program need and the daemon can't do, sorted.
    pub missing: Vec<String>,
}

impl Compatibility {
    pub(crate) fn new(client_version: &str, health: Health) -> Compatibility {
        let mut needed = needed_by_tools();
        needed.insert(PAGED);
        let missing = needed
            .into_iter()
            .filter(|capability| !capability.is_empty() && !announces(&health, capability))
            .map(str::to_owned)
            .collect();
        let client_version = client_version.to_owned();
        Compatibility { client_version, client_protocol: PROTOCOL, health, missing }
    }

    /// Whether the two speak a common protocol.
    pub fn speaks(&self) -> bool {
        overlap(self.health.protocol)
    }

    /// Whether an operation that needs `capability` can be asked.
    ///
    /// # Errors
    /// `compat.protocol_incompatible`, naming both versions, what is missing and which side to restart; or
    /// `store.corrupt` where the daemon does without because its store is damaged.
    pub fn check(&self, capability: &str) -> Result<(), Failure> {
        check(&self.client_version, &self.health, capability)
    }
}

/// The capabilities of the operations behind the tools. What no tool asks for is nobody's loss.
fn needed_by_tools() -> BTreeSet<&'static str> {
    // A set of tools that breaks a rule is the harness's to find; the bridge doesn't start with it.
    let Ok(registry) = portreeve_domains::load() else { return BTreeSet::new() };
    let asked: Vec<(Method, &str)> = registry.iter().filter_map(|tool| tool.face().operation).collect();
    operations()
        .iter()
        .filter(|operation| asked.contains(&(operation.method, operation.path)))
        .map(|operation| operation.capability)
        .collect()
}

fn announces(health: &Health, capability: &str) -> bool {
    health.capabilities.iter().any(|announced| announced == capability)
}

fn overlap(daemon: ProtocolRange) -> bool {
    daemon.minimum <= PROTOCOL.maximum && PROTOCOL.minimum <= daemon.maximum
}

pub(crate) fn check(client_version: &str, health: &Health, capability: &str) -> Result<(), Failure> {
    if !overlap(health.protocol) {
        return Err(incompatible(client_version, Some(&health.software_version), health.protocol));
    }
    if capability.is_empty() || announces(health, capability) {
        return Ok(());
    }
    if let Some(store) = &health.store {
        let text = format!("PortReeve's store is out of order: {store}");
        let command = Some("portreeve doctor".into());
        return Err(Failure::new(FailureClass::StoreCorrupt, text)
            .outcome(portreeve_registry::Outcome::NotStarted)
            .by(None, command));
    }
    let daemon = &health.software_version;
    let text = format!(
        "the daemon (version {daemon}) can't do {capability}, which this program (version {client_version}) needs"
    );
    let failure = restart_daemon(Failure::new(FailureClass::ProtocolIncompatible, text));
    Err(facts(failure, client_version, Some(daemon), health.protocol)
        .detail("missingCapabilities", json!([capability])))
}

/// Both versions, both protocols, and which side is the older one.
pub(crate) fn incompatible(client_version: &str, daemon: Option<&str>, protocol: ProtocolRange) -> Failure {
    let text = format!(
        "this program (version {client_version}) speaks protocol {}, the daemon (version {}) protocol {}",
        spoken(PROTOCOL),
        daemon.unwrap_or("unknown"),
        spoken(protocol),
    );
    let failure = Failure::new(FailureClass::ProtocolIncompatible, text);
    let failure = if protocol.maximum < PROTOCOL.minimum {
        restart_daemon(failure)
    } else {
        failure.next(
            "this program is the older side: update it, then restart it (a bridge restarts with its host)",
        )
    };
    facts(failure, client_version, daemon, protocol).detail("missingCapabilities", json!([]))
}

fn restart_daemon(failure: Failure) -> Failure {
    failure
        .next("the daemon is the older side: update it, then stop and start it")
        .by(None, Some("portreeve stop; portreeve serve".into()))
}

fn facts(failure: Failure, client: &str, daemon: Option<&str>, protocol: ProtocolRange) -> Failure {
    let negotiated = if overlap(protocol) { json!(PROTOCOL.maximum) } else { json!(null) };
    failure
        .detail("compatible", false)
        .detail("negotiatedProtocol", negotiated)
        .detail("clientVersion", client)
        .detail("daemonVersion", daemon)
        .detail("clientProtocol", json!(PROTOCOL))
        .detail("daemonProtocol", json!(protocol))
}

fn spoken(range: ProtocolRange) -> String {
    if range.minimum == range.maximum {
        range.minimum.to_string()
    } else {
        format!("{} to {}", range.minimum, range.maximum)
    }
}
