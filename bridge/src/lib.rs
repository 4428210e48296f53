//! The bridge: MCP over stdio for one agent host.
//!
//! It advertises the tools of the linked domains, sends each call to the daemon, keeps credentials in custody and
//! accounts for every failure. A daemon that is absent, stopped, incompatible or restarted never ends it: the
//! next call works again.
//!
//! Where to begin reading: `call` is one call from top to bottom, [`edge`] is everything that a host
//! can do to the pipes, [`server`] is MCP, `custody` is where the credentials are.
//!
//! **Invariant:** no path of the dependency graph leads from here to SQLite, and nothing here starts a process or
//! listens. **Invariant:** every accepted request is answered exactly once, within its bounds.

mod advertise;
pub mod answer;
mod bounds;
mod call;
mod clock;
mod custody;
mod daemon;
pub mod edge;
mod house;
mod local;
mod policy;
mod record;
pub mod server;
mod size;
mod telling;
mod toolset;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portreeve_client::footprint;
use portreeve_records::{Id, Named, Origin, OriginKind};
use portreeve_registry::LoadError;

use self::advertise::Tools;
use self::custody::{Custody, ending, renewal};
use self::daemon::Daemon;
use self::edge::closing::{self, Closing, Parent};
use self::edge::{Notices, Stdio};
use self::house::Bridge;
use self::record::Record;
use self::server::Server;
pub use self::toolset::{Toolset, UnknownToolset, names as toolset_names};

/// This program's version, as hosts and the daemon are told.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long giving back what is held may take when the bridge ends.
const GIVING_BACK: Duration = Duration::from_millis(500);

/// How `portreeve mcp serve` was asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--home`; only where no socket is named.
    pub home: Option<PathBuf>,
    /// `--socket`.
    pub socket: Option<PathBuf>,
    /// `--label`: who this host is in history.
    pub label: Option<Named>,
    /// `--tools`.
    pub tools: Toolset,
}

/// Why the bridge could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The linked tools are no registry.
    #[error("the linked tools break a rule")]
    Registry(#[source] LoadError),
    /// The runtime, the signals or the streams could not be set up.
    #[error("stdin and stdout can't be served")]
    Setup(#[source] io::Error),
}

/// Serves MCP on stdin and stdout until the host closes stdin, a signal comes or the parent is gone.
///
/// `Ok` is exit code 0, whatever the host or the daemon did. Call it first thing in the process and from its main
/// thread: it takes descriptors 0 and 1 for itself.
///
/// # Errors
/// Only before anything is served.
pub fn serve(options: Options) -> Result<(), ServeError> {
    let parent = Parent::take();
    let tools = Tools::load(&options.tools).map_err(ServeError::Registry)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Setup)?;
    let served = runtime.block_on(run(options, tools, parent));
    // A read of a terminal or a file can't be interrupted; it is left behind.
    runtime.shutdown_background();
    served.map_err(ServeError::Setup)
}

async fn run(options: Options, tools: Tools, parent: Parent) -> io::Result<()> {
    let closing = Closing::new();
    closing::watch(&closing, parent)?;
    let stdio = Stdio::take()?;
    let run_id = Id::fresh();
    let origin = Origin { kind: OriginKind::Mcp, run_id: Some(run_id), label: options.label.clone() };
    let bridge = Arc::new(Bridge {
        tools,
        daemon: Daemon::new(options.home, options.socket, origin),
        custody: Custody::default(),
        record: Record::default(),
        run_id,
        label: options.label,
        begun: Instant::now(),
    });
    tokio::spawn(renewal::run(bridge.clone()));
    let early = tokio::spawn(give_back_at_once(bridge.clone(), closing.clone()));
    let server = Server::new(bridge.clone(), closing.clone(), VERSION);
    // The command line is parsed and the schemas are made.
    footprint::shrink();
    let notices = Notices::new({
        let bridge = bridge.clone();
        move |event| bridge.record.transport(&event)
    });
    edge::serve(stdio, Arc::new(server), closing.clone(), notices).await;
    // The session can end before anybody said so, if rmcp gives up; what is held goes back all the same.
    closing.begin(closing::Reason::StdinEnded);
    if let Ok(in_time) = early.await
        && in_time
    {
        // What calls in flight used then, or got since.
        give_back(&bridge).await;
    }
    Ok(())
}

/// Gives back what is held as soon as the end begins, beside the calls in flight.
async fn give_back_at_once(bridge: Arc<Bridge>, closing: Closing) -> bool {
    closing.begun().await;
    give_back(&bridge).await
}

/// Whether it was done in time.
async fn give_back(bridge: &Bridge) -> bool {
    match bridge.daemon.ending() {
        Ok(client) => ending::give_back(&bridge.custody, client, GIVING_BACK).await,
        Err(_) => true,
    }
}
