//! The ways to the daemon: one client each for calls, custody, the end and diagnostics, so that none waits for
//! another.
//!
//! Where the daemon is, is found out when it is first needed: introducing itself and listing its tools takes the
//! bridge no environment and no disk.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use portreeve_client::places::{Places, Surroundings};
use portreeve_client::{Client, Options};
use portreeve_records::Origin;
use portreeve_registry::{Failure, FailureClass};

/// How long diagnosing may take.
const PROBE: Duration = Duration::from_secs(2);

/// Where the daemon is said to be, and who asks.
#[derive(Debug)]
pub(crate) struct Daemon {
    home: Option<PathBuf>,
    socket: Option<PathBuf>,
    origin: Origin,
    clients: OnceLock<Result<Clients, Box<Failure>>>,
}

/// Each has connections of its own.
#[derive(Debug)]
struct Clients {
    calls: Client,
    custody: Client,
    ending: Client,
    probe: Client,
}

impl Daemon {
    pub(crate) fn new(home: Option<PathBuf>, socket: Option<PathBuf>, origin: Origin) -> Self {
        Self { home, socket, origin, clients: OnceLock::new() }
    }

    /// For the calls.
    pub(crate) fn calls(&self) -> Result<&Client, Failure> {
        self.clients().map(|clients| &clients.calls)
    }

    /// For renewing what is held.
    pub(crate) fn custody(&self) -> Result<&Client, Failure> {
        self.clients().map(|clients| &clients.custody)
    }

    /// For giving back what is held.
    pub(crate) fn ending(&self) -> Result<&Client, Failure> {
        self.clients().map(|clients| &clients.ending)
    }

    /// For diagnosing: it waits for a short while only.
    pub(crate) fn probe(&self) -> Result<&Client, Failure> {
        self.clients().map(|clients| &clients.probe)
    }

    /// The daemon's socket.
    pub(crate) fn socket(&self) -> Result<&Path, Failure> {
        self.calls().map(|client| client.options().socket.as_path())
    }

    fn clients(&self) -> Result<&Clients, Failure> {
        let clients = self.clients.get_or_init(|| {
            let around = Surroundings::of_this_process();
            let socket =
                Places::socket(self.home.clone(), self.socket.clone(), &around).map_err(|error| {
                    Box::new(Failure::new(FailureClass::DaemonSocketAbsent, error.to_string()).next(
                        "name the socket: portreeve mcp serve --socket, or the variable PORTREEVE_SOCKET",
                    ))
                })?;
            let client = |deadline: Option<Duration>| {
                let mut options = Options::new(socket.clone(), self.origin.clone(), crate::VERSION);
                options.deadline = deadline.unwrap_or(options.deadline);
                Client::new(options)
            };
            Ok(Clients {
                calls: client(None),
                custody: client(None),
                ending: client(None),
                probe: client(Some(PROBE)),
            })
        });
        clients.as_ref().map_err(|failure| Failure::clone(failure))
    }
}
