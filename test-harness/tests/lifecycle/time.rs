//! Leases by the boot clock: whatever the wall clock says, through stops, restarts and another boot.

use crate::actor::Actor;
use crate::isolation::Inside;
use crate::support::{Ports, given, has, house, house_with, is_root, of, port, with, with_range};
use portreeve_test_harness::machine::{self, Daemon, prepare, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn signal(daemon: &Daemon, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(daemon.process.id()).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("our own daemon");
}

#[test]
fn a_lease_ends_without_anybody_asking() {
    let house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let lease = house.lease("web", json!({}));
    let event = house.event("lease.expired", &lease["leaseId"]);
    assert_eq!(event["payload"], json!({"claimId": lease["claimId"], "port": lease["port"]}));
    assert!(event["occurredAt"].as_str() >= lease["expiresAt"].as_str(), "{event} {lease}");
    // The port is anybody's again.
    assert_eq!(house.lease("api", json!({}))["port"], lease["port"]);
}

#[test]
fn a_renewed_lease_goes_on() {
    let house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let lease = house.lease("web", json!({}));
    let other = house.lease("api", json!({}));
    until("the one that nobody renews ends", || {
        house.post(&of(&lease, "renew"), with(&lease, json!({})));
        (!house.events("lease.expired").is_empty()).then_some(())
    });
    assert_eq!(house.event("lease.expired", &other["leaseId"])["entityId"], other["leaseId"]);
    let server = Actor::serve(house.worktree.path(), port(&lease));
    house.confirm(&lease, server.pid());
}

#[test]
fn a_daemon_that_was_stopped_for_longer_than_a_lease_still_confirms_it() {
    let house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let lease = house.lease("web", json!({}));
    let server = Actor::serve(house.worktree.path(), port(&lease));
    signal(&house, Signal::STOP);
    until("the lease's time has passed twice", || (crate::support::age(&house, &lease) > 2000).then_some(()));
    signal(&house, Signal::CONT);
    house.confirm(&lease, server.pid());
    assert_eq!(house.events("lease.expired"), Vec::<Value>::new());
}

#[test]
fn a_daemon_that_came_back_and_was_stopped_then_still_confirms_it() {
    let mut house = house_with(json!({"leaseTtlMilliseconds": 2500}));
    let lease = house.lease("web", json!({}));
    house.daemon.kill();
    house.daemon = Daemon::start_in(house.daemon.home()).with_directory_of(&mut house.daemon);
    // It has taken up its watch over the lease that it found.
    house.port(port(&lease));
    let server = Actor::serve(house.worktree.path(), port(&lease));
    signal(&house, Signal::STOP);
    until("the lease's time has passed twice", || (crate::support::age(&house, &lease) > 6000).then_some(()));
    signal(&house, Signal::CONT);
    house.confirm(&lease, server.pid());
}

#[test]
fn a_lease_survives_a_restart_for_the_rest_of_its_time() {
    let mut house = house();
    let lease = house.lease("web", json!({}));
    house.daemon.kill();
    house.daemon = Daemon::start_in(house.daemon.home()).with_directory_of(&mut house.daemon);
    // Nobody else gets its port, and its holder goes on.
    assert_ne!(house.lease("api", json!({}))["port"], lease["port"]);
    assert_eq!(house.port(port(&lease))["lease"]["expiresAt"], lease["expiresAt"]);
    let server = Actor::serve(house.worktree.path(), port(&lease));
    house.confirm(&lease, server.pid());
}

#[test]
fn a_lease_that_ended_while_the_daemon_was_down_is_recorded_as_ended_at_start() {
    let mut house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let lease = house.lease("web", json!({}));
    house.daemon.kill();
    until("the lease's time has passed", || (crate::support::age(&house, &lease) > 1000).then_some(()));
    house.daemon = Daemon::start_in(house.daemon.home()).with_directory_of(&mut house.daemon);
    assert_eq!(house.events("lease.expired").len(), 1);
    assert_eq!(house.lease("api", json!({}))["port"], lease["port"]);
}

#[test]
fn under_another_boot_leases_and_runs_are_over_and_history_says_so() {
    const NAME: &str = "under_another_boot_leases_and_runs_are_over_and_history_says_so";
    if !given(NAME, "needs root and mount", is_root() && has("mount")) {
        return;
    }
    let mut house = house();
    let served = house.served("web", json!({}));
    let ephemeral = house.served("worker", json!({"mode": "ephemeral"}));
    let lease = house.lease("api", json!({}));
    let boot = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(boot.path(), "11111111-2222-4333-8444-555555555555\n").expect("written");
    machine::give(boot.path());
    let script = format!(
        "mount --make-rprivate / && mount --bind {} /proc/sys/kernel/random/boot_id",
        boot.path().display()
    );
    let Some(inside) = Inside::mounts(&script) else {
        given(NAME, "needs mount namespaces", false);
        return;
    };
    house.daemon.kill();
    let home = house.daemon.home().to_owned();
    house.daemon =
        Daemon::start_as(inside.command(machine::portreeve()), &home).with_directory_of(&mut house.daemon);
    assert_eq!(house.events("lease.expired")[0]["entityId"], lease["leaseId"]);
    let released = house.events("run.released");
    assert_eq!(released.len(), 2, "{released:?}");
    assert!(
        released.iter().all(|event| event["payload"] == json!({"reason": "machine-restarted"})),
        "{released:?}"
    );
    // The server lives on, and isn't the run's: another boot's numbers prove nothing.
    let entry = house.port(served.port());
    assert_eq!((&entry["classification"], &entry["run"]), (&json!("conflicting"), &Value::Null), "{entry}");
    assert_eq!(
        house.lease("api", json!({}))["port"],
        lease["port"],
        "a port that was never confirmed is free"
    );
    assert_eq!(house.port(ephemeral.port())["claim"]["mode"], "ephemeral");
}

#[test]
fn the_wall_clock_moves_and_no_lease_does() {
    const NAME: &str = "the_wall_clock_moves_and_no_lease_does";
    let Some(library) = faketime() else {
        given(NAME, "needs libfaketime (package faketime)", false);
        return;
    };
    let ports = Ports::reserve();
    let directory = tempfile::tempdir().expect("a temp dir");
    machine::give(directory.path());
    let home = directory.path().join("home");
    prepare(&home, &with_range(json!({}), ports));
    // Read anew at each question; monotonic and boot time are left alone.
    let offset = directory.path().join("offset");
    let set = |text: &str| {
        let next = directory.path().join("next");
        std::fs::write(&next, text).expect("written");
        std::fs::rename(&next, &offset).expect("replaced");
    };
    set("+0");
    let mut command = machine::as_user("env");
    command.arg(format!("LD_PRELOAD={library}")).arg(format!("FAKETIME_TIMESTAMP_FILE={}", offset.display()));
    command.args(["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"]);
    command.arg(machine::portreeve());
    let daemon = Daemon::start_as(command, &home);
    let worktree = machine::worktree();
    let wall = |lease: &Value| lease["expiresAt"].as_str().expect("a time").to_owned();
    for (component, moved) in [("web", "+3600"), ("api", "-3600")] {
        set("+0");
        let lease = daemon.acquire(worktree.path(), component, json!({}));
        set(moved);
        let renewed = daemon.post(&of(&lease, "renew"), with(&lease, json!({})));
        assert_ne!(
            renewed["expiresAt"].as_str().expect("a time")[..13],
            wall(&lease)[..13],
            "the clock was moved"
        );
        let server = Actor::serve(worktree.path(), port(&lease));
        daemon.post(&of(&lease, "confirm"), with(&lease, json!({"rootPid": server.pid()})));
    }
    let expired = daemon.get("/v1/history?eventType=lease.expired&limit=10");
    assert_eq!(expired["items"], json!([]));
}

/// Where the library is that moves the wall clock of one process.
fn faketime() -> Option<String> {
    let found = std::fs::read_dir("/usr/lib")
        .ok()?
        .flatten()
        .map(|entry| entry.path().join("faketime/libfaketime.so.1"));
    let found = found.chain(["/usr/lib/faketime/libfaketime.so.1".into()]).find(|path| path.exists())?;
    Some(found.to_str()?.to_owned())
}
