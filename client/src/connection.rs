//! One kept connection: made, greeted, and looked at again before each use.

use crate::ask::{self, Ask};
use crate::compatibility::incompatible;
use crate::connect::connect;
use crate::exchange::{Broken, exchange};
use crate::reply;
use crate::traffic::{Counted, Traffic};
use crate::{LARGEST_REPLY, Options};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use portreeve_diagnostics::{GetHealth, Health, Nothing, ProtocolRange};
use portreeve_registry::{Call, Failure, FailureClass, Manner, Outcome, decode};
use rustix::net::{RecvFlags, recv};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use tokio::task::JoinHandle;

/// The most that hyper buffers of a reply's head.
const LARGEST_HEAD: usize = 64 * 1024;

/// A connection whose daemon has said what it is.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    pub(crate) traffic: Traffic,
    pub(crate) health: Health,
    watch: OwnedFd,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The socket closes with its driver, and the daemon frees what the request held.
        self.driver.abort();
    }
}

impl Connection {
    /// Connects, and asks the daemon what it is.
    ///
    /// Nothing that the caller asks for has been sent when this fails, so the outcome is always `not_started`.
    pub(crate) async fn open(options: &Options) -> Result<Connection, Failure> {
        let stream = connect(&options.socket).await?;
        let fault = |what: &str| Failure::new(FailureClass::SocketSendFailed, what);
        let watch = rustix::io::fcntl_dupfd_cloexec(&stream, 3)
            .map_err(|error| fault(&format!("the socket can't be watched: {error}")))?;
        let traffic = Traffic::default();
        let io = TokioIo::new(Counted::new(stream, traffic.clone()));
        let (sender, driver) = Builder::new()
            .max_buf_size(LARGEST_HEAD)
            .handshake(io)
            .await
            .map_err(|error| fault(&format!("the connection can't be set up: {error}")))?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "a connection to the daemon ended");
            }
        });
        let mut connection = Connection { sender, traffic, health: unknown(), watch, driver };
        match connection.greet(options).await {
            Ok(health) => {
                connection.health = health;
                Ok(connection)
            }
            Err(failure) => Err(failure.outcome(Outcome::NotStarted)),
        }
    }

    async fn greet(&mut self, options: &Options) -> Result<Health, Failure> {
        let call = Call::of::<GetHealth>(&Nothing {}).expect("no field and no placeholder");
        let ask = Ask::fresh();
        let request = ask::write(options, &call, &ask)?;
        let (status, body) = match exchange(self, request, &AtomicBool::new(false)).await {
            Ok(reply) => reply,
            Err(Broken::Unsent(_, failure) | Broken::Failed(failure)) => return Err(failure),
        };
        let envelope = reply::read(status, &body, ask.request_id)?;
        let data = envelope.content?;
        let version = data.get("softwareVersion").and_then(Value::as_str).map(str::to_owned);
        let protocol = data.get("protocol").cloned().unwrap_or_default();
        decode::<Health>(data, Manner::default()).map_err(|issue| {
            // A daemon of another protocol may tell of itself in another shape.
            let spoken = decode::<ProtocolRange>(protocol, Manner::default()).ok().or_else(|| {
                let only = u32::try_from(envelope.version?).ok()?;
                Some(ProtocolRange { minimum: only, maximum: only })
            });
            match spoken {
                Some(spoken) if spoken.minimum > 1 || spoken.maximum < 1 => {
                    incompatible(&options.software_version, version.as_deref(), spoken)
                }
                _ => Failure::new(
                    FailureClass::SocketReplyMalformed,
                    format!("what answers isn't PortReeve: {issue}"),
                ),
            }
        })
    }

    /// Whether it can take another request: the daemon has neither closed it nor said anything unasked.
    pub(crate) async fn is_usable(&mut self) -> bool {
        if self.sender.is_closed() {
            return false;
        }
        let mut byte = [0u8; 1];
        match recv(&self.watch, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN) => self.sender.ready().await.is_ok(),
            // Closed, or a second reply to something that was answered already.
            _ => false,
        }
    }
}

fn unknown() -> Health {
    Health {
        software_version: String::new(),
        protocol: ProtocolRange { minimum: 0, maximum: 0 },
        capabilities: Vec::new(),
        pid: portreeve_records::Pid::new(1).expect("one is a pid"),
        mode: portreeve_diagnostics::Mode::Manual,
        store: None,
    }
}

const _: () = assert!(LARGEST_HEAD < LARGEST_REPLY);
