//! What was acknowledged is there after the daemon is killed at any moment, and no port is given twice.
//!
//! The oracle is outside the daemon: each client writes every reply that it gets into a journal and syncs it
//! before it goes on, and the journal is held against the store after each restart.

use crate::oracle::{Journal, Known, TTL, verify};
use crate::support::{acquire_with, home, in_store, token};
use portreeve_daemon::store::FILE_NAME;
use portreeve_test_harness::machine::{
    Daemon, as_user, client, free_port, python, raw, spawn, until, worktree,
};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const ROUNDS: usize = 16;
const CLIENTS: usize = 4;
/// One client's way to the daemon; `None` once that is gone.
struct Client<'a> {
    socket: &'a Path,
    journal: &'a Mutex<Journal>,
    answered: &'a AtomicUsize,
}

impl Client<'_> {
    fn ask(&self, target: &str, mut body: Value) -> Option<Value> {
        body["client"] = client();
        let (status, reply) = raw(self.socket, "POST", target, Some(body.to_string().as_bytes())).ok()?;
        let reply: Value = serde_json::from_slice(&reply).ok()?;
        assert_eq!(status, 200, "{target}: {reply}");
        self.answered.fetch_add(1, Ordering::SeqCst);
        Some(reply["data"].clone())
    }

    fn acquire(&self, body: Value) -> Option<(String, Value)> {
        let asked_at = Instant::now();
        let data = self.ask("/v1/leases/acquire", body)?;
        let id = self.journal.lock().expect("no client panicked").granted(&data, asked_at);
        Some((id, data))
    }

    /// Asks for a transition of a lease and notes what came of it.
    fn settle(&self, id: &str, verb: &'static str, body: Value) -> Option<()> {
        let known = |change: &dyn Fn(&mut Known)| {
            change(
                self.journal.lock().expect("no client panicked").leases.get_mut(id).expect("it was noted"),
            );
        };
        known(&|lease| lease.asked = Some(verb));
        let asked_at = Instant::now();
        let data = self.ask(&format!("/v1/leases/{id}/{verb}"), body)?;
        self.journal.lock().expect("no client panicked").note(verb, id, &data);
        known(&|lease| {
            lease.asked = None;
            match verb {
                "renew" => {
                    lease.held_until = asked_at + TTL;
                    data["expiresAt"].as_str().expect("text").clone_into(&mut lease.expires_at);
                }
                "abandon" => lease.state = "abandoned",
                _ => {
                    lease.state = "confirmed";
                    lease.run = data["runId"].as_str().map(str::to_owned);
                }
            }
        });
        Some(())
    }

    /// Acquires, renews and gives up until the daemon is gone.
    fn load(&self, workspace: &Path, name: &str) {
        for i in 0.. {
            let token = token();
            let body = acquire_with(workspace, &format!("{name}-{i}"), &token);
            let Some((id, _)) = self.acquire(body) else { return };
            let renewed = i % 3 != 0 || self.settle(&id, "renew", json!({"leaseToken": token})).is_some();
            let reason = if i % 5 == 0 { "address-in-use" } else { "startup-error" };
            let body = json!({"leaseToken": token, "reason": reason});
            // Every fourth is left pending.
            if !renewed || (i % 4 != 3 && self.settle(&id, "abandon", body).is_none()) {
                return;
            }
        }
    }

    /// Acquires a lease, lets the server listen on its port and confirms it.
    fn confirm(&self, workspace: &Path, name: &str, server: &mut Waiting) {
        let token = token();
        let mut body = acquire_with(workspace, name, &token);
        body["allocation"]["preferredPort"] = free_port().into();
        let Some((id, data)) = self.acquire(body) else { return };
        server.listen(data["port"].as_u64().expect("a port"));
        let body = json!({"leaseToken": token, "rootPid": server.process.id()});
        // That the daemon is gone by then is a round's end like any other.
        let _confirmed = self.settle(&id, "confirm", body);
    }
}

/// A server that is there already and listens once it is told where, so that it is quick; ended when dropped.
struct Waiting {
    process: Child,
}

impl Waiting {
    fn start() -> Waiting {
        let script = "import socket,sys\n\
            p=int(sys.stdin.readline())\n\
            s=socket.socket()\n\
            s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\n\
            s.bind(('127.0.0.1',p))\n\
            s.listen()\n\
            print('ready',flush=True)\n\
            sys.stdin.read()\n";
        let mut command = as_user(python());
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Waiting { process: spawn(&mut command).expect("python3 starts") }
    }

    fn listen(&mut self, port: u64) {
        let stdin = self.process.stdin.as_mut().expect("piped");
        writeln!(stdin, "{port}").expect("the server reads");
        let mut line = String::new();
        let stdout = self.process.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line can be read");
        assert_eq!(line.trim(), "ready", "the server on {port} did not start");
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_at_any_moment_and_no_port_is_given_twice() {
    let mut random = Random::seeded();
    let (directory, home) = home();
    in_store(&home, |conn| {
        let ttl = TTL.as_millis().to_string();
        conn.execute("INSERT INTO setting VALUES ('leaseTtlMilliseconds', ?1)", [ttl]).expect("a row");
    });
    let workspace = worktree();
    let file = File::create(directory.path().join("journal")).expect("a journal can be made");
    let journal = Mutex::new(Journal { file, leases: BTreeMap::new(), replies: 0 });
    let mut servers = Vec::new();
    for round in 0..ROUNDS {
        let daemon = Daemon::start_in(&home);
        let conn = Connection::open_with_flags(home.join(FILE_NAME), OpenFlags::SQLITE_OPEN_READ_ONLY)
            .expect("the store can be opened");
        verify(&conn, &mut journal.lock().expect("no client panicked").leases);
        drop(conn);
        let answered = AtomicUsize::new(0);
        let enough = 1 + random.below(120);
        let mut server = Waiting::start();
        let socket = daemon.socket().to_owned();
        let client = Client { socket: &socket, journal: &journal, answered: &answered };
        std::thread::scope(|scope| {
            // Ended here whatever happens: the clients go on until it is gone.
            let mut daemon = daemon;
            let (client, workspace) = (&client, workspace.path());
            for i in 0..CLIENTS {
                scope.spawn(move || client.load(workspace, &format!("r{round}c{i}")));
            }
            let served = &mut server;
            scope.spawn(move || client.confirm(workspace, &format!("r{round}s"), served));
            until("enough was answered", || (answered.load(Ordering::SeqCst) >= enough).then_some(()));
            // Somewhere within the next request, not always right after a reply.
            (0..random.below(200_000)).for_each(|_| std::hint::spin_loop());
            daemon.kill();
        });
        servers.push(server);
    }
    let daemon = Daemon::start_in(&home);
    let conn = Connection::open_with_flags(home.join(FILE_NAME), OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("the store can be opened");
    let mut journal = journal.lock().expect("no client panicked");
    verify(&conn, &mut journal.leases);
    let count = |state: &str| journal.leases.values().filter(|known| known.state == state).count();
    assert!(journal.replies > 100 && count("abandoned") > 20, "too little was shown: {}", journal.replies);
    assert!(count("confirmed") > 1, "hardly a run was confirmed");
    assert!(daemon.get("/v1/health")["store"].is_null());
}

/// xorshift64, with a seed that is printed and can be given back as `WIRE_SEED`.
struct Random(u64);

impl Random {
    fn seeded() -> Random {
        let given = std::env::var("WIRE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0) | 1;
        writeln!(std::io::stdout(), "WIRE_SEED={seed}").expect("it can be printed");
        Random(seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("it is below a usize")
    }
}
