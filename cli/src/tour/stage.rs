//! The stage: a throwaway home with a daemon, and two worktrees of one project.

use super::children::{Running, this_program};
use super::told::{Ended, Told};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The port that every tutorial uses.
const FAVOURITE: u16 = 3000;
/// Where another is looked for: below the ports of outgoing connections, as far as systems come.
const OTHERS: std::ops::Range<u16> = 3100..9000;

/// The directory is removed after the daemon has ended: fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) daemon: Running,
    pub(super) socket: PathBuf,
    pub(super) worktrees: [PathBuf; 2],
    /// Why the worktrees are plain directories, if they are.
    pub(super) without_git: Option<String>,
    directory: TempDir,
}

impl Stage {
    pub(super) fn set(told: &Told) -> Result<Stage, Ended> {
        let failed = |error: std::io::Error| Ended::unexpected(format!("the stage can't be set: {error}"));
        let directory = tempfile::Builder::new().prefix("portreeve-tour-").tempdir().map_err(failed)?;
        // As the daemon will know it.
        let root = directory.path().canonicalize().map_err(failed)?;
        let worktrees = [root.join("shop"), root.join("shop-agent-b")];
        let without_git = match git(&worktrees) {
            Ok(()) => None,
            Err(why) => {
                for worktree in &worktrees {
                    std::fs::create_dir_all(worktree).map_err(failed)?;
                }
                Some(why)
            }
        };
        let home = root.join("home");
        let mut command = this_program()?;
        command.args(["serve", "--while-stdin-is-open", "--home"]).arg(&home);
        let mut daemon = Running::start(command, "the daemon")?;
        let socket = portreeve_client::places::Places::from_env(Some(home.clone()), None)
            .map_err(Ended::unexpected)?
            .socket;
        told.wait("the daemon's first answer", || {
            if let Some(status) = daemon.ended()? {
                return Err(Ended::unexpected(format!("the daemon ended: {status}")));
            }
            Ok(std::os::unix::net::UnixStream::connect(&socket).ok().map(drop))
        })?;
        Ok(Stage { daemon, socket, worktrees, without_git, directory })
    }

    /// Runs this program's own command line against the stage's daemon, and gives its `--json` document.
    pub(super) fn command(&self, args: &[&str]) -> Result<serde_json::Value, Ended> {
        let failed = |what: String| Ended::unexpected(format!("portreeve {}: {what}", args.join(" ")));
        let mut command = this_program()?;
        command.args(args).args(["--json", "--socket"]).arg(&self.socket);
        let output = command.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(failed(format!("{}: {shown}", output.status)));
        }
        serde_json::from_str(&shown).map_err(|error| failed(error.to_string()))
    }

    /// Takes the stage down: the daemon is stopped as a user stops it.
    pub(super) fn strike(self, told: &Told) -> Result<(), Ended> {
        self.command(&["stop"])?;
        self.daemon.ends_well(told)?;
        let failed = |error| Ended::unexpected(format!("the stage can't be taken down: {error}"));
        self.directory.close().map_err(failed)
    }
}

/// Makes a repository with two worktrees, without the user's settings, hooks and signatures.
fn git(worktrees: &[PathBuf; 2]) -> Result<(), String> {
    let [first, second] = worktrees;
    std::fs::create_dir_all(first).map_err(|error| error.to_string())?;
    let run = |args: &[&str], last: Option<&Path>| {
        let mut command = Command::new("git");
        command.arg("-C").arg(first).args(["-c", "user.name=tour", "-c", "user.email=tour@localhost"]);
        command.args(args).args(last);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
            command.env_remove(name);
        }
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.stdin(Stdio::null()).output();
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(format!("git {} failed: {}", args.join(" "), why.trim()))
            }
            Err(error) => Err(format!("git can't be run: {error}")),
        }
    };
    run(&["init", "--quiet"], None)?;
    run(&["commit", "--quiet", "--allow-empty", "--message", "shop: open"], None)?;
    run(&["worktree", "add", "--quiet", "-b", "agent-b"], Some(second))
}

/// The port that both agents will want: the favourite if it is free on this machine, else the first that is.
pub(super) fn wanted_port() -> Result<u16, Ended> {
    let mut candidates = std::iter::once(FAVOURITE).chain(OTHERS);
    candidates.find(|port| is_free(*port)).ok_or_else(|| Ended::unexpected("no port is free on this machine"))
}

/// Whether it is [`FAVOURITE`].
pub(super) fn is_favourite(port: u16) -> bool {
    port == FAVOURITE
}

/// A dual-stack bind fails for every holder on either family; it is closed at once.
pub(super) fn is_free(port: u16) -> bool {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => false,
        // Without IPv6 on this host.
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok(),
    }
}

/// Another free port, for somebody who asks nobody.
pub(super) fn another_port(not: u16) -> Result<u16, Ended> {
    let mut others = OTHERS.filter(|port| *port != not);
    others.find(|port| is_free(*port)).ok_or_else(|| Ended::unexpected("no port is free on this machine"))
}
