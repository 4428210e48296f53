//! `diagnostics_get`: this bridge, the daemon as it is found now, what failed lately and what to do next.
//!
//! It answers whatever the daemon does; a daemon that can't be reached is its subject, not its failure.

use portreeve_client::{Compatibility, PROTOCOL};
use portreeve_diagnostics::{
    BridgeState, DaemonState, DiagnosticsGet, DiagnosticsOutput, Next, RecentFailure, Unreachable,
};
use portreeve_registry::{Answer, Args, Failure, FailureClass, NextStep, local_answer, local_input};

use crate::VERSION;
use crate::house::Bridge;

/// How many failures are shown.
const FAILURES: usize = 10;

pub(super) async fn answer(bridge: &Bridge, args: Args) -> Result<Answer, Failure> {
    local_input::<DiagnosticsGet>(args)?;
    let found = match bridge.daemon.probe() {
        Ok(client) => client.compatibility().await,
        Err(failure) => Err(failure),
    };
    let (daemon, next) = match &found {
        Ok(compatibility) => reached(compatibility),
        Err(failure) => not_reached(failure),
    };
    let output = DiagnosticsOutput { bridge: state(bridge), daemon, recent_failures: recent(bridge), next };
    local_answer::<DiagnosticsGet>(&output, false)
}

fn state(bridge: &Bridge) -> BridgeState {
    let socket = bridge.daemon.socket().map(|socket| socket.display().to_string());
    BridgeState {
        version: VERSION.to_owned(),
        run_id: bridge.run_id.to_string(),
        label: bridge.label.as_ref().map(|label| label.as_str().to_owned()),
        socket_path: socket.unwrap_or_default(),
        uptime_milliseconds: u64::try_from(bridge.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        credentials_held: bridge.custody.held() as u64,
        protocol: PROTOCOL,
    }
}

fn reached(compatibility: &Compatibility) -> (DaemonState, Next) {
    let health = &compatibility.health;
    let damaged = || {
        let store = health.store.as_ref()?;
        Some(Failure::new(FailureClass::StoreCorrupt, format!("the daemon's store is out of order: {store}")))
    };
    let missing = || compatibility.missing.first().and_then(|name| compatibility.check(name).err());
    let fault = compatibility.check("").err().or_else(damaged).or_else(missing);
    let state = DaemonState {
        reachable: true,
        compatible: compatibility.speaks(),
        reason: None,
        detail: fault.as_ref().map(|failure| failure.message.clone()),
        version: Some(health.software_version.clone()),
        pid: Some(health.pid),
        mode: Some(health.mode),
        protocol: Some(health.protocol),
        missing_capabilities: compatibility.missing.clone(),
    };
    let next = match fault {
        Some(failure) => next(failure.next),
        None => Next { text: "nothing is wrong; use the other tools".to_owned(), command: None },
    };
    (state, next)
}

fn not_reached(failure: &Failure) -> (DaemonState, Next) {
    let incompatible = failure.class == FailureClass::ProtocolIncompatible;
    let state = DaemonState {
        reachable: incompatible,
        compatible: false,
        reason: why(failure.class),
        detail: Some(failure.message.clone()),
        version: None,
        pid: None,
        mode: None,
        protocol: None,
        missing_capabilities: Vec::new(),
    };
    (state, next(failure.next.clone()))
}

fn why(class: FailureClass) -> Option<Unreachable> {
    match class {
        FailureClass::DaemonSocketAbsent => Some(Unreachable::SocketMissing),
        FailureClass::DaemonNotListening => Some(Unreachable::Refused),
        FailureClass::DaemonSocketDenied | FailureClass::DaemonPeerDenied => Some(Unreachable::WrongOwner),
        FailureClass::DaemonSandboxed => Some(Unreachable::BlockedBySandbox),
        FailureClass::ProtocolIncompatible => None,
        FailureClass::SocketDeadline | FailureClass::SocketLostAfterSend | FailureClass::SocketSendFailed => {
            Some(Unreachable::Timeout)
        }
        _ => Some(Unreachable::NotPortreeve),
    }
}

fn next(step: NextStep) -> Next {
    Next { text: step.text, command: step.command }
}

fn recent(bridge: &Bridge) -> Vec<RecentFailure> {
    bridge
        .record
        .newest(FAILURES)
        .into_iter()
        .map(|failed| RecentFailure {
            at: failed.at,
            request_id: failed.request_id,
            tool: failed.tool,
            class: failed.class.to_owned(),
            message: failed.message,
        })
        .collect()
}
