//! Processes of the tour: each in a group of its own, so that Ctrl-C reaches the tour alone, and each ended by its
//! own handle when the tour lets go of it.

use super::told::{Ended, Told};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// This program, whatever it is called and wherever it is.
pub(super) fn this_program() -> Result<Command, Ended> {
    let path = std::env::current_exe().map_err(|error| Ended::unexpected(format!("no own path: {error}")))?;
    let mut command = Command::new(path);
    for name in ["PORTREEVE_HOME", "PORTREEVE_SOCKET", "PORTREEVE_SUPERVISED"] {
        command.env_remove(name);
    }
    Ok(command)
}

/// A process that ends with its handle.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    what: String,
}

impl Running {
    /// Starts `command` with pipes for stdin and stdout. Who reads its stdin to the end outlives no tour, however the
    /// tour ends.
    pub(super) fn start(mut command: Command, what: impl Into<String>) -> Result<Running, Ended> {
        let what = what.into();
        let child =
            command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        match child.spawn() {
            Ok(child) => Ok(Running { child, what }),
            Err(error) => Err(Ended::unexpected(format!("{what} can't be started: {error}"))),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, Ended> {
        self.child.try_wait().map_err(|error| Ended::unexpected(format!("{}: {error}", self.what)))
    }

    /// Waits until it ends by itself, and expects that it ends well.
    pub(super) fn ends_well(mut self, told: &Told) -> Result<(), Ended> {
        self.child.stdin.take();
        let what = format!("the end of {}", self.what);
        let status = told.wait(&what, || self.ended())?;
        if status.success() { Ok(()) } else { Err(Ended::Unexpected(format!("{}: {status}", self.what))) }
    }

    /// Ends it without warning, as a crash does.
    pub(super) fn crash(mut self) -> Result<(), Ended> {
        let crashed = self.child.kill().and_then(|()| self.child.wait());
        crashed
            .map(|_| ())
            .map_err(|error| Ended::unexpected(format!("{} can't be ended: {error}", self.what)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // By its handle, not by a number: once it was waited for, this does nothing.
        if self.child.kill().is_ok() {
            self.child.wait().ok();
        }
    }
}
