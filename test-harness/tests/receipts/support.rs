//! A scene: a daemon, a worktree, and servers of every temper.

use portreeve_test_harness::machine::{Daemon, PATIENCE, free_port, python, until, worktree};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A daemon, and a worktree to claim for.
pub(crate) struct Scene {
    pub(crate) daemon: Daemon,
    pub(crate) tree: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let scene = Scene { daemon: Daemon::start(), tree: worktree() };
        // The socket is there before the store is; an answer comes after both.
        scene.daemon.get("/v1/config");
        scene
    }

    /// A scene with other settings.
    pub(crate) fn with(updates: Value) -> Scene {
        let scene = Scene::new();
        scene.daemon.post("/v1/config", json!({"updates": updates}));
        scene
    }

    pub(crate) fn root(&self) -> String {
        self.tree.path().canonicalize().expect("it is there").to_str().expect("UTF-8").to_owned()
    }

    /// A claim with a port of its own, idle.
    pub(crate) fn claim(&self, component: &str) -> Claimed {
        let mut run = self.serve(component, Temper::Plain);
        run.server.end();
        let claim = run.claim.clone();
        until("the end of the run is noticed", || {
            let entry = self.daemon.get(&format!("/v1/ports/{}", run.port));
            let events = self.daemon.get("/v1/history?eventType=run.released&limit=200");
            let over = events["items"].as_array()?.iter().any(|e| e["entityId"] == run.run.as_str());
            (over && entry["classification"] == "idle").then_some(())
        });
        Claimed { claim, port: run.port }
    }

    /// A confirmed run.
    pub(crate) fn serve(&self, component: &str, temper: Temper) -> Run {
        let port = free_port();
        let lease = self.daemon.acquire(self.tree.path(), component, json!({"preferredPort": port}));
        let port = u16::try_from(lease["port"].as_u64().expect("a port")).expect("a port");
        let server = Started::listen(port, temper, self.tree.path());
        let lease_id = lease["leaseId"].as_str().expect("a lease");
        let confirmed = self.daemon.post(
            &format!("/v1/leases/{lease_id}/confirm"),
            json!({"leaseToken": lease["leaseToken"], "rootPid": server.root()}),
        );
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        Run { claim: text(&confirmed["claimId"]), run: text(&confirmed["runId"]), port, server }
    }

    pub(crate) fn preview(&self, what: &str, body: Value) -> Value {
        self.daemon.post(&format!("/v1/actions/{what}/preview"), body)
    }

    pub(crate) fn execute(&self, what: &str, receipt: &Value) -> Value {
        self.daemon.post(&format!("/v1/actions/{what}/execute"), json!({"receiptId": id(receipt)}))
    }

    /// The error of an execute.
    pub(crate) fn refused(&self, what: &str, receipt: &Value) -> (u16, Value) {
        let path = format!("/v1/actions/{what}/execute");
        self.daemon.refused("POST", &path, Some(json!({"receiptId": id(receipt)})))
    }

    /// Runs SQL in the daemon's store.
    pub(crate) fn sql(&self, sql: &str) {
        sql_in(self.daemon.home(), sql);
    }
}

/// Runs SQL in a home's store.
pub(crate) fn sql_in(home: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(home.join(portreeve_daemon::store::FILE_NAME)).expect("a store");
    conn.busy_timeout(PATIENCE).expect("a timeout");
    conn.execute_batch(sql).expect("SQL that fits");
}

pub(crate) fn id(receipt: &Value) -> String {
    receipt["receiptId"].as_str().expect("a receipt").to_owned()
}

/// The class of an error.
pub(crate) fn class(error: &Value) -> &str {
    error["failure"]["class"].as_str().expect("a class")
}

/// The paths of the facts that an error says have changed.
pub(crate) fn changes(error: &Value) -> Vec<&str> {
    let changes = error["details"]["changes"].as_array().expect("changes");
    changes.iter().map(|change| change["path"].as_str().expect("a path")).collect()
}

/// A claim with a port.
pub(crate) struct Claimed {
    pub(crate) claim: String,
    pub(crate) port: u16,
}

/// A confirmed run and its server.
pub(crate) struct Run {
    pub(crate) claim: String,
    pub(crate) run: String,
    pub(crate) port: u16,
    pub(crate) server: Started,
}

/// What a server is like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Temper {
    /// It ends when asked to.
    Plain,
    /// It ignores SIGTERM.
    Stubborn,
    /// `sh -c` starts it and waits.
    Wrapped,
    /// It forks workers that accept on its socket.
    Prefork,
    /// It forks twice; its launcher waits for nobody and stays.
    DoubleFork,
    /// Its launcher starts it and is gone.
    Orphan,
    /// A supervisor starts it again whenever it ends; the server is the root.
    Supervised,
    /// On SIGUSR1 it replaces itself by another program, which keeps its socket.
    Reexec,
    /// Its socket lets others listen on the same port.
    Twin,
    /// It asks a daemon what it is sent, from a child.
    Caller,
    /// Two processes listen on the port, each with a socket of its own.
    Twins,
}

const SERVER: &str = "import os,signal,socket,subprocess,sys,time
temper,port=sys.argv[1],int(sys.argv[2])
def listen(reuse=False):
    s=socket.socket()
    s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)
    if reuse: s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEPORT,1)
    s.bind(('127.0.0.1',port)); s.listen(); return s
def ready(pid):
    print(pid,flush=True)
def serve(s):
    held=[]
    while True: held.append(s.accept())
if temper=='Plain':
    s=listen(); ready(os.getpid()); serve(s)
elif temper=='Stubborn':
    signal.signal(signal.SIGTERM,signal.SIG_IGN); s=listen(); ready(os.getpid()); serve(s)
elif temper=='Prefork':
    s=listen()
    for _ in range(3):
        if os.fork()==0: serve(s)
    ready(os.getpid()); signal.pause()
elif temper=='DoubleFork':
    if os.fork()==0:
        if os.fork()==0:
            s=listen(); ready(os.getpid()); serve(s)
        os._exit(0)
    os.wait(); signal.pause()
elif temper=='Orphan':
    if os.fork()==0:
        s=listen(); ready(os.getpid()); serve(s)
    os._exit(0)
elif temper=='Supervised':
    while True:
        p=subprocess.Popen([sys.executable,sys.argv[0],'Plain',str(port)]); p.wait()
elif temper=='Reexec':
    s=listen()
    def again(*_):
        os.set_inheritable(s.fileno(),True)
        os.execv(sys.executable,[sys.executable,sys.argv[0],'Inherit',str(port),str(s.fileno())])
    signal.signal(signal.SIGUSR1,again); ready(os.getpid()); serve(s)
elif temper=='Inherit':
    serve(socket.socket(fileno=int(sys.argv[3])))
elif temper=='Twin':
    s=listen(True); ready(os.getpid()); serve(s)
elif temper=='Caller':
    s=listen(); ready(os.getpid())
    while True:
        c,_=s.accept(); f=c.makefile('rb'); path,where,body=[f.readline().strip() for _ in range(3)]
        if os.fork()==0:
            u=socket.socket(socket.AF_UNIX); u.connect(path)
            u.sendall(b'POST '+where+b' HTTP/1.1\\r\\nhost: p\\r\\nconnection: close\\r\\ncontent-length: '+str(len(body)).encode()+b'\\r\\n\\r\\n'+body)
            c.sendall(u.makefile('rb').read()); os._exit(0)
        f.close(); c.close(); os.wait()
elif temper=='Host':
    s=listen(); sys.exit(subprocess.call(sys.argv[3:]))
elif temper=='Twins':
    a=listen(True)
    if os.fork()==0:
        b=listen(True); ready(os.getppid()); serve(b)
    serve(a)
";

/// The servers' program, in a file.
pub(crate) fn script() -> tempfile::TempPath {
    let mut file = tempfile::Builder::new().suffix(".py").tempfile().expect("a file");
    file.write_all(SERVER.as_bytes()).expect("it can be written");
    file.into_temp_path()
}

/// A server's processes, ended when dropped.
pub(crate) struct Started {
    child: Child,
    root: u32,
    // Kept, so that what a process prints breaks no pipe.
    _stdout: BufReader<std::process::ChildStdout>,
    script: tempfile::TempPath,
}

impl Started {
    /// Starts one in a group of its own and waits until it listens.
    pub(crate) fn listen(port: u16, temper: Temper, directory: &Path) -> Started {
        Started::listen_by(python(), None, port, temper, directory)
    }

    /// The same, run by this interpreter.
    pub(crate) fn listen_by(
        python: &str,
        home: Option<&str>,
        port: u16,
        temper: Temper,
        directory: &Path,
    ) -> Started {
        let script = script();
        let mut command = match temper {
            Temper::Wrapped => {
                let mut command = Command::new("sh");
                command.args(["-c", "\"$@\"; exit $?", "sh", python]).arg(&script).args(["Plain"]);
                command
            }
            _ => {
                let mut command = Command::new(python);
                command.arg(&script).arg(format!("{temper:?}"));
                command
            }
        };
        if let Some(home) = home {
            command.env("PYTHONHOME", home);
        }
        command.arg(port.to_string()).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped());
        // The child becomes a group of its own, so that what it leaves behind can be ended.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().expect("python3 starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let said: u32 = line.trim().parse().expect("a pid");
        let root = match temper {
            Temper::Wrapped | Temper::DoubleFork => child.id(),
            _ => said,
        };
        Started { child, root, _stdout: stdout, script }
    }

    /// The root to confirm.
    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    /// The process that was started.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process that was started has ended.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be looked at").is_some()
    }

    /// Ends it and all it started.
    pub(crate) fn end(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            // Whoever has ended already needs no signal.
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap_or(());
        }
        drop(self.child.wait());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
        drop(std::fs::remove_file(&self.script));
    }
}

/// Whether somebody takes connections on the port.
pub(crate) fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Whether a process is there and no zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// The time that `work` takes.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, std::time::Duration) {
    let begun = Instant::now();
    let done = work();
    (done, begun.elapsed())
}
