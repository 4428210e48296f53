//! Worktree directories: one identity a directory, however it is spelled.

use crate::fault::invalid;
use portreeve_records::WorkspaceRoot;
use portreeve_registry::{Failure, FailureClass};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a directory may take to answer; one on a dead mount never does.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a thread that looks waits for the next directory before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// How many threads are kept waiting at most.
const KEPT: usize = 8;

/// What was found: whether it is a directory, and its real path.
type Found = io::Result<(bool, PathBuf)>;

/// One directory to look at, and where to say what was found.
type Look = (String, Sender<Found>);

/// Threads that wait for a directory to look at.
static WAITING: Mutex<Vec<Sender<Look>>> = Mutex::new(Vec::new());

/// Looks at a directory on a thread of its own: on a dead mount that thread is lost, and this call is not.
/// A thread that has answered is kept for a while for the next call.
fn look(path: &str) -> Result<Found, NoAnswer> {
    loop {
        let waiting = waiting().pop();
        let thread = match waiting {
            Some(thread) => thread,
            None => start().map_err(NoAnswer::NoThread)?,
        };
        let (answer, found) = mpsc::channel();
        // One that has just ended takes nothing, or drops what it took with the answer's sender.
        if thread.send((path.to_owned(), answer)).is_err() {
            continue;
        }
        match found.recv_timeout(PATIENCE) {
            Ok(found) => {
                let mut waiting = self::waiting();
                if waiting.len() < KEPT {
                    waiting.push(thread);
                }
                return Ok(found);
            }
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => return Err(NoAnswer::Late),
        }
    }
}

fn waiting() -> MutexGuard<'static, Vec<Sender<Look>>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why nothing was found out.
enum NoAnswer {
    NoThread(io::Error),
    Late,
}

fn start() -> io::Result<Sender<Look>> {
    let (sender, looks) = mpsc::channel::<Look>();
    std::thread::Builder::new().name("workspace".into()).spawn(move || {
        while let Ok((path, answer)) = looks.recv_timeout(IDLE) {
            let real = fs::canonicalize(&path).and_then(|real| Ok((fs::metadata(&real)?.is_dir(), real)));
            // Whoever asked may have given up.
            drop(answer.send(real));
        }
    })?;
    Ok(sender)
}

/// The real path of a directory, without symbolic links.
pub(crate) fn real_path(root: &WorkspaceRoot, field: &[&str]) -> Result<WorkspaceRoot, Failure> {
    let found = look(root.as_str()).map_err(|no_answer| match no_answer {
        NoAnswer::NoThread(error) => {
            Failure::new(FailureClass::DaemonBusy, format!("no thread to look at {root}: {error}"))
        }
        NoAnswer::Late => {
            let seconds = PATIENCE.as_secs();
            let message = format!("{root} did not answer within {seconds} s; is it on a dead mount?");
            Failure::new(FailureClass::EvidenceUnavailable, message)
        }
    })?;
    let refused = |message: String| Err(invalid(field, "invalid_value", message));
    match found {
        Ok((true, real)) => match real.to_str().map(WorkspaceRoot::parse) {
            Some(Ok(real)) => Ok(real),
            Some(Err(expected)) => refused(format!("expected {expected}, and {root} leads elsewhere")),
            None => refused(format!("expected a path of UTF-8, and {root} leads to another one")),
        },
        Ok((false, _)) => refused(format!("expected a directory, and {root} is none")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            refused(format!("expected an existing directory, and {root} is missing"))
        }
        Err(error) => refused(format!("expected a readable directory, and {root} is not: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_at_once_and_one_after_another_are_each_answered() {
        let directory = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(directory.path()).unwrap();
        let path = directory.path().to_str().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 * KEPT {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let Ok(Ok(found)) = look(path) else { panic!("no answer") };
                        assert_eq!(found, (true, real.clone()));
                    }
                });
            }
        });
        assert!(waiting().len() <= KEPT);
        let Ok(missing) = look("/nowhere/at/all") else { panic!("no answer") };
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_thread_that_has_just_ended_is_passed_over() {
        let (sender, looks) = mpsc::channel::<Look>();
        drop(looks);
        waiting().push(sender);
        let Ok(Ok((directory, _))) = look("/") else { panic!("no answer") };
        assert!(directory);
    }
}
