//! The one failure type that crosses every boundary, and the closed set of its classes.
//!
//! A class fixes where a failure happens (boundary), when (phase), whether repeating can help, what became of
//! the effect, which of protocol 1's codes it travels under and what to do next.
//! A site may sharpen outcome, retry and next step; it can't invent a class.
//! Nothing anywhere matches on message text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)* }
        impl $name {
            /// The word that stands for it on the wire.
            pub const fn as_str(self) -> &'static str { match self { $($name::$variant => $word,)* } }
            /// Every one, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
    };
}

words! {
    /// Where a failure happened.
    Boundary {
        /// Between the host and the bridge.
        Stdio = "stdio",
        /// In the bridge itself.
        Bridge = "bridge",
        /// The preview and execute policy.
        Policy = "policy",
        /// The bridge's credential vault.
        Custody = "custody",
        /// Between client and daemon.
        Client = "client",
        /// In the daemon, before or at its rules.
        Daemon = "daemon",
        /// Reading the kernel or a container engine.
        Evidence = "evidence",
        /// The database.
        Store = "store",
        /// Writing a result.
        Serialize = "serialize",
        /// Sending a reply.
        Reply = "reply",
    }
}
words! {
    /// When it happened in the course of a call.
    Phase {
        /// Reading the request.
        Decode = "decode",
        /// Reaching the daemon.
        Connect = "connect",
        /// Sending to the daemon.
        Send = "send",
        /// Waiting for the daemon.
        Await = "await",
        /// Deciding whether it may be asked at all.
        Authorize = "authorize",
        /// Finding what it is about.
        Resolve = "resolve",
        /// Doing it.
        Execute = "execute",
        /// Writing the result.
        Serialize = "serialize",
        /// Answering.
        Reply = "reply",
        /// The other side went away.
        Disconnect = "disconnect",
    }
}
words! {
    /// What became of the effect that was asked for.
    Outcome {
        /// It was never begun.
        NotStarted = "not_started",
        /// It was begun, and nothing of it stands.
        NotApplied = "not_applied",
        /// It stands.
        Applied = "applied",
        /// It may stand or not; asking again for the same target is how to find out.
        Unknown = "unknown",
    }
}
words! {
    /// Whether repeating the same call can help.
    Retry {
        /// As it is.
        Yes = "yes",
        /// Never.
        No = "no",
        /// Once something else was done first.
        AfterAction = "after_action",
    }
}
words! {
    /// Protocol 1's error codes.
    Code {
        /// 400.
        InvalidInput = "invalid_input",
        /// 400.
        InvalidLeaseToken = "invalid_lease_token",
        /// 400.
        InvalidOperationCredential = "invalid_operation_credential",
        /// 404.
        NotFound = "not_found",
        /// 409.
        Conflict = "conflict",
        /// 409.
        LeaseExpired = "lease_expired",
        /// 409.
        LeaseNotPending = "lease_not_pending",
        /// 426.
        IncompatibleProtocol = "incompatible_protocol",
        /// 503.
        Unavailable = "unavailable",
        /// 500.
        Internal = "internal",
    }
}

impl Code {
    /// The HTTP status that it travels under.
    pub const fn status(self) -> u16 {
        match self {
            Code::InvalidInput | Code::InvalidLeaseToken | Code::InvalidOperationCredential => 400,
            Code::NotFound => 404,
            Code::Conflict | Code::LeaseExpired | Code::LeaseNotPending => 409,
            Code::IncompatibleProtocol => 426,
            Code::Unavailable => 503,
            Code::Internal => 500,
        }
    }
}

/// What a class fixes.
struct Facts {
    word: &'static str,
    boundary: Boundary,
    phase: Phase,
    retry: Retry,
    outcome: Outcome,
    code: Code,
    next: &'static str,
}

macro_rules! classes {
    ($($variant:ident = $word:literal, $boundary:ident / $phase:ident, $retry:ident, $outcome:ident, $code:ident, $next:literal;)*) => {
        /// The closed set of failure classes.
        ///
        /// The word before the dot is where whoever reads it should look; `docs` of each row are its facts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum FailureClass {
            $(
                #[doc = concat!("`", $word, "`: ", stringify!($boundary), "/", stringify!($phase), "; retry: ",
                    stringify!($retry), "; outcome: ", stringify!($outcome), "; next: ", $next, ".")]
                #[serde(rename = $word)] $variant,
            )*
        }
        impl FailureClass {
            /// Every class, in the order of `docs/failures.md`.
            pub const ALL: &'static [FailureClass] = &[$(FailureClass::$variant,)*];
            const fn facts(self) -> Facts {
                match self { $(FailureClass::$variant => Facts {
                    word: $word, boundary: Boundary::$boundary, phase: Phase::$phase, retry: Retry::$retry,
                    outcome: Outcome::$outcome, code: Code::$code, next: $next,
                },)* }
            }
        }
    };
}

classes! {
    StdinEof = "stdio.stdin_eof", Stdio/Disconnect, No, NotStarted, Unavailable, "none: the host closed the connection";
    PartialMessageAtEof = "stdio.partial_message_at_eof", Stdio/Decode, No, NotStarted, InvalidInput, "report the host";
    MalformedMessage = "stdio.malformed_message", Stdio/Decode, No, NotStarted, InvalidInput, "report the host";
    MessageTooLarge = "stdio.message_too_large", Stdio/Decode, No, NotStarted, InvalidInput, "report the host";
    DuplicateRequestId = "stdio.duplicate_request_id", Stdio/Decode, No, NotStarted, InvalidInput, "report the host";
    RequestCancelled = "stdio.request_cancelled", Stdio/Execute, Yes, Unknown, Unavailable, "repeat the call if it is still wanted";
    StdoutWriteFailed = "stdio.stdout_write_failed", Stdio/Reply, No, Unknown, Unavailable, "restart the host";
    BridgeInvalidArguments = "bridge.invalid_arguments", Bridge/Decode, No, NotStarted, InvalidInput, "correct the named field and call again";
    BridgeUnknownTool = "bridge.unknown_tool", Bridge/Decode, No, NotStarted, NotFound, "list the tools again";
    BridgeHandlerPanicked = "bridge.handler_panicked", Bridge/Execute, No, Unknown, Internal, "report this with its request id; restart the host if it goes on";
    BridgeBusy = "bridge.busy", Bridge/Decode, Yes, NotStarted, Unavailable, "wait for calls in flight, then repeat";
    PolicyPreviewRequired = "policy.preview_required", Policy/Authorize, No, NotStarted, InvalidInput, "preview first, then execute with its receiptId";
    PolicyRefused = "policy.refused", Policy/Authorize, No, NotStarted, Conflict, "choose another target";
    CustodyHandleUnknown = "custody.handle_unknown", Custody/Resolve, No, NotStarted, NotFound, "begin again: handles die with the bridge that made them";
    CustodySettled = "custody.handle_settled", Custody/Resolve, No, NotApplied, Conflict, "begin again: this handle has already become something else";
    CustodyWindowEnded = "custody.window_ended", Custody/Resolve, No, NotApplied, Conflict, "begin again, and extend custody earlier";
    CustodyRenewalFailed = "custody.renewal_failed", Custody/Execute, Yes, NotApplied, Unavailable, "see its cause, then begin again";
    DaemonSocketAbsent = "daemon.socket_absent", Client/Connect, AfterAction, NotStarted, Unavailable, "start PortReeve: portreeve serve";
    DaemonNotListening = "daemon.not_listening", Client/Connect, AfterAction, NotStarted, Unavailable, "start PortReeve: portreeve serve";
    DaemonSocketDenied = "daemon.socket_denied", Client/Connect, No, NotStarted, Unavailable, "run as the user who owns the socket";
    DaemonPeerDenied = "daemon.peer_denied", Daemon/Authorize, No, NotStarted, Unavailable, "run as the user who owns the socket";
    DaemonSandboxed = "daemon.sandboxed", Client/Connect, No, NotStarted, Unavailable, "unix sockets are blocked here: use the MCP tools, or run outside the sandbox";
    SocketSendFailed = "socket.send_failed", Client/Send, Yes, NotStarted, Unavailable, "repeat the call";
    SocketLostAfterSend = "socket.lost_after_send", Client/Await, Yes, Unknown, Unavailable, "repeat the call: the same target is safe";
    SocketReplyTruncated = "socket.reply_truncated", Client/Await, Yes, Unknown, Unavailable, "repeat the call: the same target is safe";
    SocketReplyMalformed = "socket.reply_malformed", Client/Decode, No, Unknown, Internal, "update the older of bridge and daemon";
    SocketReplyMismatched = "socket.reply_mismatched", Client/Decode, No, Unknown, Internal, "update the older of bridge and daemon";
    SocketReplyTooLarge = "socket.reply_too_large", Client/Decode, No, Unknown, Internal, "ask for fewer with limit and afterCursor";
    SocketDeadline = "socket.deadline", Client/Await, Yes, Unknown, Unavailable, "wait a little, then repeat the call";
    DaemonRequestMalformed = "daemon.request_malformed", Daemon/Decode, No, NotStarted, InvalidInput, "send valid JSON; if this is PortReeve's own client, update the older side";
    DaemonInvalidInput = "daemon.invalid_input", Daemon/Decode, No, NotStarted, InvalidInput, "correct the named field and call again";
    DaemonUnknownOperation = "daemon.unknown_operation", Daemon/Decode, No, NotStarted, NotFound, "update the older of client and daemon";
    DaemonBusy = "daemon.busy", Daemon/Execute, Yes, NotStarted, Unavailable, "repeat the call in a moment";
    DaemonStopping = "daemon.stopping", Daemon/Execute, AfterAction, NotApplied, Unavailable, "start PortReeve again: portreeve serve";
    DaemonDeadline = "daemon.deadline", Daemon/Execute, Yes, Unknown, Unavailable, "wait a little, then repeat the call";
    DaemonInternal = "daemon.internal", Daemon/Execute, No, Unknown, Internal, "report this with its request id: portreeve doctor";
    ProtocolIncompatible = "compat.protocol_incompatible", Daemon/Authorize, AfterAction, NotStarted, IncompatibleProtocol, "update and restart the older of client and daemon";
    CredentialMismatch = "credential.lease_token_mismatch", Daemon/Authorize, No, NotApplied, InvalidLeaseToken, "acquire the lease again";
    OperationCredentialMismatch = "credential.operation_mismatch", Daemon/Authorize, No, NotApplied, InvalidOperationCredential, "begin the operation again";
    LeaseExpired = "lease.expired", Daemon/Resolve, No, NotApplied, LeaseExpired, "acquire the lease again";
    LeaseNotPending = "lease.not_pending", Daemon/Resolve, No, NotApplied, LeaseNotPending, "acquire the lease again";
    NotFound = "resolve.not_found", Daemon/Resolve, No, NotStarted, NotFound, "list what there is";
    Conflict = "resolve.conflict", Daemon/Execute, No, NotApplied, Conflict, "choose another target";
    ReceiptUnknown = "receipt.unknown", Daemon/Authorize, AfterAction, NotApplied, NotFound, "preview again";
    ReceiptExpired = "receipt.expired", Daemon/Authorize, AfterAction, NotApplied, Conflict, "preview again";
    ReceiptMismatch = "receipt.mismatch", Daemon/Authorize, AfterAction, NotApplied, Conflict, "preview again, and name the same target";
    ReceiptChanged = "receipt.changed", Daemon/Execute, AfterAction, NotApplied, Conflict, "preview again: what was seen has changed";
    ReceiptOutcomeUnknown = "receipt.outcome_unknown", Daemon/Execute, AfterAction, Unknown, Conflict, "look at the fresh evidence, then preview again";
    EvidenceUnavailable = "evidence.unavailable", Evidence/Execute, Yes, NotApplied, Unavailable, "repeat the call; portreeve doctor says which evidence is missing";
    StoreBusy = "store.busy", Store/Execute, Yes, NotApplied, Unavailable, "repeat the call";
    StoreFull = "store.full", Store/Execute, AfterAction, NotApplied, Unavailable, "free space on the disk that holds PortReeve's home; reads go on";
    StoreIoError = "store.io_error", Store/Execute, AfterAction, NotApplied, Unavailable, "look at the disk that holds PortReeve's home, then run: portreeve doctor";
    StoreCorrupt = "store.corrupt", Store/Execute, No, NotApplied, Unavailable, "stop PortReeve and run: portreeve doctor --repair";
    StoreSchemaNewer = "store.schema_newer", Store/Execute, No, NotApplied, Unavailable, "start the newer PortReeve that wrote this store";
    ResultTooLarge = "serialize.result_too_large", Serialize/Serialize, No, Applied, Internal, "ask for fewer with limit and afterCursor";
    ReplyWriteFailed = "reply.write_failed", Reply/Reply, No, Applied, Unavailable, "repeat the call: the same target is safe";
}

impl FailureClass {
    /// The class's word: `resolve.conflict`.
    pub const fn as_str(self) -> &'static str {
        self.facts().word
    }
    /// Where it happens.
    pub const fn boundary(self) -> Boundary {
        self.facts().boundary
    }
    /// When it happens.
    pub const fn phase(self) -> Phase {
        self.facts().phase
    }
    /// Whether repeating can help, unless a failure says otherwise.
    pub const fn retry(self) -> Retry {
        self.facts().retry
    }
    /// What became of the effect, unless a failure says otherwise.
    pub const fn outcome(self) -> Outcome {
        self.facts().outcome
    }
    /// Protocol 1's code for it.
    pub const fn code(self) -> Code {
        self.facts().code
    }
    /// What to do next, unless a failure says otherwise.
    pub const fn next(self) -> &'static str {
        self.facts().next
    }
    /// The class that a word stands for.
    pub fn parse(word: &str) -> Option<FailureClass> {
        FailureClass::ALL.iter().copied().find(|c| c.as_str() == word)
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What whoever reads a failure does next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextStep {
    /// In words, complete without the other two.
    pub text: String,
    /// The tool that does it, named only to those who were advertised it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The command that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl NextStep {
    /// The step in one line for somebody who may call the tools that `advertised` accepts.
    pub fn line(&self, advertised: impl Fn(&str) -> bool) -> String {
        match (&self.tool, &self.command) {
            (Some(tool), _) if advertised(tool) => format!("{} ({tool})", self.text),
            (_, Some(command)) => format!("{} ({command})", self.text),
            _ => self.text.clone(),
        }
    }
}

/// One failure, as it crosses every boundary.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Its class.
    pub class: FailureClass,
    /// What happened: one sentence for people, without credentials.
    pub message: String,
    /// Facts for machines, as protocol 1 names them.
    pub details: Map<String, Value>,
    /// What became of the effect.
    pub outcome: Outcome,
    /// Whether repeating can help.
    pub retry: Retry,
    /// What to do next.
    pub next: NextStep,
}

impl Failure {
    /// A failure with its class's own outcome, retry and next step.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Failure {
        Failure {
            class,
            message: message.into(),
            details: Map::new(),
            outcome: class.outcome(),
            retry: class.retry(),
            next: NextStep { text: class.next().to_owned(), tool: None, command: None },
        }
    }

    /// Adds a fact.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Failure {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Says that waiting can help.
    #[must_use]
    pub fn retryable(mut self) -> Failure {
        self.retry = Retry::Yes;
        self
    }

    /// Says what became of the effect.
    #[must_use]
    pub fn outcome(mut self, outcome: Outcome) -> Failure {
        self.outcome = outcome;
        self
    }

    /// Says what to do next, in words.
    #[must_use]
    pub fn next(mut self, text: impl Into<String>) -> Failure {
        self.next = NextStep { text: text.into(), tool: None, command: None };
        self
    }

    /// Names the tool and the command that do the next step.
    #[must_use]
    pub fn by(mut self, tool: Option<&str>, command: Option<String>) -> Failure {
        self.next.tool = tool.map(str::to_owned);
        self.next.command = command;
        self
    }

    /// Protocol 1's code.
    pub fn code(&self) -> Code {
        self.class.code()
    }

    /// Whether repeating the same call as it is can help.
    pub fn is_retryable(&self) -> bool {
        self.retry == Retry::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_class_has_a_word_of_its_own_and_a_next_step() {
        let words: HashSet<_> = FailureClass::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(words.len(), FailureClass::ALL.len());
        for class in FailureClass::ALL {
            assert_eq!(FailureClass::parse(class.as_str()), Some(*class));
            assert!(!class.next().is_empty(), "{class} has no next step");
            assert!(class.as_str().contains('.'), "{class} names no place");
        }
    }

    #[test]
    fn a_next_step_names_a_tool_only_to_those_who_have_it() {
        let failure = Failure::new(FailureClass::Conflict, "taken")
            .next("stop the run")
            .by(Some("leases_release"), Some("portreeve run release 7".into()));
        assert_eq!(failure.next.line(|_| true), "stop the run (leases_release)");
        assert_eq!(failure.next.line(|_| false), "stop the run (portreeve run release 7)");
    }
}
