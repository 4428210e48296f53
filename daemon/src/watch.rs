//! Death is noticed by event: a pidfd on every process that proves a run, and nobody asks or polls.
//!
//! A run's task waits until its root and all its remembered listeners have ended, and then records that the run
//! is over. While everything lives, nothing wakes up.

use crate::Daemon;
use crate::leases;
use crate::ownership::{self, Life};
use crate::rows::{self, RunRow};
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
    for process in processes {
        ended(&daemon, process).await;
    }
    let at = Arc::clone(&daemon);
    let noticed = daemon
        .write_async(move |tx| {
            let now = at.clock().now();
            let Some(run) = rows::find_run(tx, "id = ?1 AND state = 'confirmed'", [id.to_string()])? else {
                return Ok(false);
            };
            // Looked at once more: only what is conclusively over is recorded as over.
            if ownership::life(&run, at.clock().boot_id(), at.evidence()) != Life::Over {
                return Ok(false);
            }
            leases::release(&at, tx, None, &now, id, Some("processes-ended"))
        })
        .await;
    if let Err(failure) = noticed {
        tracing::warn!(run = %id, %failure, "the end of a run could not be recorded");
    }
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
pub(crate) fn resume(daemon: &Arc<Daemon>) -> Result<(), Failure> {
    let boot_id = daemon.clock().boot_id().to_owned();
    for run in daemon.read(|conn| rows::runs(conn, "state = 'confirmed'", ()))? {
        let reason = if run.boot_id == boot_id { "processes-ended" } else { "machine-restarted" };
        match ownership::life(&run, &boot_id, daemon.evidence()) {
            Life::Over => {
                let (at, id) = (Arc::clone(daemon), run.view.id);
                daemon.write(move |tx| {
                    let now = at.clock().now();
                    leases::release(&at, tx, None, &now, id, Some(reason))
                })?;
            }
            Life::Alive | Life::Unknown(_) => daemon.watch().run(daemon, &run),
        }
    }
    Ok(())
}
