//! A throwaway PortReeve on this machine: its binary, a daemon of its own home, raw calls, servers to confirm.
//!
//! Everything that is started here is ended here, by its own handle.

use serde_json::{Map, Value, json};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The longest that anything here waits for a condition.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The `portreeve` binary of this build, built now if the test run didn't.
///
/// `PORTREEVE_EXE` names another one: the release binary, say.
///
/// # Panics
/// If it isn't there and can't be built.
pub fn portreeve() -> PathBuf {
    static EXE: OnceLock<PathBuf> = OnceLock::new();
    EXE.get_or_init(|| {
        if let Some(exe) = std::env::var_os("PORTREEVE_EXE") {
            return exe.into();
        }
        let tests = std::env::current_exe().expect("a test has a path");
        // A test lies in target/<profile>/deps, a program in target/<profile>.
        let beside = tests.parent().expect("in a folder");
        let profile = if beside.ends_with("deps") { beside.parent().expect("in a profile") } else { beside };
        let exe = profile.join("portreeve");
        if !exe.exists() {
            let built = Command::new(env!("CARGO"))
                .args(["build", "-p", "portreeve"])
                .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
                .status()
                .expect("cargo runs");
            assert!(built.success(), "portreeve can't be built");
        }
        exe
    })
    .clone()
}

/// Held while a process is started and while a socket is open that must be gone afterwards: until its exec, a new
/// process has copies of all our descriptors.
fn no_copies() -> MutexGuard<'static, ()> {
    static COPYING: Mutex<()> = Mutex::new(());
    COPYING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process while no port is being tried out.
///
/// # Errors
/// If it can't be started.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _alone = no_copies();
    command.spawn()
}

/// The user as whom daemons and their servers run, if `PORTREEVE_TEST_UID` names another than this process' own.
///
/// # Panics
/// If it isn't a number.
pub fn test_uid() -> Option<u32> {
    let uid = std::env::var("PORTREEVE_TEST_UID").ok().filter(|uid| !uid.is_empty())?;
    Some(uid.parse().expect("PORTREEVE_TEST_UID is a number"))
}

/// A command that runs as [`test_uid`], under the pid that is started.
pub fn as_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let Some(uid) = test_uid() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={uid}")).arg(format!("--regid={uid}")).arg("--clear-groups").arg(program);
    command
}

/// Makes a file or folder the [`test_uid`]'s own.
///
/// # Panics
/// If it can't be given away.
pub fn give(path: &Path) {
    if let Some(uid) = test_uid() {
        std::os::unix::fs::chown(path, Some(uid), Some(uid)).expect("root may give files away");
    }
}

/// A python3 that every user may run.
pub fn python() -> &'static str {
    if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

/// Waits until `look` gives something.
///
/// # Panics
/// If it doesn't within [`PATIENCE`].
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A daemon of its own home, ended when dropped.
#[derive(Debug)]
pub struct Daemon {
    /// Its process.
    pub process: Child,
    home: PathBuf,
    socket: PathBuf,
    _directory: Option<tempfile::TempDir>,
}

impl Daemon {
    /// Starts one in a fresh home.
    ///
    /// # Panics
    /// If it doesn't answer.
    pub fn start() -> Daemon {
        let directory = tempfile::tempdir().expect("a temp dir can be made");
        give(directory.path());
        let home = directory.path().join("home");
        let mut daemon = Daemon::start_in(&home);
        daemon._directory = Some(directory);
        daemon
    }

    /// Starts one in a fresh home with these settings, as `GET /v1/config` names them.
    ///
    /// # Panics
    /// If it doesn't answer.
    pub fn start_with(settings: &Value) -> Daemon {
        let directory = tempfile::tempdir().expect("a temp dir can be made");
        give(directory.path());
        let home = directory.path().join("home");
        prepare(&home, settings);
        let mut daemon = Daemon::start_in(&home);
        daemon._directory = Some(directory);
        daemon
    }

    /// Starts one in `home`, which stays when it ends.
    ///
    /// # Panics
    /// If it doesn't answer.
    pub fn start_in(home: &Path) -> Daemon {
        Daemon::start_as(as_user(portreeve()), home)
    }

    /// Starts one by a command that ends in the binary: `setpriv … portreeve`, say.
    ///
    /// # Panics
    /// If it doesn't answer.
    pub fn start_as(mut command: Command, home: &Path) -> Daemon {
        let socket = home.join("portreeve.sock");
        command
            .args(["serve", "--home"])
            .arg(home)
            .env_remove("PORTREEVE_HOME")
            .env_remove("PORTREEVE_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let process = spawn(&mut command).expect("portreeve starts");
        let mut daemon = Daemon { process, home: home.to_owned(), socket, _directory: None };
        until("the daemon answers", || {
            if let Some(status) = daemon.process.try_wait().expect("a child can be waited for") {
                let mut text = String::new();
                if let Some(mut stderr) = daemon.process.stderr.take() {
                    drop(stderr.read_to_string(&mut text));
                }
                panic!("the daemon ended with {status}: {text}");
            }
            // It listens before it has opened its store.
            raw(&daemon.socket, "GET", "/v1/health", None).ok()
        });
        daemon
    }

    /// Keeps the temporary directory of an earlier daemon, in whose home this one goes on.
    #[must_use]
    pub fn with_directory_of(mut self, earlier: &mut Daemon) -> Daemon {
        self._directory = earlier._directory.take();
        self
    }

    /// Its home.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks it, as an existing client would, and gives status and body.
    pub fn ask(&self, method: &str, target: &str, body: Option<Value>) -> (u16, Value) {
        ask(&self.socket, method, target, body)
    }

    /// The data of a GET.
    ///
    /// # Panics
    /// If it isn't answered with 200.
    pub fn get(&self, target: &str) -> Value {
        let (status, body) = self.ask("GET", target, None);
        assert_eq!(status, 200, "GET {target}: {body}");
        body["data"].clone()
    }

    /// The data of a POST.
    ///
    /// # Panics
    /// If it isn't answered with 200.
    pub fn post(&self, target: &str, body: Value) -> Value {
        let (status, body) = self.ask("POST", target, Some(body));
        assert_eq!(status, 200, "POST {target}: {body}");
        body["data"].clone()
    }

    /// The error of a request.
    ///
    /// # Panics
    /// If it is answered with 200.
    pub fn refused(&self, method: &str, target: &str, body: Option<Value>) -> (u16, Value) {
        let (status, body) = self.ask(method, target, body);
        assert_ne!(status, 200, "{method} {target}: {body}");
        (status, body["error"].clone())
    }

    /// Acquires a lease for a component of `workspace`, with `allocation`.
    pub fn acquire(&self, workspace: &Path, component: &str, allocation: Value) -> Value {
        self.post("/v1/leases/acquire", acquire(workspace, component, allocation))
    }

    /// Ends it with SIGKILL.
    ///
    /// # Panics
    /// If it can't be killed.
    pub fn kill(&mut self) {
        self.process.kill().expect("a child can be killed");
        self.process.wait().expect("a killed child ends");
    }

    /// Every row of every domain table, by table: what "the store is unchanged" compares.
    ///
    /// # Panics
    /// If the store can't be read.
    pub fn tables(&self) -> Map<String, Value> {
        let path = self.home.join(portreeve_daemon::store::FILE_NAME);
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let conn = rusqlite::Connection::open_with_flags(path, flags).expect("the store can be opened");
        let mut tables = Map::new();
        for table in ["claim", "lease", "run", "run_listener", "set_aside", "setting", "event"] {
            let mut statement =
                conn.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).expect("a table");
            let columns = statement.column_count();
            let rows = statement
                .query_map((), |row| {
                    (0..columns)
                        .map(|i| Ok(format!("{:?}", row.get_ref(i)?)))
                        .collect::<rusqlite::Result<Vec<_>>>()
                })
                .and_then(|rows| rows.collect::<rusqlite::Result<Vec<_>>>())
                .expect("rows can be read");
            tables.insert(table.to_owned(), json!(rows));
        }
        tables
    }
}

/// Makes a home in which a daemon will find these settings.
///
/// # Panics
/// If its store can't be made.
pub fn prepare(home: &Path, settings: &Value) {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(home).expect("a home can be made");
    let path = home.join(portreeve_daemon::store::FILE_NAME);
    drop(portreeve_daemon::store::Store::open(&path).expect("a store can be made"));
    let conn = rusqlite::Connection::open(&path).expect("a store can be opened");
    for (key, value) in settings.as_object().expect("settings are an object") {
        conn.execute(
            "INSERT OR REPLACE INTO setting (key, value) VALUES (?1, ?2)",
            [key, &value.to_string()],
        )
        .expect("a setting can be written");
    }
    drop(conn);
    give(home);
    for entry in fs::read_dir(home).expect("a home can be read") {
        give(&entry.expect("an entry").path());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The body of an acquire.
pub fn acquire(workspace: &Path, component: &str, allocation: Value) -> Value {
    json!({
        "claim": {
            "project": "shop",
            "workspaceRoot": workspace,
            "component": component,
            "endpoint": "default",
            "transport": "tcp",
        },
        "allocation": allocation,
    })
}

/// What every body says of its sender.
pub fn client() -> Value {
    json!({
        "softwareVersion": "0.1.0",
        "protocol": {"minimum": 1, "maximum": 1},
        "requiredCapabilities": [],
        "origin": {"kind": "library"},
    })
}

/// Asks over a fresh connection; a body without `client` gets one.
///
/// # Panics
/// If the socket breaks or the reply is no HTTP with a JSON body.
pub fn ask(socket: &Path, method: &str, target: &str, body: Option<Value>) -> (u16, Value) {
    let text = body.map(|mut body| {
        if let Some(fields) = body.as_object_mut() {
            fields.entry("client").or_insert_with(client);
        }
        body.to_string()
    });
    let (status, reply) =
        raw(socket, method, target, text.as_deref().map(str::as_bytes)).expect("the daemon answers");
    let body = serde_json::from_slice(&reply).expect("every reply is JSON");
    (status, body)
}

/// Sends one request with these very bytes as its body, and gives status and body of the reply.
///
/// # Errors
/// If the socket breaks, or what comes is no HTTP.
pub fn raw(socket: &Path, method: &str, target: &str, body: Option<&[u8]>) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: portreeve\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.map_or(0, <[u8]>::len)
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.unwrap_or_default())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no HTTP: {line:?}")))?;
    let mut length = None;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let mut reply = Vec::new();
    match length {
        Some(length) => {
            reply.resize(length, 0);
            reader.read_exact(&mut reply)?;
        }
        None => {
            reader.read_to_end(&mut reply)?;
        }
    }
    Ok((status, reply))
}

/// A real server in a process of its own, ended when dropped.
#[derive(Debug)]
pub struct Server {
    /// Its process.
    pub process: Child,
}

impl Server {
    /// Starts one that listens on `address:port` from `directory`, and waits until it does.
    ///
    /// # Panics
    /// If it doesn't.
    pub fn listen(address: &str, port: u16, directory: &Path) -> Server {
        let script = "import socket,sys,time\n\
            a,p=sys.argv[1],int(sys.argv[2])\n\
            s=socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET)\n\
            s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\n\
            s.bind((a,p))\n\
            s.listen()\n\
            print('ready',flush=True)\n\
            sys.stdin.read()\n";
        let mut command = as_user(python());
        command
            .args(["-c", script, address, &port.to_string()])
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = spawn(&mut command).expect("python3 starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line can be read");
        assert_eq!(line.trim(), "ready", "the server on {address}:{port} did not start");
        Server { process }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Ends it with SIGKILL and waits for it.
    ///
    /// # Panics
    /// If it can't be killed.
    pub fn kill(&mut self) {
        self.process.kill().expect("a child can be killed");
        self.process.wait().expect("a killed child ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A port that nobody has just now, outside the range of outgoing connections.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let _alone = no_copies();
    for _ in 0..2000 {
        let spread = (std::process::id() % 37) as u16 * 31;
        let port = 20_000 + (NEXT.fetch_add(1, Ordering::Relaxed) + spread) % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

/// A directory to be a worktree.
///
/// # Panics
/// If it can't be made.
pub fn worktree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temp dir can be made");
    fs::create_dir(directory.path().join("src")).expect("a folder can be made");
    give(directory.path());
    directory
}
