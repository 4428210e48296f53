//! `GET /v1/health` and `POST /v1/server/stop`: what this daemon is, and its end.

use crate::handler::{Asked, HANDLERS, serve};
use crate::wire::PROTOCOL;
use portreeve_diagnostics::{GetHealth, Health, Nothing, ProtocolRange, StopServer, Stopped};
use portreeve_records::Pid;
use portreeve_registry::{Failure, operations};

serve!(inline GetHealth => health);
serve!(inline StopServer => stop);

/// What a daemon can do, in the order in which it is announced.
const KNOWN: [&str; 12] = [
    "claims-v1",
    "two-phase-allocation-v1",
    "listener-evidence-v1",
    "reclamation-v1",
    "administration-v1",
    "observability-v1",
    "lifecycle-control-v1",
    "stack-definitions-v1",
    "stack-activations-v1",
    "stack-discovery-v1",
    "launcher-operations-v1",
    "mcp-foundations-v1",
];

/// What this daemon can do: a capability is announced once every operation that needs it is served.
pub(crate) fn capabilities() -> Vec<&'static str> {
    // Naming the list is what links every domain's operations.
    let _linked = portreeve_domains::ALL;
    let declared = operations();
    let served = |capability: &str| {
        let mut of_it = declared.iter().filter(|o| o.capability == capability).peekable();
        of_it.peek().is_some()
            && of_it.all(|o| HANDLERS.iter().any(|h| h.method == o.method && h.path == o.path))
    };
    KNOWN.into_iter().filter(|capability| served(capability)).chain(["paged-lists-v1"]).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "every handler may fail")]
fn health(asked: &Asked<'_>, _: Nothing) -> Result<Health, Failure> {
    let daemon = asked.daemon;
    Ok(Health {
        software_version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: ProtocolRange { minimum: PROTOCOL, maximum: PROTOCOL },
        capabilities: daemon.capabilities().iter().map(|&c| c.to_owned()).collect(),
        pid: Pid::new(std::process::id()).expect("a process has a pid"),
        mode: daemon.mode,
        store: daemon.broken().map(|failure| failure.message),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "every handler may fail")]
fn stop(asked: &Asked<'_>, _: Nothing) -> Result<Stopped, Failure> {
    let daemon = asked.daemon;
    let changed = daemon.stop.send_if_modified(|stop| !std::mem::replace(stop, true));
    Ok(Stopped { changed, at: daemon.clock().now().stamp() })
}
