//! What custody itself asks the daemon: to renew what is held, and to take it back.

use portreeve_leases::{AbandonLease, AbandonRequest, RenewLease, RenewRequest};
use portreeve_records::{AbandonReason, Id};
use portreeve_registry::{Call, CredentialKind, Failure, FailureClass, Method};
use serde_json::{Map, Value, json};

use super::entry::Due;

/// Asks for another lease time.
pub(super) fn renew(due: &Due) -> Result<Call, Failure> {
    let secret = due.secret.clone();
    match due.kind {
        CredentialKind::Lease => {
            let request = RenewRequest { lease_id: lease(due)?, lease_token: secret };
            Call::of::<RenewLease>(&request).map_err(|error| unwritable(&error))
        }
        CredentialKind::ActivationLease => {
            let leases = json!([{"leaseId": due.subject, "leaseToken": secret.expose()}]);
            Ok(post(
                format!("/v1/stack-activations/{}/renew", group(due)?),
                json!({ "leases": leases }),
                ACTIVATIONS,
            ))
        }
        CredentialKind::LauncherOperation => {
            let body = json!({"credential": secret.expose()});
            Ok(post(format!("/v1/launcher-operations/{}/renew", due.subject), body, LAUNCHER))
        }
    }
}

/// Gives it back: the caller is gone.
pub(super) fn give_back(due: &Due) -> Result<Call, Failure> {
    let secret = due.secret.clone();
    let reason = AbandonReason::ClientCancelled;
    match due.kind {
        CredentialKind::Lease => {
            let request = AbandonRequest {
                lease_id: lease(due)?,
                lease_token: secret,
                reason,
                answer_settled: Some(true),
            };
            Call::of::<AbandonLease>(&request).map_err(|error| unwritable(&error))
        }
        CredentialKind::ActivationLease => {
            let body = json!({"leaseId": due.subject, "leaseToken": secret.expose(), "reason": reason});
            Ok(post(format!("/v1/stack-activations/{}/abandon", group(due)?), body, ACTIVATIONS))
        }
        CredentialKind::LauncherOperation => {
            let body = json!({"credential": secret.expose(), "completion": {"outcome": "cancelled"}});
            Ok(post(format!("/v1/launcher-operations/{}/complete", due.subject), body, LAUNCHER))
        }
    }
}

const ACTIVATIONS: &str = "stack-activations-v1";
const LAUNCHER: &str = "launcher-operations-v1";

fn post(target: String, body: Value, capability: &'static str) -> Call {
    let body: Map<String, Value> = match body {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    Call { method: Method::Post, target, body: Some(body), capability }
}

/// Custody took the subject from a reply, so it is an id; a daemon that says otherwise is not believed.
fn lease(due: &Due) -> Result<Id, Failure> {
    Id::parse(&due.subject).ok_or_else(|| malformed("a lease's id is no UUID"))
}

fn group(due: &Due) -> Result<Id, Failure> {
    due.group.as_deref().and_then(Id::parse).ok_or_else(|| malformed("an activation's id is no UUID"))
}

fn malformed(text: &str) -> Failure {
    Failure::new(FailureClass::SocketReplyMalformed, text)
}

fn unwritable(error: &serde_json::Error) -> Failure {
    Failure::new(FailureClass::BridgeHandlerPanicked, format!("can't be written as JSON: {error}"))
}
