//! The bridge itself: what its calls share, and how each of them is answered and recorded once.

use std::sync::Arc;
use std::time::Instant;

use portreeve_records::{Id, Named};
use portreeve_registry::{Failure, FailureClass, Outcome, RequestId};
use rmcp::model::{CallToolResult, Tool};

use crate::advertise::Tools;
use crate::custody::Custody;
use crate::daemon::Daemon;
use crate::edge::closing::Reason;
use crate::record::Record;
use crate::server::{Call, Cut, House, Refusal};
use crate::{answer, call, policy, telling};

/// What an agent reads before its first call.
const INSTRUCTIONS: &str = "\
PortReeve knows which worktree, project and component has which TCP port on this machine, and hands out ports \
without collisions.

Before you start a server: leases_acquire with project, workspaceRoot (the absolute path of your worktree), \
component and, if you like, preferredPort. It answers a port and a credentialHandle. Start the server on that \
port, then call leases_confirm with the handle and the server's pid. If the server won't start, call \
leases_abandon. State running means that it is served already: use it. If the port isn't the one you asked for, \
insteadOf says why and whose it is; take the one you got.

Never kill a process to free a port. ports_get says whose it is, and how that is known.

What can't be taken back comes as two tools: _preview shows what would happen and answers a receiptId, _execute \
does just that. Handles work in this session only and for ten minutes (leases_custody_extend: up to sixty). \
Every call can be repeated; changed says whether it did anything. Lists come in pages: pass nextCursor as \
afterCursor. If something is unavailable or incompatible, diagnostics_get names the command that mends it.";

/// One bridge process.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) tools: Tools,
    pub(crate) daemon: Daemon,
    pub(crate) custody: Custody,
    pub(crate) record: Record,
    /// This process in history.
    pub(crate) run_id: Id,
    /// The host's label in history.
    pub(crate) label: Option<Named>,
    /// When it began.
    pub(crate) begun: Instant,
}

impl Bridge {
    fn failed(&self, call: &Call, failure: &Failure) -> CallToolResult {
        self.record.failed(call.request_id, &call.tool, failure);
        telling::result(failure, call.request_id, |tool| self.tools.has(tool))
    }
}

impl House for Bridge {
    fn tools(&self) -> &[Tool] {
        self.tools.shown()
    }

    fn instructions(&self) -> &str {
        INSTRUCTIONS
    }

    async fn call(self: Arc<Self>, call: Arc<Call>) -> CallToolResult {
        match call::answer(&self, &call).await {
            Ok(answered) => answer::success(answered.content),
            Err(failure) => self.failed(&call, &failure),
        }
    }

    fn cut_short(&self, call: &Call, why: Cut) -> CallToolResult {
        let (class, text) = match why {
            Cut::Cancelled => (FailureClass::RequestCancelled, "the host cancelled this call".to_owned()),
            Cut::Closing(reason) => (FailureClass::StdinEof, ended(reason)),
            Cut::Panicked => (
                FailureClass::BridgeHandlerPanicked,
                "the bridge broke while it answered this call".to_owned(),
            ),
        };
        let outcome = if call.progress.was_sent() { Outcome::Unknown } else { Outcome::NotStarted };
        let failure = policy::of_execute(Failure::new(class, text).outcome(outcome), call);
        self.failed(call, &failure)
    }

    fn refused(&self, refusal: &Refusal) {
        let failure = match refusal {
            Refusal::UnknownTool { name } => call::unknown_tool(name),
            Refusal::MalformedParams { method } => Failure::new(
                FailureClass::MalformedMessage,
                format!("the parameters of {method} don't have its shape"),
            ),
        };
        self.record.failed(RequestId::fresh(), "", &failure);
    }
}

fn ended(reason: Reason) -> String {
    match reason {
        Reason::StdinEnded => "the host closed the connection before the answer came".to_owned(),
        reason => format!("{reason} before the answer came"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_fit() {
        assert!(INSTRUCTIONS.len() <= 2048, "{} bytes", INSTRUCTIONS.len());
    }

    #[test]
    fn the_instructions_name_tools_that_exist() {
        let tools = Tools::load(&crate::Toolset::default()).expect("a registry");
        for word in INSTRUCTIONS.split(|c: char| !c.is_ascii_lowercase() && c != '_') {
            if word.contains('_') && !word.starts_with('_') {
                assert!(tools.has(word), "{word} is no tool");
            }
        }
    }
}
