//! The ground that scenes stand on: full stores, crowds of processes, references.

use crate::figures::{Sample, clocked};
use portreeve_daemon::store::{FILE_NAME, Store};
use rusqlite::{Connection, params};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A directory on a disk's file system, whatever `/tmp` is: in the target directory.
///
/// Ends the program if that lies in memory, where a commit costs nothing.
pub(crate) fn disk() -> tempfile::TempDir {
    // TMPFS_MAGIC and RAMFS_MAGIC (statfs(2)).
    const MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];
    let exe = std::env::current_exe().expect("this program has a path");
    let directory = tempfile::tempdir_in(exe.parent().expect("in a folder")).expect("a temp dir can be made");
    let about = rustix::fs::statfs(directory.path()).expect("a file system can be asked");
    assert!(
        MEMORY.iter().all(|kind| i128::from(about.f_type) != *kind),
        "{} is on a file system in memory: commits cost nothing there",
        directory.path().display()
    );
    directory
}

/// The machine and how busy it is.
pub(crate) fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let version = read("/proc/sys/kernel/osrelease");
    let load: Vec<String> = read("/proc/loadavg").split_whitespace().take(3).map(str::to_owned).collect();
    format!("{cores} cores, Linux {}, load {}", version.trim(), load.join(" "))
}

/// Fills a store with claims, so many of them with a port, and with events.
pub(crate) fn fill(home: &Path, claims: usize, assigned: usize, events: usize, root: &Path) {
    std::fs::create_dir_all(home).expect("a home can be made");
    let path = home.join(FILE_NAME);
    drop(Store::open(&path).expect("a store can be made"));
    let mut conn = Connection::open(&path).expect("a store can be opened");
    let tx = conn.transaction().expect("a transaction");
    let at = "2026-01-01T00:00:00.000Z";
    for n in 0..claims {
        let id = uuid::Uuid::now_v7().to_string();
        let port = (n < assigned).then(|| u16::try_from(10_240 + n).expect("a port"));
        tx.execute(
            "INSERT INTO claim (id, project, workspace_root, component, endpoint, mode, assigned_port, created_at, \
             updated_at, last_used_at) VALUES (?1, ?2, ?3, ?4, 'default', 'sticky', ?5, ?6, ?6, ?6)",
            params![id, format!("p{}", n % 50), root.join(format!("w{}", n % 600)).to_string_lossy(), format!("c{n}"), port, at],
        )
        .expect("a claim");
    }
    for n in 0..events {
        tx.execute(
            "INSERT INTO event (id, event_type, entity_type, entity_id, payload, occurred_at) \
             VALUES (?1, 'lease.acquired', 'lease', ?2, '{}', ?3)",
            params![uuid::Uuid::now_v7().to_string(), n.to_string(), at],
        )
        .expect("an event");
    }
    if events > 0 {
        tx.execute(
            "INSERT OR REPLACE INTO setting VALUES ('historyMaximumEvents', ?1)",
            [events.to_string()],
        )
        .expect("a setting");
    }
    tx.commit().expect("committed");
}

/// Processes with 50 descriptors each, every one of which listens if `listening`; each in a session of its own, as
/// other programs are.
#[derive(Debug)]
pub(crate) struct Crowd {
    parent: Child,
    /// The ports that they listen on.
    pub(crate) ports: Vec<u16>,
}

impl Crowd {
    pub(crate) fn gather(processes: usize, first_port: Option<u16>) -> Crowd {
        let script = "import os,sys,socket,signal\n\
            n,first=int(sys.argv[1]),int(sys.argv[2])\n\
            r,w=os.pipe()\n\
            for i in range(n):\n\
            \x20if os.fork()==0:\n\
            \x20\x20os.setsid()\n\
            \x20\x20signal.signal(signal.SIGTERM,signal.SIG_DFL)\n\
            \x20\x20keep=[os.open('/dev/null',os.O_RDONLY) for _ in range(47)]\n\
            \x20\x20p=0\n\
            \x20\x20if first:\n\
            \x20\x20\x20s=socket.socket();p=first+i\n\
            \x20\x20\x20while True:\n\
            \x20\x20\x20\x20try: s.bind(('127.0.0.1',p)); break\n\
            \x20\x20\x20\x20except OSError: p+=n\n\
            \x20\x20\x20s.listen()\n\
            \x20\x20os.write(w,b'%d\\n'%p)\n\
            \x20\x20sys.stdin.read()\n\
            \x20\x20os._exit(0)\n\
            os.close(w)\n\
            f=os.fdopen(r)\n\
            print(' '.join(f.readline().strip() for _ in range(n)),flush=True)\n\
            sys.stdin.read()\n";
        let mut parent = Command::new("python3")
            .args(["-c", script, &processes.to_string(), &first_port.unwrap_or(0).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        BufReader::new(parent.stdout.take().expect("piped")).read_line(&mut line).expect("ready");
        let ports = line.split_whitespace().filter_map(|p| p.parse().ok()).filter(|p| *p != 0).collect();
        Crowd { parent, ports }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // Everybody reads the same pipe: its end is their end.
        drop(self.parent.stdin.take());
        drop(self.parent.wait());
    }
}

/// Reference: spawning a program that does nothing.
pub(crate) fn spawn_true() -> Sample {
    Sample::of(50, || {
        drop(Command::new("/bin/true").status());
    })
}

/// Reference: one byte there and back over a unix socket, between threads.
pub(crate) fn echo() -> Sample {
    let (mut here, mut there) = UnixStream::pair().expect("a pair");
    std::thread::spawn(move || {
        let mut byte = [0u8];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let mut byte = [7u8];
    Sample::of(2000, || {
        here.write_all(&byte).expect("written");
        here.read_exact(&mut byte).expect("read");
    })
}

/// Reference: a bare SQLite commit with synchronous=FULL on the same disk.
pub(crate) fn bare_commit() -> Sample {
    let directory = disk();
    let conn = Connection::open(directory.path().join("bare.db")).expect("opened");
    conn.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (v INTEGER)")
        .expect("made");
    Sample::of(500, || {
        conn.execute("INSERT INTO t VALUES (1)", ()).expect("written");
    })
}

/// Reference: `ss -ltnp`, where it is installed.
pub(crate) fn ss() -> Option<Sample> {
    let run = || Command::new("ss").arg("-ltnp").stdout(Stdio::null()).stderr(Stdio::null()).status();
    run().ok()?;
    Some(Sample::from((0..15).map(|_| clocked(|| drop(run()))).collect()))
}

/// Proportional and private memory of a process, in kilobytes.
pub(crate) fn memory(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let field = |name: &str| -> u64 {
        text.lines()
            .filter(|line| line.starts_with(name))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum()
    };
    (field("Pss:"), field("Private_Clean:") + field("Private_Dirty:"))
}

/// How often all threads of a process gave up the processor by themselves.
pub(crate) fn wakeups(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .filter_map(|text| {
            text.lines()
                .find(|l| l.starts_with("voluntary_ctxt_switches"))?
                .split_whitespace()
                .nth(1)?
                .parse::<u64>()
                .ok()
        })
        .sum()
}

/// A folder below `root`, made if it isn't there.
pub(crate) fn folder(root: &Path, name: &str) -> PathBuf {
    let path = root.join(name);
    std::fs::create_dir_all(&path).expect("a folder can be made");
    path
}
