//! A daemon in a throwaway home, and the command line beside it.

use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Each test's daemon thinks itself alone on this machine: those that hand out ports take turns.
static PORTS: Mutex<()> = Mutex::new(());

pub(crate) fn ports() -> MutexGuard<'static, ()> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The binary, without what the surroundings of the test may say.
pub(crate) fn portreeve() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
    for name in ["PORTREEVE_HOME", "PORTREEVE_SOCKET", "PORTREEVE_SUPERVISED", "XDG_STATE_HOME", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Said {
        Said {
            status: output.status.code().expect("it ended by itself"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// The document that `--json` prints: one, and nothing on stderr.
    pub(crate) fn document(&self) -> Value {
        assert_eq!(self.stderr, "");
        let document: Value = serde_json::from_str(&self.stdout).expect("one document");
        assert_eq!(document["schemaVersion"], 1, "{document}");
        document
    }

    pub(crate) fn data(&self) -> Value {
        assert_eq!(self.status, 0, "{}", self.stdout);
        self.document()["data"].clone()
    }
}

/// A place to work in, with or without a daemon.
pub(crate) struct Place {
    pub(crate) directory: TempDir,
    daemon: Option<Child>,
}

impl Place {
    pub(crate) fn without_daemon() -> Place {
        let directory = tempfile::Builder::new().prefix("portreeve-cli-").tempdir().expect("a directory");
        Place { directory, daemon: None }
    }

    pub(crate) fn with_daemon() -> Place {
        let mut place = Place::without_daemon();
        place.serve();
        place
    }

    pub(crate) fn serve(&mut self) {
        let mut command = self.command(&["serve", "--while-stdin-is-open"]);
        let daemon = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a daemon");
        self.daemon = Some(daemon);
        until("the daemon answers", || UnixStream::connect(self.socket()).is_ok());
    }

    /// Stops the daemon with the command for it.
    pub(crate) fn stop(&mut self) {
        assert_eq!(self.run(&["stop"]).status, 0);
        let mut daemon = self.daemon.take().expect("it was started");
        assert!(daemon.wait().expect("it ends").success());
    }

    /// Stops the daemon with SIGTERM, as a supervisor does.
    pub(crate) fn terminate(&mut self) {
        let mut daemon = self.daemon.take().expect("it was started");
        let pid = rustix::process::Pid::from_child(&daemon);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        assert!(daemon.wait().expect("it ends").success());
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home().join("portreeve.sock")
    }

    /// A directory in which a claim can live.
    pub(crate) fn workspace(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.directory.path().join(Path::new(name.as_ref()));
        std::fs::create_dir_all(&path).expect("a directory");
        path.canonicalize().expect("it is there")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = portreeve();
        command.env("PORTREEVE_HOME", self.home()).current_dir(self.directory.path()).args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().expect("the binary runs"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().ok();
            daemon.wait().ok();
        }
    }
}

/// A server of a test, ended with its handle.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    pub(crate) fn start(port: u64, directory: &Path) -> Server {
        let port = port.to_string();
        let mut command = portreeve();
        command.args(["tour-server", "--port", &port, "--page", "a test"]).current_dir(directory);
        Server(command.stdin(Stdio::piped()).spawn().expect("a server"))
    }
    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Waits for a condition.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: never");
        std::thread::sleep(Duration::from_millis(5));
    }
}
