//! The fifteen faults that an existing implementation was found to have (its list is numbered so), and that this
//! one must not have.
//!
//! Those of operations that aren't built yet wait for them: 4 (a stack's status reads the whole machine once an
//! endpoint), 12 (begin, repeated after its activation ended), 13 (a kill in the middle of an execute).
//! 11 (a bridge that exits abandons its leases) is the bridge's, and shown by its own tests; here is that the
//! daemon lets go at once of what is abandoned. The client's half of 14 is the bridge's, too.

use crate::actor::Actor;
use crate::support::{House, given, house, house_with, of, port, token, two_users, with};
use portreeve_test_harness::machine::{self, Daemon, until};
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

#[test]
fn fault_01_a_port_that_an_unseen_holder_has_is_not_handed_out_again_and_again() {
    let house = house();
    let mut got = Vec::new();
    // Whoever reports that it couldn't bind is given another port each time, whoever holds the first.
    for _ in 0..3 {
        let lease = house.lease("web", json!({}));
        house.abandon(&lease, "address-in-use");
        assert!(!got.contains(&port(&lease)), "{got:?} {lease}");
        got.push(port(&lease));
    }
}

#[test]
fn fault_01_another_users_port_is_not_handed_out() {
    if !given("fault_01_another_users_port_is_not_handed_out", "needs PORTREEVE_TEST_UID", two_users()) {
        return;
    }
    let house = house();
    let _foreign = Actor::start_as_us(Path::new("/"), &[&format!("listen=127.0.0.1,{}", house.ports.start)]);
    let _bound = Actor::start_as_us(Path::new("/"), &[&format!("bind=0.0.0.0,{}", house.ports.start + 1)]);
    assert_eq!(port(&house.lease("web", json!({}))), house.ports.start + 2);
}

#[test]
fn fault_02_a_process_without_a_name_spoils_no_list() {
    let house = house();
    let wished = house.ports.wish(0);
    let nameless = Actor::start(Path::new("/"), &[&format!("listen=127.0.0.1,{wished}"), "name=00"]);
    let list = house.get("/v1/ports");
    let entry =
        list.as_array().expect("a list").iter().find(|entry| entry["port"] == wished).expect("listed");
    assert_eq!(entry["listeners"][0]["pid"], nameless.pid());
}

#[test]
fn fault_03_after_a_crash_acquire_just_works() {
    let house = house();
    let mut served = house.served("web", json!({}));
    served.server.kill();
    // At once, whether the end is recorded or not, and without the run's id.
    let lease = house.lease("web", json!({}));
    assert_eq!((&lease["port"], &lease["reusedAssignment"]), (&json!(served.port()), &json!(true)));
    let server = Actor::serve(house.worktree.path(), port(&lease));
    assert_ne!(house.confirm(&lease, server.pid())["runId"], served.run["runId"]);
}

#[test]
fn fault_05_acquire_starts_no_process() {
    let house = house();
    let pid = house.daemon.process.id();
    let _busy = Actor::serve(Path::new("/"), house.ports.start);
    let reaped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let after: Vec<String> =
            stat.rsplit(')').next().expect("a stat line").split_whitespace().map(str::to_owned).collect();
        // Faults and times of children that were waited for: cminflt, cmajflt, cutime, cstime (proc_pid_stat(5)).
        [8, 10, 13, 14].map(|field| after[field].clone())
    };
    assert_eq!(port(&house.lease("web", json!({}))), house.ports.start + 1);
    house.get("/v1/ports");
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    assert_eq!(
        (children.as_str(), reaped()),
        ("", ["0", "0", "0", "0"].map(str::to_owned)),
        "it had a child"
    );
}

#[test]
fn fault_06_leases_do_not_follow_the_wall_clock() {
    let mut house = house_with(json!({"leaseTtlMilliseconds": 2000}));
    // As if the wall clock had been an hour ahead, and an hour behind, when the leases were made.
    let ahead = house.lease("ahead", json!({}));
    let behind = house.lease("behind", json!({}));
    house.daemon.kill();
    let path = house.daemon.home().join(portreeve_daemon::store::FILE_NAME);
    let conn = rusqlite::Connection::open(path).expect("the store can be opened");
    for (lease, at) in [(&ahead, "2099-01-01T00:00:00.000Z"), (&behind, "2001-01-01T00:00:00.000Z")] {
        let id = lease["leaseId"].as_str().expect("an id");
        let changed =
            conn.execute("UPDATE lease SET expires_at = ?2, created_at = ?2 WHERE id = ?1", [id, at]);
        assert_eq!(changed, Ok(1));
    }
    drop(conn);
    house.daemon = Daemon::start_in(house.daemon.home()).with_directory_of(&mut house.daemon);
    // Neither is cut, and neither is stretched.
    house.post(&of(&behind, "renew"), with(&behind, json!({})));
    for lease in [&ahead, &behind] {
        house.event("lease.expired", &lease["leaseId"]);
    }
    assert_eq!(house.lease("ahead", json!({}))["port"], ahead["port"]);
}

#[test]
fn fault_07_two_daemons_never_live_on_one_home() {
    let directory = tempfile::tempdir().expect("a temp dir");
    machine::give(directory.path());
    let home = directory.path().join("home");
    // A dead daemon's socket is in the way.
    Daemon::start_in(&home).kill();
    assert!(home.join("portreeve.sock").exists());
    let start = |socket: &str| -> Child {
        let mut command = machine::as_user(machine::portreeve());
        command.args(["serve", "--home"]).arg(&home).arg("--socket").arg(home.join(socket));
        machine::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
            .expect("starts")
    };
    let mut all: Vec<Child> =
        ["portreeve.sock", "portreeve.sock", "other.sock", "other.sock"].into_iter().map(start).collect();
    until("all but one have given up", || {
        let living = all.iter_mut().map(|child| u8::from(matches!(child.try_wait(), Ok(None)))).sum::<u8>();
        assert!(living > 0, "one lives");
        (living == 1).then_some(())
    });
    for child in &mut all {
        drop(child.kill());
        drop(child.wait());
    }
}

#[test]
fn fault_08_history_and_old_records_are_bounded() {
    let mut house = house_with(json!({"historyMaximumEvents": 100}));
    for _ in 0..60 {
        let lease = house.lease("web", json!({}));
        house.abandon(&lease, "client-cancelled");
    }
    let count = |house: &House, table: &str| house.tables()[table].as_array().map_or(0, Vec::len);
    assert_eq!(count(&house, "event"), 100);
    assert_eq!(count(&house, "lease"), 60);
    // What was settled days ago goes.
    house.daemon.kill();
    let path = house.daemon.home().join(portreeve_daemon::store::FILE_NAME);
    let conn = rusqlite::Connection::open(path).expect("the store can be opened");
    conn.execute("UPDATE lease SET settled_at = '2001-01-01T00:00:00.000Z'", ()).expect("written");
    drop(conn);
    house.daemon = Daemon::start_in(house.daemon.home()).with_directory_of(&mut house.daemon);
    until("old leases are swept", || (count(&house, "lease") == 0).then_some(()));
}

#[test]
fn fault_09_a_refused_exact_port_leaves_no_claim() {
    let house = house();
    let wished = house.ports.wish(0);
    let _stranger = Actor::serve(Path::new("/"), wished);
    house.no_lease("web", json!({"exactPort": wished}));
    assert_eq!(house.get("/v1/claims"), json!([]));
    assert_eq!(house.events("claim.created"), Vec::<Value>::new());
}

#[test]
fn fault_10_events_come_in_the_order_of_their_commits() {
    let house = house();
    for n in 0..20 {
        let lease = house.lease(&format!("c{n}"), json!({}));
        house.abandon(&lease, "client-cancelled");
    }
    let page = house.get("/v1/history?order=asc&limit=200");
    let kinds: Vec<&str> = page["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|event| event["eventType"].as_str())
        .collect();
    let one = ["claim.created", "lease.acquired", "lease.abandoned"];
    assert_eq!(kinds, one.repeat(20));
}

#[test]
fn fault_11_what_is_abandoned_is_free_at_once() {
    let house = house();
    let lease = house.lease("web", json!({}));
    house.abandon(&lease, "client-cancelled");
    assert_eq!(house.lease("api", json!({}))["port"], lease["port"]);
}

#[test]
fn fault_14_only_what_waiting_can_help_is_retryable() {
    let house = house();
    let served = house.served("web", json!({}));
    house.lease("pending", json!({}));
    let stranger = house.ports.wish(0);
    let _stranger = Actor::serve(Path::new("/"), stranger);
    for (component, allocation, retryable) in [
        // Its time will end.
        ("pending", json!({}), true),
        // The stranger may go.
        ("other", json!({"exactPort": stranger}), true),
        // These stay so.
        ("web", json!({"mode": "ephemeral"}), false),
        ("web", json!({"exactPort": stranger}), false),
        ("web", json!({}), false),
        ("other", json!({"exactPort": served.port()}), false),
    ] {
        let error = house.no_lease(component, allocation.clone());
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!("conflict"), &json!(retryable)),
            "{allocation} {error}"
        );
    }
}

#[test]
fn fault_15_a_worktree_has_one_identity_or_is_refused_by_name() {
    let house = house();
    let root = house.worktree.path();
    std::os::unix::fs::symlink(root.join("src"), root.join("link")).expect("a link");
    std::fs::write(root.join("file"), "").expect("a file");
    let first = house.acquire(&root.join("src"), "web", json!({}));
    // Spelled otherwise, it is the same claim.
    for spelled in ["link", "src/.", "src/../src", "src/"] {
        let body = machine::acquire(&root.join(spelled), "web", json!({}));
        let error = house.refused("POST", "/v1/leases/acquire", Some(body)).1;
        assert_eq!(error["details"]["claimId"], first["claimId"], "{spelled}: {error}");
    }
    let odd = root.join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&odd).expect("a folder");
    std::os::unix::fs::symlink(&odd, root.join("to-odd")).expect("a link");
    for spelled in [root.join("missing"), root.join("file"), "src".into(), root.join("to-odd"), "".into()] {
        let body = machine::acquire(&spelled, "web", json!({}));
        let (status, error) = house.refused("POST", "/v1/leases/acquire", Some(body));
        assert_eq!(
            (status, &error["code"]),
            (400, &json!("invalid_input")),
            "{}: {error}",
            spelled.display()
        );
        assert_eq!(error["details"]["issues"][0]["path"], json!(["claim", "workspaceRoot"]), "{error}");
    }
    // The same component name in two apps of one repository is two claims.
    std::fs::create_dir(root.join("other")).expect("a folder");
    let second = house.acquire(&root.join("other"), "web", json!({}));
    assert_ne!((&second["claimId"], &second["port"]), (&first["claimId"], &first["port"]));
}

#[test]
fn a_worktree_that_the_daemon_may_not_look_into_is_said_to_be_so() {
    if !given(
        "a_worktree_that_the_daemon_may_not_look_into_is_said_to_be_so",
        "needs PORTREEVE_TEST_UID",
        two_users(),
    ) {
        return;
    }
    let house = house();
    let closed = tempfile::tempdir().expect("a temp dir");
    std::fs::create_dir(closed.path().join("app")).expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(closed.path(), mode).expect("it is ours");
    let mut body = house.bringing("web", json!({}), &token());
    body["claim"]["workspaceRoot"] = json!(closed.path().join("app"));
    let (status, error) = house.refused("POST", "/v1/leases/acquire", Some(body));
    assert_eq!((status, &error["code"]), (400, &json!("invalid_input")), "{error}");
}
