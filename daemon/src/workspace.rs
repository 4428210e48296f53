//! Worktree directories: one identity a directory, however it is spelled.

use crate::fault::invalid;
use portreeve_records::WorkspaceRoot;
use portreeve_registry::{Failure, FailureClass};
use std::fs;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

/// How long a directory may take to answer; one on a dead mount never does.
const PATIENCE: Duration = Duration::from_secs(3);

/// The real path of a directory, without symbolic links.
///
/// The look is made on a thread of its own: on a dead mount that thread is lost, and this call is not.
pub(crate) fn real_path(root: &WorkspaceRoot, field: &[&str]) -> Result<WorkspaceRoot, Failure> {
    let path = root.as_str().to_owned();
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new()
        .name("workspace".into())
        .spawn(move || {
            let real = fs::canonicalize(&path).and_then(|real| Ok((fs::metadata(&real)?.is_dir(), real)));
            // Whoever asked may have given up.
            drop(sender.send(real));
        })
        .map_err(|e| Failure::new(FailureClass::DaemonBusy, format!("no thread to look at {root}: {e}")))?;
    let found = receiver.recv_timeout(PATIENCE).map_err(|_| {
        let message =
            format!("{root} did not answer within {} s; is it on a dead mount?", PATIENCE.as_secs());
        Failure::new(FailureClass::EvidenceUnavailable, message)
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
