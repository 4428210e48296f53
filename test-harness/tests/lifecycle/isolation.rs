//! Other surroundings for a process: a network, mounts or pids of its own. They go with their last process.

use portreeve_test_harness::machine::{as_user, spawn};
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Namespaces that a process keeps alive; it is ended when dropped.
pub(crate) struct Inside {
    keeper: Child,
    enter: &'static [&'static str],
}

impl Inside {
    /// A network of its own in which `script` was run. None where that can't be had.
    pub(crate) fn network(script: &str) -> Option<Inside> {
        Inside::new(&["--net"], &["--net"], script)
    }

    /// Mounts of its own in which `script` was run.
    pub(crate) fn mounts(script: &str) -> Option<Inside> {
        Inside::new(&["--mount"], &["--mount"], script)
    }

    fn new(unshare: &[&str], enter: &'static [&'static str], script: &str) -> Option<Inside> {
        let mut command = Command::new("unshare");
        command.args(unshare).args(["sh", "-c", &format!("{script} && echo ready && exec cat")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut keeper = spawn(&mut command).ok()?;
        let mut line = String::new();
        BufReader::new(keeper.stdout.take()?).read_line(&mut line).ok()?;
        let inside = Inside { keeper, enter };
        (line.trim() == "ready").then_some(inside)
    }

    /// A command in there, as the daemon's user, under the pid that is started.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.keeper.id())).args(self.enter).arg("--");
        let inner = as_user(program);
        command.arg(inner.get_program()).args(inner.get_args());
        command
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        drop(self.keeper.kill());
        drop(self.keeper.wait());
    }
}

/// An actor in a pid namespace of its own, which is not its first process. None where that can't be had.
pub(crate) fn pids_of_its_own(directory: &std::path::Path, steps: &[&str]) -> Option<crate::actor::Actor> {
    let mut probe = Command::new("unshare");
    probe.args(["--pid", "--fork", "true"]).stderr(Stdio::null());
    if !spawn(&mut probe).and_then(|mut child| child.wait()).is_ok_and(|status| status.success()) {
        return None;
    }
    let inner = as_user(portreeve_test_harness::machine::python());
    let mut command = Command::new("unshare");
    // The first process of the namespace is the shell; its end ends the others.
    command.args(["--pid", "--fork", "--kill-child", "sh", "-c", r#""$@"; true"#, "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    Some(crate::actor::Actor::run(command, directory, steps))
}
