//! Protocol 1's envelope: who asks, and what success and failure look like.

use portreeve_records::Origin;
use portreeve_registry::{Failure, FailureClass, Issue, Manner, RequestId, decode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The protocol that this daemon speaks.
pub(crate) const PROTOCOL: u32 = 1;

/// What every POST body says of its sender.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    #[serde(rename = "softwareVersion")]
    _software_version: String,
    protocol: Range,
    #[serde(default)]
    required_capabilities: Vec<String>,
    origin: Option<Origin>,
}

#[derive(Debug, Deserialize)]
struct Range {
    minimum: u32,
    maximum: u32,
}

/// Takes the sender off a body's fields and checks that the two fit together.
///
/// Protocol 1's clients read `{compatible, negotiatedProtocol, missingCapabilities}` of a refusal.
pub(crate) fn sender(
    fields: &mut Map<String, Value>,
    capabilities: &[&'static str],
) -> Result<Option<Origin>, Failure> {
    let sent = fields.remove("client").unwrap_or(Value::Null);
    let client: Client = decode(sent, Manner::default()).map_err(|mut issue: Issue| {
        issue.path.insert(0, "client".into());
        issue.failure(FailureClass::DaemonInvalidInput)
    })?;
    let overlaps = client.protocol.minimum <= PROTOCOL && PROTOCOL <= client.protocol.maximum;
    let missing: Vec<&String> =
        client.required_capabilities.iter().filter(|c| !capabilities.contains(&c.as_str())).collect();
    if overlaps && missing.is_empty() {
        return Ok(client.origin);
    }
    let message = if overlaps {
        format!("this PortReeve can't do what the client needs: {}", join(&missing))
    } else {
        let Range { minimum, maximum } = client.protocol;
        format!("the client speaks protocols {minimum} to {maximum}, this PortReeve speaks {PROTOCOL}")
    };
    Err(Failure::new(FailureClass::ProtocolIncompatible, message)
        .detail("compatible", false)
        .detail("negotiatedProtocol", if overlaps { json!(PROTOCOL) } else { Value::Null })
        .detail("missingCapabilities", json!(missing)))
}

fn join(words: &[&String]) -> String {
    words.iter().map(|w| w.as_str()).collect::<Vec<_>>().join(", ")
}

/// A success.
pub(crate) fn success(request_id: RequestId, data: Value) -> Value {
    json!({"protocolVersion": PROTOCOL, "requestId": request_id.to_string(), "data": data})
}

/// A failure, in protocol 1's words and in ours.
pub(crate) fn failure(request_id: RequestId, failure: &Failure) -> Value {
    json!({
        "protocolVersion": PROTOCOL,
        "requestId": request_id.to_string(),
        "error": {
            "code": failure.code().as_str(),
            "message": failure.message,
            "retryable": failure.is_retryable(),
            "details": failure.details,
            "failure": {
                "class": failure.class.as_str(),
                "boundary": failure.class.boundary().as_str(),
                "phase": failure.class.phase().as_str(),
                "retry": failure.retry.as_str(),
                "outcome": failure.outcome.as_str(),
                "nextStep": failure.next,
            },
        },
    })
}
