//! What is measured, scene by scene.

use crate::figures::{Sample, Table, clocked};
use crate::ground::{self, Crowd};
use crate::mcp::Bridge;
use portreeve_test_harness::machine::{Daemon, Server, free_port, portreeve, until};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What measures something, and notes it.
type Scene = fn(&mut Table);

/// Every scene by name.
pub(crate) const ALL: &[(&str, Scene)] = &[
    ("start", start),
    ("memory", memory),
    ("round trip", round_trip),
    ("evidence", evidence),
    ("acquire", acquire),
    ("acquire-full", acquire_full),
    ("acquire-busy", acquire_busy),
    ("confirm", confirm),
    ("many claims", many_claims),
    ("size", size),
];

fn start(table: &mut Table) {
    let spawn = ground::spawn_true();
    let disk = ground::disk();
    let home = disk.path().join("home");
    drop(Daemon::start_in(&home));
    let socket = home.join("portreeve.sock");
    let listed = Sample::of(40, || {
        let mut bridge = Bridge::start(&socket);
        let tools = bridge.ask("tools/list", json!({}));
        assert!(tools["tools"].as_array().is_some_and(|tools| tools.len() > 10));
    });
    table.time("bridge: spawn to tools/list (and its end)", &listed, Some(("/bin/true", &spawn)));
    let healthy = Sample::from(
        (0..30)
            .map(|_| {
                let begin = Instant::now();
                let mut process = Command::new(portreeve())
                    .args(["serve", "--home"])
                    .arg(&home)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("the daemon starts");
                while UnixStream::connect(&socket).is_err() {
                    std::hint::spin_loop();
                }
                let (status, _) = portreeve_test_harness::machine::ask(&socket, "GET", "/v1/health", None);
                let took = begin.elapsed();
                assert_eq!(status, 200);
                drop(process.kill());
                drop(process.wait());
                took
            })
            .collect(),
    );
    table.time("daemon: spawn to the first healthy reply", &healthy, Some(("/bin/true", &spawn)));
}

fn memory(table: &mut Table) {
    let disk = ground::disk();
    let daemon = Daemon::start_in(&disk.path().join("home"));
    // A file of its own: what the daemon has mapped of the program would be shared with the bridge, and counted half.
    let copy = disk.path().join("portreeve-copy");
    std::fs::copy(portreeve(), &copy).expect("the program can be copied");
    let mut bridge = Bridge::start_of(&copy, daemon.socket());
    bridge.ask("tools/list", json!({}));
    let (pss, private) = ground::memory(bridge.pid());
    table.figure("bridge after tools/list: PSS / private", format!("{pss} kB / {private} kB"), "");
    drop(bridge);
    // The threads that served the last request end after their time.
    std::thread::sleep(Duration::from_secs(7));
    let pid = daemon.process.id();
    let (pss, private) = ground::memory(pid);
    table.figure("daemon idle: PSS / private", format!("{pss} kB / {private} kB"), "");
    let before = ground::wakeups(pid);
    std::thread::sleep(Duration::from_secs(5));
    table.figure("daemon idle: wakeups in 5 s", ground::wakeups(pid) - before, "");
}

fn round_trip(table: &mut Table) {
    let echo = ground::echo();
    let disk = ground::disk();
    let daemon = Daemon::start_in(&disk.path().join("home"));
    let mut bridge = Bridge::start(daemon.socket());
    let health = Sample::of(2000, || {
        bridge.call("diagnostics_health_get", json!({}));
    });
    table.time("diagnostics_health_get through the bridge", &health, Some(("unix-socket echo", &echo)));
}

/// A confirmed server among the daemon's claims.
fn served(bridge: &mut Bridge, root: &Path) -> (Server, u16) {
    let port = free_port();
    let arguments =
        json!({"project": "bench", "workspaceRoot": root, "component": "web", "preferredPort": port});
    let lease = bridge.call("leases_acquire", arguments);
    let port = lease["port"].as_u64().and_then(|p| u16::try_from(p).ok()).expect("a port");
    let server = Server::listen("127.0.0.1", port, root);
    let arguments = json!({"credentialHandle": lease["credentialHandle"], "rootPid": server.pid()});
    bridge.call("leases_confirm", arguments);
    (server, port)
}

fn evidence(table: &mut Table) {
    let crowd = Crowd::gather(200, None);
    let disk = ground::disk();
    let home = disk.path().join("home");
    let root = ground::folder(disk.path(), "w");
    let mut first = Vec::new();
    let mut warm = None;
    let mut keep = None;
    for _ in 0..8 {
        let daemon = Daemon::start_in(&home);
        let mut bridge = Bridge::start(daemon.socket());
        let (_, port) = keep.get_or_insert_with(|| served(&mut bridge, &root));
        let port = *port;
        drop((bridge, daemon));
        // A fresh daemon has seen nothing yet; its connection is made beforehand.
        let daemon = Daemon::start_in(&home);
        let mut bridge = Bridge::start(daemon.socket());
        bridge.call("diagnostics_health_get", json!({}));
        first.push(clocked(|| drop(bridge.call("ports_get", json!({"port": port})))));
        warm = Some(Sample::of(200, || {
            let entry = bridge.call("ports_get", json!({"port": port}));
            assert_eq!(entry["classification"], "verified");
        }));
    }
    let ss = ground::ss();
    let reference = ss.as_ref().map(|ss| ("ss -ltnp", ss));
    table.time("ports_get, 200 other processes: first", &Sample::from(first), reference);
    if let Some(warm) = warm {
        table.time("ports_get, 200 other processes: again", &warm, reference);
    }
    drop((crowd, keep));

    for listeners in [50, 500, 2000] {
        let crowd = Crowd::gather(listeners, Some(20_000));
        assert_eq!(crowd.ports.len(), listeners);
        let ss = ground::ss();
        let reference = ss.as_ref().map(|ss| ("ss -ltnp", ss));
        let arguments = json!({"listening": true, "limit": 200});
        let mut cold = Vec::new();
        for _ in 0..7 {
            let daemon = Daemon::start_in(&home);
            let mut bridge = Bridge::start(daemon.socket());
            bridge.call("diagnostics_health_get", json!({}));
            cold.push(clocked(|| drop(bridge.call("ports_list", arguments.clone()))));
        }
        let daemon = Daemon::start_in(&home);
        let mut bridge = Bridge::start(daemon.socket());
        let page = Sample::of(20, || drop(bridge.call("ports_list", arguments.clone())));
        table.time(
            &format!("ports_list, {listeners} listeners: a page of 200, first"),
            &Sample::from(cold),
            reference,
        );
        table.time(&format!("ports_list, {listeners} listeners: a page of 200"), &page, reference);
        let whole = Sample::of(15, || {
            let (_, body) = daemon.ask("GET", "/v1/ports?listening=true", None);
            assert!(body["data"].as_array().is_some_and(|rows| rows.len() >= listeners));
        });
        table.time(
            &format!("ports_list, {listeners} listeners: all of them, on the socket"),
            &whole,
            reference,
        );
    }
}

/// Acquires distinct claims, timing the acquires alone, and gives each back.
fn acquires(bridge: &mut Bridge, root: &Path, times: usize, tag: &str) -> Sample {
    let mut taken = Vec::new();
    for n in 0..times {
        let arguments = json!({"project": "bench", "workspaceRoot": root, "component": format!("{tag}-{n}")});
        let begin = Instant::now();
        let lease = bridge.call("leases_acquire", arguments);
        taken.push(begin.elapsed());
        let back = json!({"credentialHandle": lease["credentialHandle"], "reason": "client-cancelled"});
        bridge.call("leases_abandon", back);
    }
    Sample::from(taken)
}

fn acquire(table: &mut Table) {
    let commit = ground::bare_commit();
    let disk = ground::disk();
    let root = ground::folder(disk.path(), "w");
    let daemon = Daemon::start_in(&disk.path().join("home"));
    let mut bridge = Bridge::start(daemon.socket());
    let alone = acquires(&mut bridge, &root, 400, "alone");
    table.time("acquire, one bridge", &alone, Some(("bare FULL commit", &commit)));
    drop(bridge);
    let each = 250;
    let begin = std::sync::Barrier::new(9);
    let (ports, took) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let (begin, root, socket) = (&begin, &root, daemon.socket());
                scope.spawn(move || {
                    let mut bridge = Bridge::start(socket);
                    begin.wait();
                    let ports: Vec<Value> = (0..each)
                        .map(|n| {
                            let component = format!("together-{worker}-{n}");
                            let arguments =
                                json!({"project": "bench", "workspaceRoot": root, "component": component});
                            bridge.call("leases_acquire", arguments)["port"].clone()
                        })
                        .collect();
                    let end = Instant::now();
                    (bridge, ports, end)
                })
            })
            .collect();
        begin.wait();
        let start = Instant::now();
        let done: Vec<_> = workers.into_iter().map(|w| w.join().expect("a worker")).collect();
        let end = done.iter().map(|(_, _, end)| *end).max().unwrap_or(start);
        let ports: Vec<Value> = done.iter().flat_map(|(_, ports, _)| ports.clone()).collect();
        (ports, end - start)
    });
    let mut distinct: Vec<u64> = ports.iter().filter_map(Value::as_u64).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let rate = (8 * each) as f64 / took.as_secs_f64();
    let duplicates = 8 * each - distinct.len();
    let syncs = format!("bare FULL commits {:.0}/s", 1.0 / commit.median().as_secs_f64().max(1e-9));
    table.figure("acquire, 8 bridges at once", format!("{rate:.0}/s, {duplicates} duplicate ports"), &syncs);
}

fn acquire_full(table: &mut Table) {
    let commit = ground::bare_commit();
    for (claims, assigned, events) in [(0, 0, 0), (60_000, 15_000, 0), (0, 0, 100_000)] {
        let disk = ground::disk();
        let root = ground::folder(disk.path(), "w");
        let home = disk.path().join("home");
        ground::fill(&home, claims, assigned, events, &root);
        let daemon = Daemon::start_in(&home);
        let mut bridge = Bridge::start(daemon.socket());
        let sample = acquires(&mut bridge, &root, 300, "full");
        let what = format!("acquire with {claims} claims ({assigned} assigned), {events} events");
        table.time(&what, &sample, Some(("bare FULL commit", &commit)));
    }
}

fn acquire_busy(table: &mut Table) {
    let commit = ground::bare_commit();
    let crowd = Crowd::gather(500, Some(10_240));
    assert_eq!(crowd.ports.len(), 500);
    let disk = ground::disk();
    let root = ground::folder(disk.path(), "w");
    let daemon = Daemon::start_in(&disk.path().join("home"));
    let mut bridge = Bridge::start(daemon.socket());
    let sample = acquires(&mut bridge, &root, 100, "busy");
    table.time("acquire with 500 busy candidates", &sample, Some(("bare FULL commit", &commit)));
}

fn confirm(table: &mut Table) {
    let disk = ground::disk();
    let root = ground::folder(disk.path(), "w");
    let daemon = Daemon::start_in(&disk.path().join("home"));
    let mut bridge = Bridge::start(daemon.socket());
    let crowd = Crowd::gather(200, None);
    let mut taken = Vec::new();
    for n in 0..25 {
        let arguments = json!({"project": "bench", "workspaceRoot": root, "component": format!("c{n}")});
        let lease = bridge.call("leases_acquire", arguments);
        let port = lease["port"].as_u64().and_then(|p| u16::try_from(p).ok()).expect("a port");
        let server = Server::listen("127.0.0.1", port, &root);
        let arguments = json!({"credentialHandle": lease["credentialHandle"], "rootPid": server.pid()});
        let begin = Instant::now();
        let run = bridge.call("leases_confirm", arguments);
        taken.push(begin.elapsed());
        drop(server);
        let id = run["runId"].as_str().expect("a run").to_owned();
        until("the end of the run is noticed", || {
            let events = daemon.get(&format!("/v1/history?eventType=run.released&entityId={id}"));
            events["items"].as_array().filter(|items| !items.is_empty()).map(drop)
        });
    }
    let ss = ground::ss();
    drop(crowd);
    let reference = ss.as_ref().map(|ss| ("ss -ltnp", ss));
    table.time("confirm, 200 other processes", &Sample::from(taken), reference);
}

fn many_claims(table: &mut Table) {
    let echo = ground::echo();
    let reference = Some(("unix-socket echo", &echo));
    let disk = ground::disk();
    let root = ground::folder(disk.path(), "w");
    let home = disk.path().join("home");
    ground::fill(&home, 60_000, 15_000, 0, &root);
    let daemon = Daemon::start_in(&home);
    let mut bridge = Bridge::start(daemon.socket());
    let page = Sample::of(300, || drop(bridge.call("claims_list", json!({}))));
    table.time("60,000 claims: a page of claims_list", &page, reference);
    let deep = bridge.call("claims_list", json!({"limit": 200}));
    let cursor = deep["nextCursor"].clone();
    let next =
        Sample::of(200, || drop(bridge.call("claims_list", json!({"limit": 50, "afterCursor": cursor}))));
    table.time("60,000 claims: a later page of 50", &next, reference);
    let port = Sample::of(300, || drop(bridge.call("ports_get", json!({"port": 10_500}))));
    table.time("60,000 claims: ports_get of a claimed port", &port, reference);
    let ports = Sample::of(30, || drop(bridge.call("ports_list", json!({}))));
    table.time("60,000 claims: a page of ports_list", &ports, reference);
}

fn size(table: &mut Table) {
    let bytes = std::fs::metadata(portreeve()).map_or(0, |about| about.len());
    table.figure("the binary", format!("{:.2} MB", bytes as f64 / 1e6), "");
}
