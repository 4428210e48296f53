//! The client: calls, over a few kept connections, each under one deadline.

use crate::ask::{self, Ask};
use crate::compatibility::{self, Compatibility};
use crate::connection::Connection;
use crate::exchange::{Broken, exchange};
use crate::{clock, reply};
use portreeve_records::Origin;
use portreeve_registry::{Call, Failure, FailureClass, Manner, Operation, Outcome, decode};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a call may take unless it says otherwise.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(20);

/// How many connections are kept while nobody uses them.
const MOST_IDLE: usize = 4;

/// Where the daemon is, and who asks it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The daemon's socket, absolute.
    pub socket: PathBuf,
    /// Who asks, for history.
    pub origin: Origin,
    /// The version of the program that asks.
    pub software_version: String,
    /// How long a whole call may take: connecting, sending, waiting and reading.
    pub deadline: Duration,
}

impl Options {
    /// These, with [`DEFAULT_DEADLINE`].
    pub fn new(socket: PathBuf, origin: Origin, software_version: impl Into<String>) -> Options {
        Options { socket, origin, software_version: software_version.into(), deadline: DEFAULT_DEADLINE }
    }
}

/// A client of one daemon. Cloning it is cheap, and the clones share their connections.
///
/// It connects when it is first asked, needs a tokio runtime with I/O and time, and can be used by any number of
/// tasks at once.
/// Dropping a call hangs up: the daemon frees what the request held, but an effect that it has begun stands.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    /// A client that hasn't connected yet.
    pub fn new(options: Options) -> Client {
        Client { inner: Arc::new(Inner { options, idle: Mutex::new(Vec::new()) }) }
    }

    /// Where the daemon is, and who asks it.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Asks operation `O`, under a fresh request id.
    ///
    /// # Errors
    /// The daemon's failure, or why there is no reply.
    pub async fn call<O: Operation>(&self, request: &O::Request) -> Result<O::Reply, Failure> {
        self.call_as::<O>(request, Ask::fresh()).await
    }

    /// Asks operation `O` as `ask` says.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_as<O: Operation>(&self, request: &O::Request, ask: Ask) -> Result<O::Reply, Failure> {
        let call = Call::of::<O>(request).map_err(|error| {
            Failure::new(FailureClass::DaemonInvalidInput, format!("the request can't be written: {error}"))
        })?;
        typed(self.ask(&call, ask).await?)
    }

    /// Asks what `call` says, and gives the reply's `data`.
    ///
    /// # Errors
    /// The daemon's failure, or why there is no reply.
    pub async fn ask(&self, call: &Call, ask: Ask) -> Result<Value, Failure> {
        let within = ask.deadline.unwrap_or(self.inner.options.deadline);
        let sent = AtomicBool::new(false);
        let work = self.ask_without_deadline(call, &ask, &sent);
        match tokio::time::timeout_at(clock::deadline(within), work).await {
            Ok(answer) => answer,
            Err(_) => Err(late(within, sent.load(Ordering::Acquire))),
        }
    }

    /// What a fresh connection finds at the other end.
    ///
    /// It answers also where the two don't fit together, so that both versions can be shown.
    ///
    /// # Errors
    /// Why the daemon can't be reached, or `compat.protocol_incompatible` if it tells of itself in a way that this
    /// client can't read.
    pub async fn compatibility(&self) -> Result<Compatibility, Failure> {
        let within = self.inner.options.deadline;
        let work = Connection::open(&self.inner.options);
        match tokio::time::timeout_at(clock::deadline(within), work).await {
            Ok(opened) => {
                let connection = opened?;
                let health = connection.health.clone();
                self.keep(connection);
                Ok(Compatibility::new(&self.inner.options.software_version, health))
            }
            Err(_) => Err(late(within, false)),
        }
    }

    async fn ask_without_deadline(
        &self,
        call: &Call,
        ask: &Ask,
        sent: &AtomicBool,
    ) -> Result<Value, Failure> {
        let options = &self.inner.options;
        let mut request = ask::write(options, call, ask)?;
        let (mut connection, mut kept) = match self.take_idle().await {
            Some(connection) => (connection, true),
            None => (Connection::open(options).await?, false),
        };
        let (status, body) = loop {
            compatibility::check(&options.software_version, &connection.health, call.capability)?;
            match exchange(&mut connection, request, sent).await {
                Ok(reply) => break reply,
                // It died between the look and the use, and nothing was sent.
                Err(Broken::Unsent(unsent, _)) if kept => {
                    request = *unsent;
                    connection = Connection::open(options).await?;
                    kept = false;
                }
                Err(Broken::Unsent(_, failure) | Broken::Failed(failure)) => return Err(failure),
            }
        };
        let envelope = reply::read(status, &body, ask.request_id)?;
        if envelope.version != Some(1) {
            let text = "the daemon's reply isn't in protocol 1";
            return Err(Failure::new(FailureClass::SocketReplyMalformed, text));
        }
        self.keep(connection);
        envelope.content
    }

    async fn take_idle(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle().pop()?;
            if connection.is_usable().await {
                return Some(connection);
            }
        }
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < MOST_IDLE && !connection.sender.is_closed() {
            idle.push(connection);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a reply's data into its type.
pub(crate) fn typed<T: serde::de::DeserializeOwned>(data: Value) -> Result<T, Failure> {
    decode(data, Manner::default()).map_err(|issue| {
        let text = format!("the daemon's reply can't be read: {issue}");
        Failure::new(FailureClass::SocketReplyMalformed, text)
    })
}

fn late(within: Duration, sent: bool) -> Failure {
    let text = format!("the daemon didn't answer within {} ms", within.as_millis());
    let outcome = if sent { Outcome::Unknown } else { Outcome::NotStarted };
    Failure::new(FailureClass::SocketDeadline, text).outcome(outcome)
}
