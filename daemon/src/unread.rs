//! What hyper refuses by itself, in protocol 1's words: a head that is no HTTP/1.1, or too much of one.
//!
//! hyper answers such a request before any handler sees it, with a bare status and an empty body, and has no hook
//! for that. Every reply of ours has a body, so an error without one is hyper's: it is replaced on its way out.

use crate::router::malformed;
use crate::wire;
use hyper::rt::{Read, ReadBufCursor, Write};
use portreeve_registry::RequestId;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A connection whose refusals are worded.
pub(crate) struct Worded<T> {
    inner: T,
    /// What is written in place of hyper's own refusal, and how much of it has been.
    instead: Option<(Vec<u8>, usize)>,
}

impl<T> Worded<T> {
    pub(crate) fn new(inner: T) -> Worded<T> {
        Worded { inner, instead: None }
    }
}

/// The reply in place of hyper's, if `bytes` are one.
fn reworded(bytes: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(bytes).ok()?.strip_prefix("HTTP/1.")?;
    let status = head.split(' ').nth(1).filter(|status| status.starts_with('4'))?;
    if !head.contains("\r\ncontent-length: 0\r\n") {
        return None;
    }
    let failure = malformed(match status {
        "414" | "431" => "the request's head is larger than 64 KiB, or has more than 100 headers",
        _ => "the request is no HTTP/1.1",
    });
    let body = wire::failure(RequestId::fresh(), &failure).to_string();
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json; charset=utf-8\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    Some((head + &body).into_bytes())
}

impl<T: Read + Unpin> Read for Worded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for Worded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Worded { inner, instead } = &mut *self;
        if instead.is_none() {
            *instead = reworded(bytes).map(|text| (text, 0));
        }
        let Some((text, written)) = instead else {
            return Pin::new(inner).poll_write(cx, bytes);
        };
        while *written < text.len() {
            match ready!(Pin::new(&mut *inner).poll_write(cx, &text[*written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                more => *written += more,
            }
        }
        *instead = None;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::reworded;

    #[test]
    fn only_an_error_without_a_body_is_reworded() {
        let refusal =
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let text = String::from_utf8(reworded(refusal).expect("it is hyper's")).expect("it is text");
        assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("daemon.request_malformed"), "{text}");
        for other in [
            &b"HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n\r\n{\"error\": {}}"[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"\xff",
        ] {
            assert_eq!(reworded(other), None);
        }
    }
}
