//! Reading a reply: whole, of this request, in protocol 1's envelope, or not at all.

use portreeve_registry::{Code, Failure, FailureClass, NextStep, Outcome, RequestId, Retry};
use serde_json::{Map, Value};

/// A reply whose envelope was read.
#[derive(Debug)]
pub(crate) struct Envelope {
    /// The protocol that it claims to be in.
    pub(crate) version: Option<u64>,
    /// The data, or the daemon's failure.
    pub(crate) content: Result<Value, Failure>,
}

fn malformed(what: &str) -> Failure {
    Failure::new(FailureClass::SocketReplyMalformed, format!("the daemon's reply is {what}"))
}

/// Reads the body of a reply to the request `id`.
pub(crate) fn read(status: u16, body: &[u8], id: RequestId) -> Result<Envelope, Failure> {
    let mut fields: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        if error.is_eof() && !body.is_empty() {
            let text = "the daemon's reply breaks off in the middle";
            return Failure::new(FailureClass::SocketReplyTruncated, text);
        }
        let what = if std::str::from_utf8(body).is_err() { "not UTF-8" } else { "not a JSON object" };
        malformed(what).detail("status", status)
    })?;
    if fields.get("requestId").and_then(Value::as_str) != Some(id.to_string().as_str()) {
        let text = "the daemon's reply is to another request";
        return Err(Failure::new(FailureClass::SocketReplyMismatched, text));
    }
    let version = fields.get("protocolVersion").and_then(Value::as_u64);
    let content = match (fields.remove("data"), fields.remove("error")) {
        (Some(data), None) if status < 400 => Ok(data),
        (None, Some(Value::Object(mut error))) if status >= 400 => {
            if let Some(failure) = fields.remove("failure") {
                error.entry("failure").or_insert(failure);
            }
            Err(failure(status, error))
        }
        _ => return Err(malformed("neither data nor an error").detail("status", status)),
    };
    Ok(Envelope { version, content })
}

/// The failure that an error body tells of: by its class where the daemon names one, else by protocol 1's code.
fn failure(status: u16, mut error: Map<String, Value>) -> Failure {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let details = match error.remove("details") {
        Some(Value::Object(details)) => details,
        _ => Map::new(),
    };
    let code = text(error.get("code")).unwrap_or_default();
    let told = match error.remove("failure") {
        Some(Value::Object(told)) => told,
        _ => Map::new(),
    };
    let named = told.get("class").and_then(Value::as_str).and_then(FailureClass::parse);
    let class = named.unwrap_or_else(|| class_of(&code, status, &details));
    let message =
        text(error.get("message")).unwrap_or_else(|| format!("the daemon answered {status} {code}"));
    let mut failure = Failure::new(class, message);
    failure.details = details;
    if let Some(word) = told.get("outcome").and_then(Value::as_str)
        && let Some(outcome) = Outcome::ALL.iter().copied().find(|outcome| outcome.as_str() == word)
    {
        failure.outcome = outcome;
    }
    if let Some(next) =
        told.get("nextStep").and_then(|next| serde_json::from_value::<NextStep>(next.clone()).ok())
    {
        failure.next = next;
    }
    let word = told.get("retry").and_then(Value::as_str);
    if let Some(retry) = Retry::ALL.iter().copied().find(|retry| Some(retry.as_str()) == word) {
        failure.retry = retry;
        return failure;
    }
    failure.retry = match (error.get("retryable").and_then(Value::as_bool), class.retry()) {
        (Some(true), _) => Retry::Yes,
        (Some(false), Retry::Yes) => Retry::No,
        (_, retry) => retry,
    };
    failure
}

fn class_of(code: &str, status: u16, details: &Map<String, Value>) -> FailureClass {
    let receipt = details.get("receiptCode").and_then(Value::as_str);
    let code = Code::ALL.iter().copied().find(|known| known.as_str() == code);
    match (code, receipt) {
        (Some(Code::NotFound), Some(_)) => FailureClass::ReceiptUnknown,
        (Some(Code::Conflict), Some("receipt_expired")) => FailureClass::ReceiptExpired,
        (Some(Code::Conflict), Some(_)) => FailureClass::ReceiptMismatch,
        (Some(Code::InvalidInput), _) => FailureClass::DaemonInvalidInput,
        (Some(Code::InvalidLeaseToken), _) => FailureClass::CredentialMismatch,
        (Some(Code::InvalidOperationCredential), _) => FailureClass::OperationCredentialMismatch,
        (Some(Code::NotFound), None) => FailureClass::NotFound,
        (Some(Code::Conflict), None) => FailureClass::Conflict,
        (Some(Code::LeaseExpired), _) => FailureClass::LeaseExpired,
        (Some(Code::LeaseNotPending), _) => FailureClass::LeaseNotPending,
        (Some(Code::IncompatibleProtocol), _) => FailureClass::ProtocolIncompatible,
        // What a daemon without classes calls unavailable is a container engine or a process table.
        (Some(Code::Unavailable), _) => FailureClass::EvidenceUnavailable,
        (Some(Code::Internal), _) => FailureClass::DaemonInternal,
        (None, _) => match status {
            400 => FailureClass::DaemonInvalidInput,
            404 => FailureClass::NotFound,
            409 => FailureClass::Conflict,
            426 => FailureClass::ProtocolIncompatible,
            503 => FailureClass::EvidenceUnavailable,
            _ => FailureClass::DaemonInternal,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(status: u16, error: Value) -> Failure {
        let id = RequestId::fresh();
        let body = json!({"protocolVersion": 1, "requestId": id, "error": error}).to_string();
        read(status, body.as_bytes(), id).unwrap().content.unwrap_err()
    }

    #[test]
    fn a_class_of_ours_is_taken_whole() {
        let failure = refused(
            409,
            json!({"code": "conflict", "message": "held", "retryable": true, "details": {"port": 3000},
                "failure": {"class": "resolve.conflict", "boundary": "daemon", "phase": "execute", "retry": "yes",
                    "outcome": "not_applied",
                    "nextStep": {"text": "wait", "tool": "leases_acquire"}}}),
        );
        assert_eq!(failure.class, FailureClass::Conflict);
        assert_eq!(failure.next.tool.as_deref(), Some("leases_acquire"));
        assert_eq!(failure.details["port"], 3000);
        assert!(failure.is_retryable());
    }

    #[test]
    fn a_class_that_is_not_known_here_falls_back_to_the_code() {
        let failure =
            refused(409, json!({"code": "conflict", "message": "x", "failure": {"class": "new.one"}}));
        assert_eq!(failure.class, FailureClass::Conflict);
    }

    #[test]
    fn protocol_1s_codes_have_their_classes() {
        for code in Code::ALL {
            let failure = refused(code.status(), json!({"code": code.as_str(), "message": "x"}));
            assert_eq!(failure.code(), *code, "{}", failure.class);
        }
        for (word, class) in [
            ("receipt_mismatch", FailureClass::ReceiptMismatch),
            ("receipt_expired", FailureClass::ReceiptExpired),
        ] {
            let failure =
                refused(409, json!({"code": "conflict", "message": "x", "details": {"receiptCode": word}}));
            assert_eq!(failure.class, class);
        }
        let unknown = json!({"code": "not_found", "message": "x", "details": {"receiptCode": "not_found"}});
        assert_eq!(refused(404, unknown).class, FailureClass::ReceiptUnknown);
    }

    #[test]
    fn retryable_is_the_daemons_word() {
        let busy = json!({"code": "unavailable", "message": "x", "retryable": false});
        assert!(!refused(503, busy).is_retryable());
    }
}
