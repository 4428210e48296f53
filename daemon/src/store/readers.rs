//! A few connections that can't write, each lent to one reader at a time for one snapshot.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use rusqlite::Connection;

use super::connection;
use super::error::StoreError;

/// More would cost memory and gain nothing: a read takes microseconds.
const MOST: usize = 4;

/// The pool. Connections are opened when they are first needed.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Connection>,
    open: usize,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), state: Mutex::default(), returned: Condvar::new() }
    }

    pub(super) fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E>,
        E: From<StoreError>,
    {
        let conn = self.borrow()?;
        let result = conn.execute_batch("BEGIN DEFERRED").map_err(StoreError::from);
        // A panic goes on after the connection is back: losing it would starve the other readers.
        let outcome = result.map(|()| catch_unwind(AssertUnwindSafe(|| work(&conn))));
        let usable = conn.is_autocommit() || conn.execute_batch("ROLLBACK").is_ok();
        self.give_back(usable.then_some(conn));
        match outcome {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(error) => Err(error.into()),
        }
    }

    fn borrow(&self) -> Result<Connection, StoreError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self
            .returned
            .wait_while(state, |state| state.idle.is_empty() && state.open == MOST)
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(conn) = state.idle.pop() {
            return Ok(conn);
        }
        state.open += 1;
        drop(state);
        connection::open_reader(&self.path).inspect_err(|_| self.give_back(None))
    }

    /// `None` counts one connection less.
    fn give_back(&self, conn: Option<Connection>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match conn {
            Some(conn) => state.idle.push(conn),
            None => state.open -= 1,
        }
        drop(state);
        self.returned.notify_one();
    }
}
