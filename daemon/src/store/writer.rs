//! The one thread that writes: it groups what is waiting into one transaction and answers after the commit.
//!
//! Each request of a group runs behind a savepoint of its own, so a refusal or a panic undoes that request and
//! nothing else. A commit that fails fails the whole group with nothing applied.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::connection;
use super::error::{StoreError, WriteError};

/// The most requests that share a commit: bounds how long the first of them waits for the last.
const GROUP: usize = 64;

/// What runs after the commit.
type Hook = Box<dyn FnOnce() + Send>;

/// A request's view of the writer's transaction.
///
/// Use it as the connection that it derefs to, but leave `BEGIN`, `COMMIT` and `ROLLBACK` to the writer.
pub struct Tx<'conn> {
    conn: &'conn Connection,
    hooks: RefCell<Vec<Hook>>,
}

impl Tx<'_> {
    /// Runs `hook` on the writer's thread once this request is durable, before anybody of its group is answered.
    ///
    /// In the order in which hooks were given; not at all if the request is undone. A hook must be short and
    /// must not write to the store and wait for it: it would wait for itself.
    pub fn after_commit(&self, hook: Box<dyn FnOnce() + Send>) {
        self.hooks.borrow_mut().push(hook);
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn
    }
}

impl std::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("hooks", &self.hooks.borrow().len()).finish_non_exhaustive()
    }
}

/// The writer's end that the store holds. Dropping it closes the queue and waits for what is in it.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread; the connection is its own from then on.
    pub(super) fn start(conn: Connection) -> Result<Self, StoreError> {
        let (queue, jobs) = channel();
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write_all(&conn, &jobs))
            .map_err(connection::on_disk)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues `work`. The answer's sender is dropped unanswered if the writer is gone.
    pub(super) fn submit<T, E, F>(&self, work: F) -> oneshot::Receiver<Result<T, WriteError<E>>>
    where
        F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Request { work: Some(work), outcome: None, reply });
        if let Some(queue) = &self.queue {
            // A job that can't be sent is dropped with its reply's sender, which says the same.
            drop(queue.send(job));
        }
        answer
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The last clone of a store may be dropped by a hook, on the writer's own thread.
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("the store's writer panicked");
            }
        }
    }
}

/// A queued request, its types hidden.
trait Job: Send {
    /// Runs the closure. True: keep what it did.
    fn run(&mut self, tx: &Tx<'_>) -> bool;

    /// Answers: with the closure's own outcome, or with `failure` where that would be a lie.
    fn answer(self: Box<Self>, failure: Option<&StoreError>);
}

struct Request<F, T, E> {
    work: Option<F>,
    outcome: Option<Result<T, WriteError<E>>>,
    reply: oneshot::Sender<Result<T, WriteError<E>>>,
}

impl<F, T, E> Job for Request<F, T, E>
where
    F: FnOnce(&Tx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: Send,
{
    fn run(&mut self, tx: &Tx<'_>) -> bool {
        let Some(work) = self.work.take() else {
            return false;
        };
        let outcome = match catch_unwind(AssertUnwindSafe(|| work(tx))) {
            Ok(result) => result.map_err(WriteError::Refused),
            Err(panic) => Err(WriteError::Panicked(message(panic.as_ref()))),
        };
        let keep = outcome.is_ok();
        self.outcome = Some(outcome);
        keep
    }

    fn answer(self: Box<Self>, failure: Option<&StoreError>) {
        let answer = match (self.outcome, failure) {
            // What was refused stays refused, whatever became of the group.
            (Some(Err(error)), _) => Err(error),
            (_, Some(failure)) => Err(WriteError::Store(failure.clone())),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(WriteError::Store(StoreError::Closed)),
        };
        // Whoever asked may have gone away; what was committed stays so.
        drop(self.reply.send(answer));
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// The thread: ends when every sender is gone and the queue is empty.
fn write_all(conn: &Connection, jobs: &Receiver<Box<dyn Job>>) {
    while let Ok(first) = jobs.recv() {
        let mut waiting: Vec<_> = std::iter::once(first).chain(jobs.try_iter().take(GROUP - 1)).collect();
        while !waiting.is_empty() {
            waiting = write_group(conn, waiting);
        }
    }
}

/// Runs one transaction and answers everybody who was in it; returns those whose turn did not come.
fn write_group(conn: &Connection, jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
    if let Err(error) = begin(conn) {
        jobs.into_iter().for_each(|job| job.answer(Some(&error)));
        return Vec::new();
    }
    let mut hooks = Vec::new();
    let mut run = Vec::with_capacity(jobs.len());
    let mut rest = jobs.into_iter();
    let mut failure = None;
    for mut job in rest.by_ref() {
        let ran = run_one(conn, job.as_mut());
        run.push(job);
        match ran {
            Ok(more) => hooks.extend(more),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let failure = failure.or_else(|| commit(conn).err());
    if failure.is_some() {
        abort(conn);
    } else {
        for hook in hooks {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(hook)) {
                tracing::error!(message = message(panic.as_ref()), "a hook panicked after its commit");
            }
        }
    }
    run.into_iter().for_each(|job| job.answer(failure.as_ref()));
    rest.collect()
}

/// Runs one request behind its savepoint. `Err`: the whole transaction is lost.
fn run_one(conn: &Connection, job: &mut dyn Job) -> Result<Vec<Hook>, StoreError> {
    cached(conn, "SAVEPOINT request")?;
    let tx = Tx { conn, hooks: RefCell::default() };
    let keep = job.run(&tx);
    // After some failures (a full disk, an I/O error) SQLite rolls back by itself, and the savepoints are gone.
    if conn.is_autocommit() {
        return Err(StoreError::Undone);
    }
    if !keep {
        cached(conn, "ROLLBACK TO request")?;
    }
    cached(conn, "RELEASE request")?;
    Ok(if keep { tx.hooks.into_inner() } else { Vec::new() })
}

fn begin(conn: &Connection) -> Result<(), StoreError> {
    cached(conn, "BEGIN IMMEDIATE")
}

fn commit(conn: &Connection) -> Result<(), StoreError> {
    cached(conn, "COMMIT")
}

/// Leaves no transaction open, so that the next group can begin.
fn abort(conn: &Connection) {
    if !conn.is_autocommit()
        && let Err(error) = conn.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "the store's transaction can't be rolled back");
    }
}

fn cached(conn: &Connection, sql: &str) -> Result<(), StoreError> {
    conn.prepare_cached(sql)?.execute(())?;
    Ok(())
}
