//! From one line to what has to be done with it: a pure function.
//!
//! The envelope is looked at first, on its own, so that a message that rmcp can't parse is still answered when
//! it carries an id. What the method means is not decided here.

use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, NumberOrString, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::error::Category;

use super::event::{TransportEvent, cut};

/// What one line asks for.
#[derive(Debug)]
pub(super) enum Decoded {
    /// A request; it is owed one answer.
    Request(RequestId, Box<ClientRequest>),
    /// A notification that rmcp should see.
    Notification(ClientNotification),
    /// The host takes a request back.
    Cancelled(Option<RequestId>, ClientNotification),
    /// A request that can't be served: this answer is owed, and the event noted.
    Refused(Option<RequestId>, ErrorData, TransportEvent),
    /// Nothing is owed, the event is noted.
    Dropped(TransportEvent),
    /// An empty line.
    Blank,
}

/// The fields that make a message a request, a notification or a response.
/// Everything else is skipped without being held, and without a limit to its depth.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    #[serde(default, deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    error: Option<IgnoredAny>,
}

/// Tells a field that is null from one that is absent.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Decodes one line, without its newline.
pub(super) fn decode(line: &[u8]) -> Decoded {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => return Decoded::Dropped(TransportEvent::NotUtf8 { offset: error.valid_up_to() }),
    };
    if text.trim_ascii().is_empty() {
        return Decoded::Blank;
    }
    let envelope: Envelope = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) if matches!(error.classify(), Category::Syntax | Category::Eof) => {
            // Without valid JSON there is no id to answer to, and answering noise invites an echo storm.
            return Decoded::Dropped(TransportEvent::NotJson { detail: cut(&error.to_string()) });
        }
        Err(error) => return refuse(None, &error.to_string()),
    };
    let is_response = envelope.result.is_some() || envelope.error.is_some();
    match (envelope.method, envelope.id) {
        (Some(_), Some(id)) => match request_id(&id) {
            Some(id) if is_response => refuse(Some(id), "a request can't carry a result or an error"),
            Some(id) => request(id, text),
            None => refuse(None, "a request id has to be a string or an integer"),
        },
        (Some(method), None) => notification(text, &method),
        (None, _) if is_response => Decoded::Dropped(TransportEvent::StrayResponse),
        (None, id) => refuse(id.as_ref().and_then(request_id), "a message has to name its method"),
    }
}

fn request(id: RequestId, text: &str) -> Decoded {
    match serde_json::from_str(text) {
        Ok(ClientJsonRpcMessage::Request(request)) => Decoded::Request(id, Box::new(request.request)),
        Ok(_) => refuse(Some(id), "not a JSON-RPC 2.0 request"),
        Err(error) => {
            // rmcp's own parser names no field, so the fault is looked for here.
            let parsed = serde_json::from_str::<Value>(text);
            match parsed.as_ref().map(|message| (message.get("jsonrpc"), message.get("params"))) {
                Err(_) => refuse(Some(id), &error.to_string()),
                Ok((Some(Value::String(version)), Some(params)))
                    if version == "2.0" && !params.is_object() =>
                {
                    let detail = "params have to be an object";
                    let error = ErrorData::invalid_params(detail, None);
                    Decoded::Refused(
                        Some(id),
                        error,
                        TransportEvent::NotJsonRpc { detail: detail.to_owned() },
                    )
                }
                Ok(_) => refuse(Some(id), "not a JSON-RPC 2.0 request"),
            }
        }
    }
}

fn notification(text: &str, method: &str) -> Decoded {
    match serde_json::from_str(text) {
        Ok(ClientJsonRpcMessage::Notification(notification)) => match notification.notification {
            ClientNotification::CancelledNotification(cancelled) => {
                let id = cancelled.params.request_id.clone();
                Decoded::Cancelled(id, ClientNotification::CancelledNotification(cancelled))
            }
            ClientNotification::CustomNotification(_) => {
                Decoded::Dropped(TransportEvent::StrayNotification { method: cut(method) })
            }
            known => Decoded::Notification(known),
        },
        _ => Decoded::Dropped(TransportEvent::NotJsonRpc {
            detail: cut(&format!("malformed notification {method}")),
        }),
    }
}

fn refuse(id: Option<RequestId>, detail: &str) -> Decoded {
    let detail = cut(detail);
    let error = ErrorData::invalid_request(format!("invalid request: {detail}"), None);
    Decoded::Refused(id, error, TransportEvent::NotJsonRpc { detail })
}

fn request_id(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(text) => Some(NumberOrString::String(text.as_str().into())),
        Value::Number(number) => number.as_i64().map(NumberOrString::Number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_notifications_pass() {
        let list = br#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
        let Decoded::Request(NumberOrString::Number(7), request) = decode(list) else {
            panic!("not a request");
        };
        assert!(matches!(*request, ClientRequest::ListToolsRequest(_)));
        let with_bom_and_return = [b"\xEF\xBB\xBF".as_slice(), list, b"\r"].concat();
        assert!(matches!(decode(&with_bom_and_return), Decoded::Request(..)));
        let cancel = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        assert!(matches!(
            decode(cancel),
            Decoded::Cancelled(Some(NumberOrString::String(id)), _) if &*id == "a"
        ));
        assert!(matches!(
            decode(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Decoded::Notification(_)
        ));
        assert!(matches!(decode(b" \r"), Decoded::Blank));
    }

    #[test]
    fn noise_is_dropped_without_an_answer() {
        for noise in [
            b"{".as_slice(),
            b"hello",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
            b"\xff\xfe{}",
            br#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            br#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"invalid request"}}"#,
            br#"{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{}}"#,
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#,
        ] {
            assert!(matches!(decode(noise), Decoded::Dropped(_)), "{}", String::from_utf8_lossy(noise));
        }
    }

    #[test]
    fn a_broken_request_is_answered_and_keeps_its_id_where_it_has_one() {
        let cases: [(&[u8], Option<i64>); 8] = [
            (br#"{"id":1,"method":"ping"}"#, Some(1)),
            (br#"{"jsonrpc":"1.0","id":2,"method":"ping"}"#, Some(2)),
            (br#"{"jsonrpc":"2.0","id":3,"method":"ping","result":{}}"#, Some(3)),
            (br#"{"jsonrpc":"2.0","id":4}"#, Some(4)),
            (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, None),
            (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None),
            (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None),
            (br#""hello""#, None),
        ];
        for (line, expected) in cases {
            let Decoded::Refused(id, error, _) = decode(line) else {
                panic!("{}", String::from_utf8_lossy(line));
            };
            assert_eq!(id, expected.map(NumberOrString::Number));
            assert_eq!(error.code.0, -32600);
        }
    }

    #[test]
    fn params_that_are_no_object_are_invalid_params() {
        for params in ["7", "null", "[]", "\"name\""] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            match decode(line.as_bytes()) {
                Decoded::Refused(Some(_), error, _) => assert_eq!(error.code.0, -32602, "{params}"),
                Decoded::Request(..) => {}
                other => panic!("{params}: {other:?}"),
            }
        }
    }

    #[test]
    fn nesting_beyond_the_parser_is_refused_with_its_id() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"x","arguments":{{"a":{}{}}}}}}}"#,
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        let Decoded::Refused(id, ..) = decode(deep.as_bytes()) else { panic!("not refused") };
        assert_eq!(id, Some(NumberOrString::Number(9)));
    }
}
