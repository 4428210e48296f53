//! From an HTTP request to a handler and back: paths, bodies, deadlines.

use crate::Daemon;
use crate::handler::{Asked, Caller, HANDLERS, Handler};
use crate::wire;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, header};
use portreeve_records::Pid;
use portreeve_registry::{Args, Failure, FailureClass, Manner, Method, RequestId};
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The largest body, in bytes.
pub const BODY_LIMIT: usize = 1024 * 1024;
/// How much of a body is read and dropped after it was refused, in bytes: a sender that is still writing reads
/// the answer only once it has written.
const SPARE: usize = 16 * BODY_LIMIT;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long a request may take in all.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// The handlers by path.
pub(crate) struct Router {
    paths: matchit::Router<Vec<&'static Handler>>,
}

impl Router {
    /// Sorts what is linked in; a path that two handlers share by method is one entry.
    pub(crate) fn new() -> Router {
        let mut by_path: std::collections::BTreeMap<&str, Vec<&'static Handler>> = Default::default();
        for handler in HANDLERS {
            by_path.entry(handler.path).or_default().push(handler);
        }
        let mut paths = matchit::Router::new();
        for (path, handlers) in by_path {
            paths.insert(path, handlers).expect("the paths are ours, and a test starts the daemon");
        }
        Router { paths }
    }

    fn find(&self, method: Method, path: &str) -> Option<(&'static Handler, Map<String, Value>)> {
        let found = self.paths.at(path).ok()?;
        let handler = found.value.iter().find(|h| h.method == method)?;
        let mut fields = Map::new();
        for (name, value) in found.params.iter() {
            let value = percent_encoding::percent_decode_str(value).decode_utf8().ok()?;
            // Protocol 1 knows ports by digits: any other text is no such path.
            if name == "port" && !value.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            fields.insert(name.to_owned(), value.into_owned().into());
        }
        Some((handler, fields))
    }
}

/// Answers one request, whatever it is.
pub(crate) async fn answer(
    daemon: Arc<Daemon>,
    peer: Option<Pid>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let request_id = request
        .headers()
        .get("x-portreeve-request-id")
        .and_then(|id| id.to_str().ok()?.parse().ok())
        .unwrap_or_else(RequestId::fresh);
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let started = Instant::now();
    match serve(&daemon, peer, request_id, request).await {
        Ok(data) => {
            tracing::debug!(%request_id, %method, path, elapsed_us = started.elapsed().as_micros() as u64, "answered");
            respond(StatusCode::OK, &wire::success(request_id, data))
        }
        Err(failure) => {
            daemon.log.request_failed(request_id, method.as_str(), &path, &failure);
            refusal(request_id, &failure)
        }
    }
}

/// A failure as it is answered.
pub(crate) fn refusal(request_id: RequestId, failure: &Failure) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(failure.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    respond(status, &wire::failure(request_id, failure))
}

fn respond(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

async fn serve(
    daemon: &Arc<Daemon>,
    peer: Option<Pid>,
    request_id: RequestId,
    request: Request<Incoming>,
) -> Result<Value, Failure> {
    let deadline = Instant::now() + REQUEST_TIME;
    let (parts, body) = request.into_parts();
    let method = match parts.method {
        hyper::Method::GET => Some(Method::Get),
        hyper::Method::POST => Some(Method::Post),
        _ => None,
    };
    let found = method.and_then(|method| daemon.router.find(method, parts.uri.path()));
    let Some((handler, path)) = found else {
        // The body is read all the same, so that the connection can be kept.
        drain(body).await;
        return Err(unknown_path(&parts.method, parts.uri.path()));
    };
    let (mut fields, manner, origin) = match handler.method {
        Method::Get => {
            drain(body).await;
            let query = parts.uri.query().unwrap_or_default();
            let fields: Map<String, Value> = form_urlencoded::parse(query.as_bytes())
                .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
                .collect();
            (fields, Manner { strict: false, text: true }, None)
        }
        Method::Post => {
            let mut fields = read(body).await?;
            let origin = wire::sender(&mut fields, daemon.capabilities())?;
            (fields, Manner::default(), origin)
        }
    };
    // An id in the path wins over one in the body. A number in a path is text.
    for (name, value) in path {
        let value = match (name.as_str(), value.as_str().and_then(|v| v.parse::<u64>().ok())) {
            ("port", Some(number)) => number.into(),
            _ => value,
        };
        fields.insert(name, value);
    }
    let caller = Caller { request_id, origin, pid: peer };
    let args = Args { fields, manner };
    if !handler.blocks {
        return run(daemon, handler, caller, args);
    }
    let daemon = Arc::clone(daemon);
    let work = tokio::task::spawn_blocking(move || run(&daemon, handler, caller, args));
    match tokio::time::timeout_at(deadline.into(), work).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Failure::new(FailureClass::DaemonInternal, "the work on this request was cut off")),
        Err(_) => Err(Failure::new(
            FailureClass::DaemonDeadline,
            format!("no answer within {} s", REQUEST_TIME.as_secs()),
        )),
    }
}

fn run(daemon: &Arc<Daemon>, handler: &Handler, caller: Caller, args: Args) -> Result<Value, Failure> {
    daemon.after_a_gap();
    let asked = Asked { daemon, caller };
    catch_unwind(AssertUnwindSafe(|| (handler.run)(&asked, args))).unwrap_or_else(|_| {
        let place = format!("{} {}", handler.method.as_str(), handler.path);
        Err(Failure::new(
            FailureClass::DaemonInternal,
            format!("PortReeve met a fault of its own in {place}"),
        ))
    })
}

fn unknown_path(method: &hyper::Method, path: &str) -> Failure {
    let path: String = path.chars().take(200).collect();
    Failure::new(
        FailureClass::DaemonUnknownOperation,
        format!("No PortReeve endpoint matches {method} {path}."),
    )
}

/// Reads a body that nobody wants and drops it; too much of it ends the connection, which hyper sees to.
async fn drain(mut body: Incoming) {
    drop(tokio::time::timeout(BODY_TIME, pass_over(&mut body)).await);
}

async fn pass_over(body: &mut Incoming) {
    let mut passed = 0;
    while let Some(Ok(frame)) = body.frame().await {
        passed += frame.data_ref().map_or(0, Bytes::len);
        if passed > SPARE {
            return;
        }
    }
}

async fn read(mut body: Incoming) -> Result<Map<String, Value>, Failure> {
    let bytes = tokio::time::timeout(BODY_TIME, collect(&mut body)).await.unwrap_or_else(|_| {
        Err(malformed(format!("the body did not arrive within {} s", BODY_TIME.as_secs())))
    })?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(malformed("the body is not a JSON object")),
        Err(error) => Err(malformed(format!("the body is not JSON: {error}"))),
    }
}

async fn collect(body: &mut Incoming) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| malformed("the body was cut off"))?;
        let data = frame.data_ref().map_or(&[][..], AsRef::as_ref);
        if bytes.len() + data.len() > BODY_LIMIT {
            drop(bytes);
            pass_over(body).await;
            return Err(malformed(format!("the body is larger than {BODY_LIMIT} bytes")));
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

/// A request that can't be read.
pub(crate) fn malformed(text: impl Into<String>) -> Failure {
    Failure::new(FailureClass::DaemonRequestMalformed, text)
}
