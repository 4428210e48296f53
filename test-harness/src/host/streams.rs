//! The bridge's streams, each read by a thread of its own.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// The messages on a stream, which holds nothing else.
pub(super) fn messages(stream: ChildStdout, printed: Arc<Mutex<Vec<u8>>>) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            if stream.read_until(b'\n', &mut line).is_err() || line.is_empty() {
                return;
            }
            printed.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&line);
            let stray = || panic!("a stray line on stdout: {:?}", String::from_utf8_lossy(&line));
            let message: Value = serde_json::from_slice(&line).unwrap_or_else(|_| stray());
            if message["jsonrpc"] != "2.0" {
                stray();
            }
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Keeps all that comes.
pub(super) fn keep(mut stream: impl Read + Send + 'static, printed: Arc<Mutex<Vec<u8>>>) {
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            printed.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..count]);
        }
    });
}
