//! What needs root: directories of another user, and file systems that are read-only or full.
//!
//! Each case runs in a mount namespace of its own, so nothing is left on the machine.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use portreeve_daemon::clock::{Clock as _, SystemClock};
use portreeve_daemon::home::{DirectoryError, Home, HomeError};
use portreeve_daemon::socket::{SocketError, bind};
use portreeve_daemon::store::{Store, StoreError, WriteError, quick_check};

use crate::support::{keys, put};

const CASE: &str = "PORTREEVE_TEST_MOUNTED_CASE";

fn root(name: &str) -> bool {
    let root = cfg!(target_os = "linux") && rustix::process::geteuid().is_root();
    if !root {
        writeln!(std::io::stderr(), "not run (needs root): {name}").expect("standard error is open");
    }
    root
}

fn clock() -> SystemClock {
    SystemClock::new().expect("the machine has a boot id")
}

fn refused(path: &Path) -> DirectoryError {
    match Home::open(path, None, &clock()) {
        Err(HomeError::Directory(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_users_directory_is_refused() {
    if !root("another_users_directory_is_refused") {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).expect("a directory");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o755)).expect("a mode");
    chown(&theirs, Some(12_345), None).expect("root may");
    assert!(matches!(refused(&theirs), DirectoryError::Owner { owner: 12_345, path } if path == theirs));
    let mode = fs::metadata(&theirs).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "what is refused is left as it is");
    let home = Home::open(&dir.path().join("ours"), None, &clock()).expect("the home is free");
    let bound = bind(&theirs.join("s"), &home);
    assert!(matches!(bound, Err(SocketError::Directory(DirectoryError::Owner { owner: 12_345, .. }))));
}

/// Runs `case` in a mount namespace of its own: this binary again.
#[track_caller]
fn run(case: &str) {
    if !root(case) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new("unshare")
        .arg("--mount")
        .arg(env::current_exe().expect("this binary"))
        .args(["--exact", "mounted::child", "--nocapture"])
        .env(CASE, case)
        .env("TMPDIR", dir.path())
        .output()
        .expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case}: {text}");
}

/// A tmpfs of so many bytes, in the child's namespace only.
fn mount(size: &str) -> PathBuf {
    let path = env::temp_dir().join("mounted");
    fs::create_dir(&path).expect("a directory");
    let options = format!("size={size},mode=0700");
    shell(&["mount", "-t", "tmpfs", "-o", &options, "test"], &path);
    path
}

fn shell(command: &[&str], path: &Path) {
    let status = Command::new(command[0]).args(&command[1..]).arg(path).status().expect("it runs");
    assert!(status.success(), "{command:?}");
}

/// Leaves no room; removing the file gives it back.
fn fill(path: &Path) -> PathBuf {
    let filler = path.join("filler");
    let mut file = fs::File::create(&filler).expect("a file");
    for size in [65_536, 4_096, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    filler
}

/// Runs in the child only.
#[test]
fn child() {
    match env::var(CASE).as_deref() {
        Ok("read_only") => read_only(),
        Ok("full_home") => full_home(),
        Ok("full_store") => full_store(),
        Ok("other_boot") => other_boot(),
        Ok(other) => panic!("{other}"),
        Err(_) => {}
    }
}

#[test]
fn a_read_only_file_system_is_named() {
    run("read_only");
}

fn read_only() {
    let path = mount("1m");
    let home = path.join("home");
    drop(Home::open(&home, None, &clock()).expect("the home is free"));
    drop(Store::open(home.join("authority.db")).expect("a store"));
    shell(&["mount", "-o", "remount,ro"], &path);
    assert!(matches!(refused(&home), DirectoryError::ReadOnly { path } if path.starts_with(&home)));
    let missing = path.join("missing");
    assert!(matches!(refused(&missing), DirectoryError::ReadOnly { path } if path == missing));
    let error = Store::open(home.join("authority.db")).expect_err("nothing can be written");
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error:?}");
    let error = Store::open(home.join("new.db")).expect_err("nothing can be written");
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error:?}");
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing_half_done() {
    run("full_home");
}

fn full_home() {
    let path = mount("512k");
    let home = path.join("home");
    fs::create_dir(&home).expect("a directory");
    let filler = fill(&path);
    assert!(matches!(refused(&home), DirectoryError::Full { path } if path.starts_with(&home)));
    assert_eq!(fs::read_dir(&home).expect("the home").count(), 0);
    let error = Store::open(home.join("authority.db")).expect_err("there is no room");
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    fs::remove_file(filler).expect("there is room again");
    let home = Home::open(&home, None, &clock()).expect("it works now");
    put(&Store::open(home.store_path()).expect("it works now"), "a");
}

#[test]
fn a_full_disk_refuses_writes_keeps_what_was_answered_and_goes_on_reading() {
    run("full_store");
}

fn full_store() {
    let path = mount("4m");
    let db = path.join("authority.db");
    let store = Store::open(&db).expect("a store");
    put(&store, "before");
    let filler = fill(&path);
    // Many at once, so that groups fail together; some of them large enough to fail before their commit.
    let answered: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    (0..20)
                        .map(|write| {
                            let key = format!("{thread}-{write:02}");
                            let row = key.clone();
                            let size = if write % 5 == 0 { 3_000_000 } else { 20_000 };
                            let result = store.write(move |tx| {
                                tx.execute(
                                    "INSERT INTO setting VALUES (?1, json_quote(hex(zeroblob(?2))))",
                                    (row, size),
                                )
                                .map_err(StoreError::from)
                            });
                            (key, result)
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut wanted = vec!["before".to_owned()];
    let mut refused = 0;
    for (key, result) in answered {
        match result {
            Ok(_) => wanted.push(key),
            Err(
                WriteError::Store(StoreError::Full(_) | StoreError::Undone)
                | WriteError::Refused(StoreError::Full(_)),
            ) => {
                refused += 1;
            }
            Err(other) => panic!("{key}: {other:?}"),
        }
    }
    assert!(refused > 0);
    wanted.sort();
    assert_eq!(keys(&store), wanted, "reading goes on, and sees what was answered and nothing else");
    fs::remove_file(filler).expect("there is room again");
    put(&store, "z after");
    wanted.push("z after".to_owned());
    drop(store);
    quick_check(&db).expect("it is sound");
    assert_eq!(keys(&Store::open(&db).expect("it opens")), wanted);
}

#[test]
fn another_boot_has_another_id_and_another_clock() {
    run("other_boot");
}

fn other_boot() {
    let before = clock();
    let other = env::temp_dir().join("boot_id");
    fs::write(&other, "11111111-2222-3333-4444-555555555555\n").expect("a file");
    shell(&["mount", "--bind", &other.to_string_lossy()], Path::new("/proc/sys/kernel/random/boot_id"));
    let after = clock();
    assert_eq!(after.boot_id(), "11111111-2222-3333-4444-555555555555");
    assert_ne!(before.boot_id(), after.boot_id());
}
