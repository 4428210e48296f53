//! Death is noticed by event: nobody asks, nobody polls, and what goes on is not taken for dead.

use crate::actor::Actor;
use crate::support::{Served, house, port};
use portreeve_test_harness::machine::{Daemon, until};
use serde_json::{Value, json};

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let after = stat.rsplit(')').next().expect("a stat line");
    after.split_whitespace().nth(1).and_then(|pid| pid.parse().ok()).expect("a pid")
}

/// Kills a process of our own actors', which this process isn't the parent of.
fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
}

#[test]
fn the_end_of_a_server_is_in_history_without_any_question() {
    let house = house();
    let mut served = house.served("web", json!({}));
    served.server.kill();
    let event = house.event("run.released", &served.run["runId"]);
    assert_eq!(
        (&event["payload"], &event["origin"]),
        (&json!({"reason": "processes-ended"}), &Value::Null),
        "{event}"
    );
    let entry = house.port(served.port());
    assert_eq!((&entry["classification"], &entry["run"]), (&json!("idle"), &Value::Null));
}

#[test]
fn a_reader_sees_the_end_before_it_is_recorded() {
    let house = house();
    let mut served = house.served("web", json!({}));
    served.server.kill();
    // Whether it is recorded by now or not.
    let entry = house.port(served.port());
    assert_eq!((&entry["classification"], &entry["run"]), (&json!("idle"), &Value::Null));
    let lease = house.lease("web", json!({}));
    assert_eq!(lease["port"], served.port());
    assert_eq!(house.events("run.released").len(), 1);
}

#[test]
fn a_run_outlives_its_launcher_and_ends_with_its_server() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    let mut server = Actor::in_shell(house.worktree.path(), r#""$@"; true"#, &[&listen]);
    let run = house.confirm(&lease, server.pid());
    server.kill();
    let other = house.served("api", json!({}));
    drop(other.server);
    // The other run's end came after the launcher's, and is in history before this one's.
    house.event("run.released", &other.run["runId"]);
    assert_eq!(house.events("run.released").len(), 1);
    assert_eq!(house.port(port(&lease))["classification"], "verified");
    kill(server.server);
    house.event("run.released", &run["runId"]);
}

#[test]
fn a_server_that_executes_itself_anew_is_the_same_server() {
    let house = house();
    let mut served = house.served("web", json!({}));
    let listen = format!("reexec=listen=127.0.0.1,{},reuseport", served.port());
    served.server.tell("close");
    served.server.tell(&listen);
    let entry = house.port(served.port());
    assert_eq!((&entry["classification"], &entry["run"]["id"]), (&json!("verified"), &served.run["runId"]));
    assert_eq!(house.events("run.released"), Vec::<Value>::new());
}

#[test]
fn a_worker_that_is_replaced_below_its_supervisor_is_still_the_runs() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let mut supervisor = Actor::start(house.worktree.path(), &[]);
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    let first = supervisor.child(&listen);
    let run = house.confirm(&lease, supervisor.pid());
    kill(first);
    supervisor.tell("reap");
    assert_eq!(house.ask_running("web", json!({}))["listening"], false);
    let second = supervisor.child(&listen);
    let entry = house.port(port(&lease));
    assert_eq!((&entry["classification"], &entry["run"]["id"]), (&json!("verified"), &run["runId"]));
    assert_eq!(entry["listeners"][0]["ownership"]["lineage"], json!([second, supervisor.pid()]));
}

#[test]
fn a_daemon_that_comes_back_watches_on() {
    let mut house = house();
    let mut served = house.served("web", json!({}));
    house.daemon.kill();
    house.daemon = Daemon::start_in(house.daemon.home()).with_directory_of(&mut house.daemon);
    assert_eq!(house.port(served.port())["run"]["id"], served.run["runId"]);
    assert_eq!(house.events("run.released"), Vec::<Value>::new());
    served.server.kill();
    house.event("run.released", &served.run["runId"]);
}

#[test]
fn what_ended_while_the_daemon_was_down_is_recorded_before_the_first_answer() {
    let mut house = house();
    let Served { mut server, run, .. } = house.served("web", json!({}));
    let goes_on = house.served("api", json!({}));
    house.daemon.kill();
    server.kill();
    house.daemon = Daemon::start_in(house.daemon.home()).with_directory_of(&mut house.daemon);
    let events = house.events("run.released");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (&events[0]["entityId"], &events[0]["payload"]),
        (&run["runId"], &json!({"reason": "processes-ended"}))
    );
    assert_eq!(house.port(goes_on.port())["classification"], "verified");
}

/// How often the daemon's threads have been woken, all in all, and how many threads there are.
fn wakeups(pid: u32) -> (u64, usize) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let mut all = (0, 0);
    for task in tasks.flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let count = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        all.0 += count("voluntary_ctxt_switches:");
        all.1 += 1;
    }
    all
}

#[test]
fn an_idle_daemon_is_not_woken() {
    let house = house();
    let served = house.served("web", json!({}));
    let pid = house.daemon.process.id();
    // Helper threads end a while after the last request, and the keeper finds no lease.
    let mut last = (wakeups(pid), std::time::Instant::now());
    until("the daemon is at rest", || {
        let now = wakeups(pid);
        if now != last.0 {
            last = (now, std::time::Instant::now());
        }
        (last.1.elapsed() >= std::time::Duration::from_secs(3)).then_some(())
    });
    assert_eq!(house.port(served.port())["classification"], "verified");
}
