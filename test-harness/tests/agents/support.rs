//! What every case needs: a daemon with ports that no other case's daemon gives out, a worktree, and the command
//! line.

use portreeve_test_harness::host::Host;
use portreeve_test_harness::machine::{self, Daemon, Server, as_user, portreeve};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The ports that one case's daemon chooses from.
const STRETCH: u16 = 30;

/// A stretch above the ports of outgoing connections and outside of the default range, where nobody listens.
fn stretch() -> Value {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let turn = (std::process::id() * 29 + NEXT.fetch_add(1, Ordering::Relaxed)) % 150;
    let start = 61_000 + u16::try_from(turn).expect("small") * STRETCH;
    json!([{"start": start, "end": start + STRETCH - 1}])
}

/// A daemon, and a worktree.
pub(crate) struct House {
    pub(crate) daemon: Daemon,
    pub(crate) worktree: tempfile::TempDir,
}

impl Deref for House {
    type Target = Daemon;
    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl DerefMut for House {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}

/// A daemon with ports of its own.
pub(crate) fn house() -> House {
    house_with(json!({}))
}

/// The same, with these settings.
pub(crate) fn house_with(settings: Value) -> House {
    House { daemon: Daemon::start_with(&with_stretch(settings)), worktree: machine::worktree() }
}

/// Settings with ports of their own.
pub(crate) fn with_stretch(mut settings: Value) -> Value {
    settings.as_object_mut().expect("an object").entry("automaticPortRanges").or_insert_with(stretch);
    settings
}

impl House {
    /// A bridge to it, introduced.
    pub(crate) fn host(&self) -> Host {
        Host::start(self.socket())
    }

    /// The arguments of an acquire for a component of the worktree.
    pub(crate) fn claim(&self, component: &str) -> Value {
        claim(self.worktree.path(), component)
    }

    /// A confirmed server of a component.
    pub(crate) fn serve(&self, host: &mut Host, component: &str) -> Served {
        let lease = host.done("leases_acquire", self.claim(component));
        let server = Server::listen("127.0.0.1", port(&lease), self.worktree.path());
        let run = host.done("leases_confirm", confirm(&lease, server.pid()));
        Served { lease, server, run }
    }

    /// Kills the daemon and starts another one in its home.
    pub(crate) fn replace(&mut self) {
        self.daemon.kill();
        self.start_again();
    }

    /// Starts a daemon in the home of one that is gone.
    pub(crate) fn start_again(&mut self) {
        let home = self.daemon.home().to_owned();
        let next = Daemon::start_in(&home).with_directory_of(&mut self.daemon);
        self.daemon = next;
    }

    /// Stops it without ending it, until the guard is dropped.
    pub(crate) fn stopped(&self) -> Stopped {
        Stopped::stop(self.daemon.process.id())
    }

    /// History events of a type about an entity.
    pub(crate) fn events(&self, kind: &str, entity: &Value) -> Vec<Value> {
        let entity = entity.as_str().expect("an id");
        let page = self.get(&format!("/v1/history?eventType={kind}&entityId={entity}&limit=200"));
        page["items"].as_array().expect("items").clone()
    }

    /// Runs a command of the command line against it.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Said {
        let mut command = cli();
        command.args(arguments).arg("--socket").arg(self.socket()).current_dir(self.worktree.path());
        Said::of(command)
    }
}

/// A confirmed server.
pub(crate) struct Served {
    pub(crate) lease: Value,
    pub(crate) server: Server,
    pub(crate) run: Value,
}

/// A process that is stopped as long as this lives.
pub(crate) struct Stopped(Pid);

impl Stopped {
    pub(crate) fn stop(pid: u32) -> Stopped {
        let pid = Pid::from_raw(pid.cast_signed()).expect("a pid");
        kill_process(pid, Signal::STOP).expect("the process can be stopped");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Err(error) = kill_process(self.0, Signal::CONT) {
            assert_eq!(error, rustix::io::Errno::SRCH, "a stopped process can be continued");
        }
    }
}

/// The arguments of an acquire.
pub(crate) fn claim(workspace: &Path, component: &str) -> Value {
    json!({"project": "shop", "workspaceRoot": workspace, "component": component})
}

/// The arguments of a confirm.
pub(crate) fn confirm(lease: &Value, pid: u32) -> Value {
    json!({"credentialHandle": lease["credentialHandle"], "rootPid": pid})
}

/// The arguments of an abandon.
pub(crate) fn abandon(lease: &Value, reason: &str) -> Value {
    json!({"credentialHandle": lease["credentialHandle"], "reason": reason})
}

/// The port in an answer.
pub(crate) fn port(answer: &Value) -> u16 {
    answer["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// A value without the fields that are null: the bridge leaves them out where they have a type.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        plain => plain,
    }
}

/// What the bridge shows, without what it adds.
pub(crate) fn shown(mut content: Value) -> Value {
    content.as_object_mut().expect("an object").remove("summary");
    content
}

/// The command line, without what the surroundings of the test may say.
pub(crate) fn cli() -> Command {
    let mut command = as_user(portreeve());
    for name in ["PORTREEVE_HOME", "PORTREEVE_SOCKET", "XDG_STATE_HOME", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn of(mut command: Command) -> Said {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = machine::spawn(&mut command).and_then(std::process::Child::wait_with_output);
        let output = output.expect("the binary runs");
        Said {
            status: output.status.code().unwrap_or_else(|| panic!("{}", output.status)),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// The one document that `--json` prints, with nothing on stderr.
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        assert_eq!(self.stderr, "");
        let document: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one document ({error}): {}", self.stdout));
        assert_eq!(document["schemaVersion"], 1, "{document}");
        document
    }

    /// Its data, if the command succeeded.
    #[track_caller]
    pub(crate) fn data(&self) -> Value {
        assert_eq!(self.status, 0, "{}{}", self.stdout, self.stderr);
        self.document()["data"].clone()
    }
}

/// Whether to go on with a case that needs something; says so if not.
pub(crate) fn given(name: &str, what: &str, there: bool) -> bool {
    if !there {
        println!("not run: {name}: {what}");
    }
    there
}
