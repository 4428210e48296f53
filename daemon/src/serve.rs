//! From a command line to a daemon that answers.

use crate::Daemon;
use crate::clock::{ClockError, SystemClock};
use crate::home::{Home, HomeError};
use crate::keeper;
use crate::log::Log;
use crate::server;
use crate::socket::{self, BoundSocket, SocketError};
use crate::store::{self, Store};
use portreeve_client::footprint;
use portreeve_client::places::{Places, PlacesError};
use portreeve_diagnostics::Mode;
use portreeve_evidence::{Kernel, Unknown};
use portreeve_registry::Failure;
use serde_json::Map;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Where to serve.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// The home; by default the socket's default directory.
    pub home: Option<PathBuf>,
    /// The socket; by default in the home.
    pub socket: Option<PathBuf>,
    /// Whether a supervisor started this process.
    pub supervised: bool,
}

/// Why the daemon didn't start, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nothing says where.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// The home can't be had.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The socket can't be bound.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// No time can be told.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The kernel can't be asked.
    #[error("the kernel can't be asked about ports")]
    Evidence(#[from] Unknown),
    /// What was stored can't be taken up.
    #[error("what was stored can't be taken up: {0}")]
    Prepare(Failure),
    /// The runtime or a signal handler can't be made, or the socket broke.
    #[error("the daemon can't go on")]
    Io(#[from] io::Error),
}

impl ServeError {
    /// What to do about it, as a sentence.
    pub fn next_step(&self) -> String {
        match self {
            ServeError::Places(_) => "Set PORTREEVE_HOME, or pass --home.".into(),
            ServeError::Home(error) => error.next_step().into(),
            ServeError::Socket(error) => error.next_step().into(),
            ServeError::Prepare(failure) => failure.next.text.clone(),
            ServeError::Clock(_) | ServeError::Evidence(_) | ServeError::Io(_) => {
                "Run `portreeve doctor`.".into()
            }
        }
    }
}

/// Serves until SIGTERM, SIGINT or a stop request; `ready` is called once the socket answers.
///
/// # Errors
/// Why it didn't start or ended early.
pub fn serve(options: ServeOptions, ready: impl FnOnce(&Places)) -> Result<(), ServeError> {
    let places = Places::from_env(options.home, options.socket)?;
    let clock = SystemClock::new()?;
    let home = Home::open(&places.home, Some(&places.socket), &clock)?;
    for note in home.notes() {
        tracing::warn!(?note, home = %home.path().display(), "something about the home");
    }
    // Bound before the store is opened: whoever answers there is found before anything is touched.
    let socket = socket::bind(&places.socket, &home)?;
    raise_descriptors();
    // Starting and each request take a thread that may block; when the last of them ends, nobody has asked for a
    // while, and what they needed goes back.
    let busy = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&busy);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(64)
        .thread_keep_alive(Duration::from_secs(5))
        .on_thread_start(move || {
            busy.fetch_add(1, Ordering::Relaxed);
        })
        .on_thread_stop(move || {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                footprint::shrink();
            }
        })
        .build()?;
    let result = runtime.block_on(run(&home, socket, clock, options.supervised, || ready(&places)));
    // A thread lost on a dead mount must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}

async fn run(
    home: &Home,
    socket: BoundSocket,
    clock: SystemClock,
    supervised: bool,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let log = Log::open(home.path(), clock.clone());
    let store = Store::open(home.store_path());
    let mode = if supervised { Mode::Supervised } else { Mode::Manual };
    let daemon = Arc::new(Daemon::new(store, clock, Box::new(Kernel::new()?), log, mode));
    let preparing = Arc::clone(&daemon);
    let prepared = tokio::task::spawn_blocking(move || preparing.prepare()).await;
    if let Err(failure) = prepared.map_err(io::Error::other)? {
        // Damage was noted; then health and diagnostics are served all the same.
        if daemon.broken().is_none() {
            return Err(ServeError::Prepare(failure));
        }
    }
    daemon.log.write("info", "server", "PortReeve server started.", Map::new());
    daemon.log.write("info", "docker", "Container evidence is not available in this version.", Map::new());
    stop_on_signals(&daemon)?;
    let keeper = tokio::spawn(keeper::keep(Arc::clone(&daemon)));
    check_behind(&daemon, home.store_path());
    ready();
    let served = server::serve(Arc::clone(&daemon), socket).await;
    keeper.abort();
    daemon.log.write("info", "server", "PortReeve server stopped.", Map::new());
    served.map_err(ServeError::Io)
}

fn stop_on_signals(daemon: &Arc<Daemon>) -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind)?;
        let daemon = Arc::clone(daemon);
        tokio::spawn(async move {
            if signals.recv().await.is_some() {
                daemon.stop.send_replace(true);
            }
        });
    }
    Ok(())
}

/// Checks every page of the store behind the service, on a thread and a connection of its own.
fn check_behind(daemon: &Arc<Daemon>, path: PathBuf) {
    if daemon.broken().is_some() {
        return;
    }
    let daemon = Arc::clone(daemon);
    let thread = std::thread::Builder::new().name("check".into()).spawn(move || {
        if let Err(error) = store::quick_check(&path) {
            daemon.break_off(&crate::fault::of_store(&error));
        }
    });
    if let Err(error) = thread {
        tracing::warn!(%error, "the store can't be checked behind the service");
    }
}

/// A pidfd for every process of every run: as many descriptors as the system allows.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of descriptors stays as it is");
    }
}
