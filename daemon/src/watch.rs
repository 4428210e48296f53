//! Death is noticed by event: a pidfd on every process that proves a run, and nobody asks or polls.
//!
//! A run's task waits until its root and all its remembered listeners have ended, and then records that the run
//! is over. While everything lives, nothing wakes up.

use crate::Daemon;
use crate::leases;
use crate::ownership::{self, Life};
use crate::rows::{self, RunRow};
use crate::store::Tx;
use portreeve_evidence::{NoPidfd, ProcessId};
use portreeve_records::Id;
use portreeve_registry::Failure;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{Interest, unix::AsyncFd};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// How long to wait before a process is looked at again for which the system gave no pidfd.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The runs that are watched.
#[derive(Debug)]
pub(crate) struct Watch {
    runtime: Handle,
    tasks: Mutex<HashMap<Id, AbortHandle>>,
}

impl Watch {
    pub(crate) fn new(runtime: Handle) -> Watch {
        Watch { runtime, tasks: Mutex::default() }
    }

    /// Watches a run from now on.
    pub(crate) fn run(&self, daemon: &Arc<Daemon>, run: &RunRow) {
        let id = run.view.id;
        let task = self.runtime.spawn(watch(Arc::clone(daemon), id, run.processes()));
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = tasks.insert(id, task.abort_handle()) {
            earlier.abort();
        }
        tasks.retain(|_, task| !task.is_finished());
    }

    /// A run is over: nobody need wait for its end.
    pub(crate) fn forget(&self, id: Id) {
        if let Some(task) = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(&id) {
            task.abort();
        }
    }
}

async fn watch(daemon: Arc<Daemon>, id: Id, processes: Vec<ProcessId>) {
    loop {
        for process in &processes {
            ended(&daemon, *process).await;
        }
        let at = Arc::clone(&daemon);
        match daemon.write_async(move |tx| record(&at, tx, id)).await {
            Ok(true) => return,
            Ok(false) => tracing::debug!(run = %id, "that a run is over is not certain yet"),
            Err(failure) => {
                tracing::warn!(run = %id, %failure, "the end of a run could not be recorded");
                if daemon.broken().is_some() {
                    return;
                }
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Records that a run is over; false while that is not certain.
fn record(daemon: &Arc<Daemon>, tx: &Tx<'_>, id: Id) -> Result<bool, Failure> {
    let now = daemon.clock().now();
    let Some(run) = rows::find_run(tx, "id = ?1 AND state = 'confirmed'", [id.to_string()])? else {
        return Ok(true);
    };
    let boot_id = daemon.clock().boot_id();
    // Looked at once more: only what is conclusively over is recorded as over.
    if ownership::life(&run, boot_id, daemon.evidence()) != Life::Over {
        return Ok(false);
    }
    let reason = if run.boot_id == boot_id { "processes-ended" } else { "machine-restarted" };
    leases::release(daemon, tx, None, &now, id, Some(reason))?;
    Ok(true)
}

/// Waits until a process has ended.
async fn ended(daemon: &Arc<Daemon>, process: ProcessId) {
    loop {
        match daemon.evidence().pidfd(process) {
            Ok(fd) => {
                if readable(fd).await.is_ok() {
                    return;
                }
            }
            Err(NoPidfd::Gone) => return,
            Err(NoPidfd::Unknown(why)) => tracing::debug!(pid = process.pid, %why, "no pidfd"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

#[expect(
    unsafe_code,
    reason = "tokio's registration asks for a descriptor that stays open, which the type proves"
)]
async fn readable(fd: OwnedFd) -> std::io::Result<()> {
    // SAFETY: an `OwnedFd` is open and keeps its number until it is dropped, and the `AsyncFd` owns it.
    let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }
        .map_err(|refused| refused.into_parts().1)?;
    fd.readable().await?.retain_ready();
    Ok(())
}

/// Takes up the watch after a start: runs that ended meanwhile, or of another boot, are over.
///
/// Blocks until their ends are recorded; what can't be recorded now (a full disk) is tried again later.
pub(crate) fn resume(daemon: &Arc<Daemon>) -> Result<(), Failure> {
    let boot_id = daemon.clock().boot_id();
    let (here, gone): (Vec<RunRow>, Vec<RunRow>) = daemon
        .read(|conn| rows::runs(conn, "state = 'confirmed'", ()))?
        .into_iter()
        .partition(|run| ownership::life(run, boot_id, daemon.evidence()) != Life::Over);
    here.iter().for_each(|run| daemon.watch().run(daemon, run));
    let ids: Vec<Id> = gone.iter().map(|run| run.view.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let at = Arc::clone(daemon);
    let recorded = daemon.write(move |tx| ids.iter().try_for_each(|id| record(&at, tx, *id).map(drop)));
    if let Err(failure) = recorded {
        tracing::warn!(%failure, "the ends of runs could not be recorded");
        for mut run in gone {
            // The numbers of another boot mean other processes now.
            if run.boot_id != boot_id {
                run.root = None;
                run.listeners.clear();
            }
            daemon.watch().run(daemon, &run);
        }
    }
    Ok(())
}
