//! A store that can't be served from: the daemon says so in its health and to everybody who asks, and leaves every
//! byte as it was.

use crate::support::{check_envelope, home, in_store, lives, terminate};
use portreeve_daemon::store::FILE_NAME;
use portreeve_test_harness::machine::{Daemon, acquire, ask, until, worktree};
use serde_json::{Value, json};
use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// A home whose store holds some rows, closed.
fn lived_in() -> (tempfile::TempDir, PathBuf) {
    let (directory, home) = home();
    let workspace = worktree();
    let mut daemon = Daemon::start_in(&home);
    for i in 0..40 {
        daemon.acquire(workspace.path(), &format!("component-{i:03}"), json!({}));
    }
    assert!(terminate(&mut daemon).success());
    (directory, home)
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(path).expect("the store can be opened");
    file.seek(SeekFrom::Start(at)).expect("a place in it");
    file.write_all(bytes).expect("it can be written");
}

/// Every operation that needs the store, with a request that would otherwise be fine.
fn asked(workspace: &Path) -> Vec<(&'static str, String, Option<Value>)> {
    let id = "0c2ac85d-ce3d-4fbb-9ab9-648eb8430b68";
    let token = "A".repeat(43);
    let post = |target: &str, body: Value| ("POST", target.replace("ID", id), Some(body));
    vec![
        ("GET", "/v1/config".into(), None),
        ("GET", "/v1/claims".into(), None),
        ("GET", format!("/v1/claims/{id}"), None),
        ("GET", "/v1/ports".into(), None),
        ("GET", "/v1/ports?afterCursor=".into(), None),
        ("GET", "/v1/ports/20000".into(), None),
        ("GET", "/v1/history".into(), None),
        post("/v1/leases/acquire", acquire(workspace, "web", json!({}))),
        post("/v1/leases/ID/renew", json!({"leaseToken": token})),
        post("/v1/leases/ID/confirm", json!({"leaseToken": token, "rootPid": std::process::id()})),
        post("/v1/leases/ID/abandon", json!({"leaseToken": token, "reason": "startup-error"})),
        post("/v1/runs/ID/release", json!({})),
        post("/v1/runs/ID/release", json!({"ifStopped": true})),
    ]
}

/// The daemon answers health, logs and stop, and everything else with `class`.
fn serves_its_health_only(daemon: &mut Daemon, class: &str) {
    let workspace = worktree();
    let health = daemon.get("/v1/health");
    let said = health["store"].as_str().unwrap_or_else(|| panic!("nothing is said of the store: {health}"));
    assert!(!said.is_empty());
    for (method, target, body) in asked(workspace.path()) {
        let (status, reply) = ask(daemon.socket(), method, &target, body);
        check_envelope(status, &reply);
        assert_eq!(status, 503, "{method} {target}: {reply}");
        let error = &reply["error"];
        assert_eq!(error["code"], "unavailable", "{method} {target}");
        assert_eq!(error["failure"]["class"], class, "{method} {target}");
        assert_eq!(error["retryable"], false, "{method} {target}");
        assert!(error["failure"]["nextStep"]["text"].as_str().is_some_and(|t| t.contains("PortReeve")));
    }
    // What can't be read is refused as ever.
    let (status, error) = daemon.refused("GET", "/v1/ports/0", None);
    assert_eq!((status, error["code"].as_str()), (400, Some("invalid_input")));
    assert!(daemon.get("/v1/logs").is_array());
    lives(daemon);
    assert_eq!(daemon.post("/v1/server/stop", json!({}))["changed"], true);
    let status = until("the daemon ends", || daemon.process.try_wait().expect("a child can be waited for"));
    assert!(status.success(), "{status}");
}

/// Does something to the file at a path.
type Damage = fn(&Path);

#[test]
fn a_damaged_store_is_told_of_and_left_as_it_was() {
    let damages: [(&str, Damage); 6] = [
        ("a garbage header", |path| overwrite(path, 0, &[0xA5; 100])),
        ("a garbage first page", |path| overwrite(path, 0, &[0xA5; 4096])),
        ("a file cut in its middle", |path| {
            let file = fs::OpenOptions::new().write(true).open(path).expect("the store can be opened");
            file.set_len(file.metadata().expect("it is there").len() / 2).expect("it can be cut");
        }),
        ("an empty file", |path| fs::write(path, "").expect("it can be written")),
        ("a text file", |path| fs::write(path, "x".repeat(10_000)).expect("it can be written")),
        ("a folder", |path| {
            fs::remove_file(path).expect("it can be removed");
            fs::create_dir(path).expect("a folder can be made");
        }),
    ];
    for (what, damage) in damages {
        let (_directory, home) = lived_in();
        let path = home.join(FILE_NAME);
        damage(&path);
        let before = fs::read(&path).ok();
        let mut daemon = Daemon::start_in(&home);
        serves_its_health_only(&mut daemon, "store.corrupt");
        assert_eq!(fs::read(&path).ok(), before, "{what}");
    }
}

#[test]
fn damage_within_the_pages_is_found_behind_the_service() {
    let (_directory, home) = lived_in();
    let path = home.join(FILE_NAME);
    let mut first_page = 0_u32;
    in_store(&home, |conn| {
        first_page = conn
            .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'event_entity'", (), |row| row.get(0))
            .expect("a table has a root");
    });
    // An index that nothing at the start reads.
    overwrite(&path, u64::from(first_page - 1) * 4096, &[0xA5; 4096]);
    let mut daemon = Daemon::start_in(&home);
    until("the damage is found", || daemon.get("/v1/health")["store"].is_string().then_some(()));
    serves_its_health_only(&mut daemon, "store.corrupt");
}

#[test]
fn damage_that_the_start_comes_upon_is_told_of_too() {
    for table in ["setting", "claim", "lease_pending_port"] {
        let (_directory, home) = lived_in();
        let path = home.join(FILE_NAME);
        let mut first_page = 0_u32;
        in_store(&home, |conn| {
            first_page = conn
                .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
                .expect("a table has a root");
        });
        overwrite(&path, u64::from(first_page - 1) * 4096, &[0xA5; 4096]);
        let mut daemon = Daemon::start_in(&home);
        until("the damage is found", || daemon.get("/v1/health")["store"].is_string().then_some(()));
        serves_its_health_only(&mut daemon, "store.corrupt");
    }
}

#[test]
fn a_stored_setting_out_of_its_type_is_damage() {
    let (_directory, home) = home();
    in_store(&home, |conn| {
        conn.execute("INSERT INTO setting VALUES ('leaseTtlMilliseconds', '\"soon\"')", ()).expect("a row");
    });
    let mut daemon = Daemon::start_in(&home);
    assert!(daemon.get("/v1/health")["store"].as_str().is_some_and(|s| s.contains("leaseTtlMilliseconds")));
    serves_its_health_only(&mut daemon, "store.corrupt");
}

#[test]
fn a_newer_schema_or_another_programs_file_is_refused_untouched() {
    for (pragma, class) in
        [("user_version = 99", "store.schema_newer"), ("application_id = 1234", "store.corrupt")]
    {
        let (_directory, home) = lived_in();
        in_store(&home, |conn| conn.execute_batch(&format!("PRAGMA {pragma}")).expect("it can be set"));
        let path = home.join(FILE_NAME);
        let before = fs::read(&path).expect("it can be read");
        let mut daemon = Daemon::start_in(&home);
        serves_its_health_only(&mut daemon, class);
        assert!(fs::read(&path).expect("it can be read") == before, "{pragma}: the file was changed");
    }
}
