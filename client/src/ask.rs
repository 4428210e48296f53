//! One request as HTTP carries it: headers that say who asks, and a body with protocol 1's `client`.

use crate::{Options, PROTOCOL};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use portreeve_registry::{Call, Failure, FailureClass, Method, RequestId};
use serde_json::{Value, json};
use std::time::Duration;

/// Who asks, and for how long: what goes beside a [`Call`].
#[derive(Clone, Debug)]
pub struct Ask {
    /// The call's id.
    pub request_id: RequestId,
    /// The tool that an agent called, for attribution.
    pub tool: Option<String>,
    /// The host's trace context (W3C `traceparent`), for attribution.
    pub traceparent: Option<String>,
    /// How long the whole call may take; the client's own deadline without it.
    pub deadline: Option<Duration>,
}

impl Ask {
    /// Under a fresh id, with the client's deadline.
    pub fn fresh() -> Ask {
        Ask { request_id: RequestId::fresh(), tool: None, traceparent: None, deadline: None }
    }
}

/// Writes the request. Attribution that a header can't hold is left out: it grants and proves nothing.
pub(crate) fn write(options: &Options, call: &Call, ask: &Ask) -> Result<Request<Full<Bytes>>, Failure> {
    let body = match (&call.body, call.method) {
        (Some(fields), _) => {
            let mut fields = fields.clone();
            fields.insert("client".into(), envelope(options, call.capability));
            Bytes::from(Value::Object(fields).to_string())
        }
        (None, Method::Post) => {
            Bytes::from(json!({ "client": envelope(options, call.capability) }).to_string())
        }
        (None, Method::Get) => Bytes::new(),
    };
    let mut request =
        Request::builder().method(call.method.as_str()).uri(&call.target).body(Full::new(body)).map_err(
            |error| Failure::new(FailureClass::DaemonInvalidInput, format!("no such target: {error}")),
        )?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_static("portreeve"));
    if call.method == Method::Post {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let mut set = |name: &'static str, value: Option<&str>| {
        if let Some(Ok(value)) = value.map(|value| HeaderValue::from_bytes(value.as_bytes())) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    set("x-portreeve-request-id", Some(&ask.request_id.to_string()));
    set("x-portreeve-run-id", options.origin.run_id.map(|id| id.to_string()).as_deref());
    set("x-portreeve-label", options.origin.label.as_ref().map(|label| label.as_str()));
    set("x-portreeve-tool", ask.tool.as_deref());
    set("traceparent", ask.traceparent.as_deref());
    Ok(request)
}

fn envelope(options: &Options, capability: &str) -> Value {
    let required: &[&str] = if capability.is_empty() { &[] } else { &[capability] };
    json!({
        "softwareVersion": options.software_version,
        "protocol": PROTOCOL,
        "requiredCapabilities": required,
        "origin": options.origin,
    })
}
