//! A failure as the host gets it: a text that is complete by itself, and the record beside it.

use portreeve_registry::{Failure, NextStep, Outcome, RequestId, Retry};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use crate::answer;

/// The result for a failure: `<what happened>; <outcome>; <next step> [<class>, <boundary>/<phase>, request <id>]`.
/// The next step names a tool only if `advertised` has it, otherwise the command.
pub(crate) fn result(
    failure: &Failure,
    request_id: RequestId,
    advertised: impl Fn(&str) -> bool,
) -> CallToolResult {
    let class = failure.class;
    let text = format!(
        "{}; {}, {}; {} [{class}, {}/{}, request {request_id}]",
        failure.message.trim_end_matches('.'),
        outcome(failure.outcome),
        retry(failure.retry),
        failure.next.line(&advertised).trim_end_matches('.'),
        class.boundary(),
        class.phase(),
    );
    answer::failure(text, record(failure, request_id, advertised))
}

fn record(failure: &Failure, request_id: RequestId, advertised: impl Fn(&str) -> bool) -> Value {
    let NextStep { text, tool, command } = failure.next.clone();
    let next = NextStep { text, tool: tool.filter(|tool| advertised(tool)), command };
    json!({
        "class": failure.class,
        "code": failure.code(),
        "boundary": failure.class.boundary(),
        "phase": failure.class.phase(),
        "retryable": failure.retry,
        "outcome": failure.outcome,
        "message": failure.message,
        "nextStep": next,
        "details": failure.details,
        "requestId": request_id,
    })
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotStarted => "nothing was begun (not_started)",
        Outcome::NotApplied => "nothing was changed (not_applied)",
        Outcome::Applied => "it was done (applied)",
        Outcome::Unknown => "it may have been done (unknown)",
    }
}

fn retry(retry: Retry) -> &'static str {
    match retry {
        Retry::Yes => "repeating can help",
        Retry::No => "repeating won't help",
        Retry::AfterAction => "repeat it after the next step",
    }
}

#[cfg(test)]
mod tests {
    use portreeve_registry::FailureClass;

    use super::*;

    fn told(failure: &Failure, advertised: bool) -> (String, Value) {
        let id = "0198c0de-0000-7000-8000-000000000000".parse().expect("a request id");
        let result = serde_json::to_value(result(failure, id, |_| advertised)).expect("JSON");
        assert_eq!(result.get("structuredContent"), None);
        let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
        (text, result["_meta"]["portreeve/error"].clone())
    }

    #[test]
    fn an_error_says_everything_in_its_text() {
        let failure = Failure::new(FailureClass::DaemonNotListening, "nobody listens at /s.");
        let (text, record) = told(&failure, true);
        assert_eq!(
            text,
            "nobody listens at /s; nothing was begun (not_started), repeat it after the next step; start \
             PortReeve: portreeve serve [daemon.not_listening, client/connect, request \
             0198c0de-0000-7000-8000-000000000000]"
        );
        assert_eq!(
            record,
            json!({
                "class": "daemon.not_listening", "code": "unavailable", "boundary": "client",
                "phase": "connect", "retryable": "after_action", "outcome": "not_started",
                "message": "nobody listens at /s.",
                "nextStep": {"text": "start PortReeve: portreeve serve"},
                "details": {}, "requestId": "0198c0de-0000-7000-8000-000000000000"
            })
        );
    }

    #[test]
    fn a_tool_is_named_to_those_who_have_it_only() {
        let failure = Failure::new(FailureClass::Conflict, "taken")
            .next("end the run")
            .by(Some("leases_release"), Some("portreeve run release 7".into()));
        let (text, record) = told(&failure, true);
        assert!(text.contains("end the run (leases_release)"), "{text}");
        assert_eq!(record["nextStep"]["tool"], "leases_release");
        let (text, record) = told(&failure, false);
        assert!(text.contains("end the run (portreeve run release 7)"), "{text}");
        assert_eq!(record["nextStep"].get("tool"), None);
    }
}
