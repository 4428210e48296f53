//! One request over one connection, and its whole reply.

use crate::connection::Connection;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};
use portreeve_registry::{Failure, FailureClass};
use std::error::Error as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// The largest reply that is taken, in bytes. What the daemon answers is bounded far below.
pub const LARGEST_REPLY: usize = 2 * 1024 * 1024;

/// Why there is no reply.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Nothing of the request was sent; here it is again.
    Unsent(Box<Request<Full<Bytes>>>, Failure),
    /// The request may have been received.
    Failed(Failure),
}

/// Sends `request` and reads its reply to the end: its status and its body.
///
/// `sent` is set from the moment in which the daemon may have received anything.
pub(crate) async fn exchange(
    connection: &mut Connection,
    request: Request<Full<Bytes>>,
    sent: &AtomicBool,
) -> Result<(u16, Vec<u8>), Broken> {
    let before = connection.traffic.read();
    sent.store(true, Ordering::Release);
    let response = match connection.sender.try_send_request(request).await {
        Ok(response) => response,
        Err(mut error) => {
            let request = error.take_message();
            let error = error.into_error();
            let Some(request) = request else {
                let answered = connection.traffic.read() > before;
                return Err(Broken::Failed(no_reply(&error, answered)));
            };
            sent.store(false, Ordering::Release);
            let text = "the daemon closed the connection before the request was sent";
            return Err(Broken::Unsent(
                Box::new(request),
                Failure::new(FailureClass::SocketSendFailed, text),
            ));
        }
    };
    let status = response.status().as_u16();
    let body = read_body(response).await.map_err(Broken::Failed)?;
    Ok((status, body))
}

fn no_reply(error: &hyper::Error, answered: bool) -> Failure {
    if error.is_parse() {
        let text = format!("what answers doesn't speak HTTP: {error}");
        Failure::new(FailureClass::SocketReplyMalformed, text)
    } else if answered {
        let text = "the connection broke within the head of the daemon's reply";
        Failure::new(FailureClass::SocketReplyTruncated, text)
    } else {
        let text = "the connection broke before the daemon answered";
        Failure::new(FailureClass::SocketLostAfterSend, text)
    }
}

async fn read_body(response: Response<Incoming>) -> Result<Vec<u8>, Failure> {
    let mut incoming = response.into_body();
    let too_large = || {
        let text = format!("the daemon's reply is larger than {LARGEST_REPLY} bytes");
        Failure::new(FailureClass::SocketReplyTooLarge, text)
    };
    if incoming.size_hint().lower() > LARGEST_REPLY as u64 {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| broken_body(&error))?;
        if let Ok(data) = frame.into_data() {
            if body.len() + data.len() > LARGEST_REPLY {
                return Err(too_large());
            }
            body.extend_from_slice(&data);
        }
    }
    Ok(body)
}

fn broken_body(error: &hyper::Error) -> Failure {
    let kind = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    if matches!(kind, Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)) {
        let text = format!("the daemon's reply breaks the rules of HTTP: {error}");
        return Failure::new(FailureClass::SocketReplyMalformed, text);
    }
    Failure::new(FailureClass::SocketReplyTruncated, "the daemon's reply breaks off in the middle")
}
