//! What every case needs: a daemon with ports of its own, a worktree, calls in one line, and history.

use crate::actor::Actor;
use portreeve_test_harness::machine::{self, Daemon, test_uid, until};
use serde_json::{Value, json};
use std::net::{Ipv6Addr, TcpListener};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports that no other case uses: the daemon's automatic range, and beside it some to ask for by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) start: u16,
}

/// How many are for the automatic range, and how many beside it.
const HALF: u16 = 20;

impl Ports {
    pub(crate) fn reserve() -> Ports {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..400 {
            let turn = (std::process::id() * 13 + NEXT.fetch_add(1, Ordering::Relaxed)) % 480;
            let start = 12_000 + u16::try_from(turn).expect("small") * 2 * HALF;
            if (start..start + 2 * HALF).all(|port| !listened(port)) {
                return Ports { start };
            }
        }
        panic!("no stretch of free ports");
    }

    /// The nth port outside the automatic range.
    pub(crate) fn wish(self, n: u16) -> u16 {
        assert!(n < HALF);
        self.start + HALF + n
    }

    pub(crate) fn range(self) -> Value {
        json!([{"start": self.start, "end": self.start + HALF - 1}])
    }
}

/// Whether somebody listens on a port, by the kernel's tables.
pub(crate) fn listened(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let rows = std::fs::read_to_string(table).unwrap_or_default();
        rows.lines().any(|row| {
            let mut fields = row.split_whitespace().skip(1);
            fields.next().is_some_and(|local| local.ends_with(&wanted)) && fields.nth(1) == Some("0A")
        })
    })
}

/// A daemon, its ports and a worktree.
pub(crate) struct House {
    pub(crate) daemon: Daemon,
    pub(crate) ports: Ports,
    pub(crate) worktree: tempfile::TempDir,
}

impl Deref for House {
    type Target = Daemon;
    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

/// A daemon with ports of its own.
pub(crate) fn house() -> House {
    house_with(json!({}))
}

/// A daemon with ports of its own and these settings.
pub(crate) fn house_with(settings: Value) -> House {
    let ports = Ports::reserve();
    let settings = with_range(settings, ports);
    House { daemon: Daemon::start_with(&settings), ports, worktree: machine::worktree() }
}

/// A daemon that is started by a command of the case's own, in `home`.
pub(crate) fn with_range(mut settings: Value, ports: Ports) -> Value {
    settings.as_object_mut().expect("an object").entry("automaticPortRanges").or_insert(ports.range());
    settings
}

impl House {
    /// Acquires for a component of the worktree.
    pub(crate) fn lease(&self, component: &str, allocation: Value) -> Value {
        self.acquire(self.worktree.path(), component, allocation)
    }

    /// Acquires, bringing a token.
    pub(crate) fn lease_by(&self, component: &str, allocation: Value, token: &str) -> Value {
        self.post("/v1/leases/acquire", self.bringing(component, allocation, token))
    }

    pub(crate) fn bringing(&self, component: &str, allocation: Value, token: &str) -> Value {
        let mut body = machine::acquire(self.worktree.path(), component, allocation);
        body["leaseToken"] = token.into();
        body["answerRunning"] = true.into();
        body
    }

    /// Acquires with a living run as an answer.
    pub(crate) fn ask_running(&self, component: &str, allocation: Value) -> Value {
        let mut body = machine::acquire(self.worktree.path(), component, allocation);
        body["answerRunning"] = true.into();
        self.post("/v1/leases/acquire", body)
    }

    /// The error of an acquire.
    pub(crate) fn no_lease(&self, component: &str, allocation: Value) -> Value {
        let body = machine::acquire(self.worktree.path(), component, allocation);
        self.refused("POST", "/v1/leases/acquire", Some(body)).1
    }

    pub(crate) fn confirm(&self, lease: &Value, root: u32) -> Value {
        self.post(&of(lease, "confirm"), with(lease, json!({"rootPid": root})))
    }

    pub(crate) fn not_confirmed(&self, lease: &Value, root: u32) -> Value {
        self.refused("POST", &of(lease, "confirm"), Some(with(lease, json!({"rootPid": root})))).1
    }

    pub(crate) fn abandon(&self, lease: &Value, reason: &str) -> Value {
        self.post(&of(lease, "abandon"), with(lease, json!({"reason": reason})))
    }

    /// A confirmed server of a component: lease, server, run.
    pub(crate) fn served(&self, component: &str, allocation: Value) -> Served {
        let lease = self.lease(component, allocation);
        let server = Actor::serve(self.worktree.path(), port(&lease));
        let run = self.confirm(&lease, server.pid());
        Served { lease, server, run }
    }

    pub(crate) fn port(&self, port: u16) -> Value {
        self.get(&format!("/v1/ports/{port}"))
    }

    /// History events of a type, oldest first.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/history?eventType={kind}&limit=200"));
        page["items"].as_array().expect("items").iter().rev().cloned().collect()
    }

    /// Waits for an event of an entity, asking history and nothing else.
    pub(crate) fn event(&self, kind: &str, entity: &Value) -> Value {
        until(&format!("{kind} of {entity}"), || {
            self.events(kind).into_iter().find(|event| event["entityId"] == *entity)
        })
    }
}

/// A confirmed server.
pub(crate) struct Served {
    pub(crate) lease: Value,
    pub(crate) server: Actor,
    pub(crate) run: Value,
}

impl Served {
    pub(crate) fn port(&self) -> u16 {
        port(&self.lease)
    }
}

/// The port of a lease.
pub(crate) fn port(lease: &Value) -> u16 {
    lease["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_else(|| panic!("{lease}"))
}

/// A path of a lease's own.
pub(crate) fn of(lease: &Value, what: &str) -> String {
    format!("/v1/leases/{}/{what}", lease["leaseId"].as_str().expect("a lease"))
}

/// A body with the lease's token.
pub(crate) fn with(lease: &Value, mut body: Value) -> Value {
    body["leaseToken"] = lease["leaseToken"].clone();
    body
}

/// A token of the caller's own.
pub(crate) fn token() -> String {
    use base64::Engine as _;
    let bytes = [uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

/// Whether to go on with a case that needs something; says so if not.
pub(crate) fn given(name: &str, what: &str, there: bool) -> bool {
    if !there {
        println!("not run: {name}: {what}");
    }
    there
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether daemons run as root.
pub(crate) fn daemon_is_root() -> bool {
    is_root() && test_uid().is_none_or(|uid| uid == 0)
}

/// Whether daemons run as another user than this process.
pub(crate) fn two_users() -> bool {
    test_uid().is_some_and(|uid| uid != rustix::process::geteuid().as_raw())
}

pub(crate) fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Whether a program is there.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = [PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")];
    std::env::split_paths(&path).chain(more).any(|folder| folder.join(program).exists())
}

/// The number in a field.
pub(crate) fn pids(list: &Value, field: &str) -> Vec<u64> {
    list.as_array().expect("a list").iter().map(|entry| entry[field].as_u64().expect("a pid")).collect()
}

/// A directory as the kernel names it.
pub(crate) fn real(path: &Path) -> String {
    path.canonicalize().expect("it is there").to_str().expect("text").to_owned()
}

/// How long ago a lease of the default time was made or renewed, in milliseconds.
pub(crate) fn age(house: &House, lease: &Value) -> i64 {
    let home = house.daemon.home().join(portreeve_daemon::store::FILE_NAME);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = rusqlite::Connection::open_with_flags(home, flags).expect("the store can be read");
    let sql = "SELECT expires_boot_ms - ttl_ms FROM lease WHERE id = ?1";
    let made: i64 = conn
        .query_row(sql, [lease["leaseId"].as_str().expect("an id")], |row| row.get(0))
        .expect("the lease is stored");
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000 - made
}
