//! Values on the command line: read as strictly as the daemon reads them.

use crate::report::invalid;
use portreeve_records::{Id, Named, Pid, PortNumber, WorkspaceRoot};
use portreeve_registry::Failure;
use std::path::{Path, PathBuf};

pub(crate) fn port(text: &str) -> Result<PortNumber, String> {
    let port = text.parse::<u16>().ok().and_then(PortNumber::new);
    port.ok_or_else(|| "a port is a number from 1 to 65535".to_owned())
}

pub(crate) fn pid(text: &str) -> Result<Pid, String> {
    text.parse::<u32>().ok().and_then(Pid::new).ok_or_else(|| "a process id is a number from 1".to_owned())
}

pub(crate) fn id(text: &str) -> Result<Id, String> {
    Id::parse(text).ok_or_else(|| "an id is a UUID, as PortReeve prints it".to_owned())
}

pub(crate) fn name(text: &str) -> Result<Named, String> {
    Named::parse(text).map_err(|expected| format!("expected {expected}"))
}

/// A worktree's directory: `given` or the working directory, as its real path.
pub(crate) fn workspace(given: Option<&Path>) -> Result<WorkspaceRoot, Failure> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_dir()
            .map_err(|error| invalid(format!("there is no working directory: {error}")))?,
    };
    let real = path
        .canonicalize()
        .map_err(|error| invalid(format!("the workspace {} can't be used: {error}", path.display())))?;
    if !real.is_dir() {
        return Err(invalid(format!("the workspace {} is no directory", path.display())));
    }
    let text = real.to_str().ok_or_else(|| {
        let shown = real.to_string_lossy();
        invalid(format!("the workspace's path isn't UTF-8, which a claim can't hold: {shown}"))
    })?;
    WorkspaceRoot::parse(text).map_err(|expected| invalid(format!("the workspace has to be {expected}")))
}

/// A worktree to look for: its real path if it is there, else the absolute path that was given, since a claim
/// outlives its worktree.
pub(crate) fn workspace_to_find(given: Option<PathBuf>) -> Result<Option<WorkspaceRoot>, Failure> {
    let Some(path) = given else { return Ok(None) };
    let full = path.canonicalize().or_else(|_| std::path::absolute(&path));
    let full = full.map_err(|error| invalid(format!("{} can't be used: {error}", path.display())))?;
    let text = full.to_str().ok_or_else(|| {
        invalid(format!(
            "the workspace's path isn't UTF-8, which a claim can't hold: {}",
            full.to_string_lossy()
        ))
    })?;
    WorkspaceRoot::parse(text)
        .map(Some)
        .map_err(|expected| invalid(format!("the workspace has to be {expected}")))
}
