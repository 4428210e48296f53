//! Who is never ended: this daemon, whoever calls (the bridge, the command line), and all those above them, the
//! agent's host among them.

use crate::Daemon;
use crate::handler::Caller;
use portreeve_evidence::ProcessId;

/// Why these processes may not be ended on behalf of this caller.
pub(super) fn refusal(daemon: &Daemon, caller: &Caller, order: &[ProcessId]) -> Option<&'static str> {
    let source = daemon.evidence();
    let own = Some(std::process::id());
    for pid in [own, caller.pid.map(|pid| pid.get())].into_iter().flatten() {
        // A caller that is gone by now protects nobody; one that can't be read protects everybody.
        let Ok(lineage) = source.lineage(pid, None) else { return Some("process-unobservable") };
        if order.iter().any(|id| id.pid == pid || lineage.contains(*id)) {
            return Some("protected-process");
        }
    }
    None
}

/// Whether a process is this daemon or above it; `None` where that can't be told.
pub(super) fn above_us(daemon: &Daemon, id: ProcessId) -> Option<bool> {
    Some(daemon.evidence().lineage(std::process::id(), None).ok()?.contains(id))
}
