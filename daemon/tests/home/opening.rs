//! Opening a store: made privately, and left alone when it is damaged, newer or somebody else's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use portreeve_daemon::store::{NEWEST_SCHEMA, Store, StoreError, quick_check};

use crate::support::{Place, keys, place, put};

/// A store with some rows, closed.
fn closed() -> Place {
    let place = place();
    let store = place.open();
    (0..200).for_each(|key| put(&store, &format!("key {key:03}")));
    place
}

/// A store whose daemon was killed: what it wrote last is in the log alone.
fn killed() -> Place {
    let running = closed();
    let store = running.open();
    put(&store, "in the log");
    let copy = place();
    for suffix in ["", "-wal"] {
        fs::copy(running.beside(suffix), copy.beside(suffix)).expect("a copy");
    }
    drop(store);
    copy
}

/// Opening fails as `wanted` says and leaves every byte as it was.
#[track_caller]
fn check(place: &Place, wanted: impl FnOnce(&StoreError) -> bool) {
    let bytes = |path: &Path| fs::read(path).ok();
    let before = (bytes(&place.db), bytes(&place.beside("-wal")));
    let error = Store::open(&place.db).expect_err("the store must not open");
    assert!(wanted(&error), "{error:?}");
    assert!((bytes(&place.db), bytes(&place.beside("-wal"))) == before, "bytes changed");
}

fn corrupt(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. })
}

fn edit(place: &Place, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(&place.db).expect("the file");
    change(&mut bytes);
    fs::write(&place.db, bytes).expect("the file again");
}

fn sql(place: &Place, sql: &str) {
    rusqlite::Connection::open(&place.db).expect("it opens").execute_batch(sql).expect("it works");
}

#[test]
fn a_new_store_is_private_and_durable() {
    let place = place();
    let store = place.open();
    put(&store, "a");
    for suffix in ["", "-wal", "-shm"] {
        let mode = fs::metadata(place.beside(suffix)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
    assert!(!place.beside(".new").exists());
    quick_check(&place.db).expect("it is whole");
    let set = store
        .write(|tx| {
            ["synchronous", "foreign_keys", "application_id"]
                .into_iter()
                .map(|name| tx.query_row(&format!("PRAGMA {name}"), (), |row| row.get::<_, i64>(0)))
                .collect::<Result<Vec<_>, _>>()
        })
        .expect("the settings are read");
    assert_eq!(set, [2, 1, 0x5052_7665]);
}

#[test]
fn what_a_killed_daemon_wrote_is_there() {
    let place = killed();
    assert!(keys(&place.open()).contains(&"in the log".to_owned()));
}

#[test]
fn what_was_left_of_an_interrupted_creation_is_no_obstacle() {
    let place = place();
    fs::write(place.beside(".new"), "half").expect("a file");
    put(&place.open(), "a");
}

#[test]
fn damage_is_seen_and_nothing_is_touched() {
    for place in [closed(), killed()] {
        edit(&place, |bytes| bytes[..100].fill(0xa5));
        check(&place, corrupt);
    }
    let place = closed();
    edit(&place, |bytes| bytes.truncate(bytes.len() - 4096));
    check(&place, corrupt);
    for length in [0, 50, 100, 4095] {
        for place in [closed(), killed()] {
            edit(&place, |bytes| bytes.truncate(length));
            check(&place, corrupt);
        }
    }
    let place = killed();
    fs::remove_file(&place.db).expect("it was there");
    check(&place, corrupt);
    let place = closed();
    edit(&place, |bytes| bytes[100..4096].fill(0x5a));
    check(&place, corrupt);
    let place = closed();
    sql(&place, "DROP INDEX claim_workspace_root");
    check(&place, corrupt);
    let place = closed();
    sql(&place, "CREATE TRIGGER odd AFTER INSERT ON claim BEGIN DELETE FROM event; END");
    check(&place, corrupt);
}

#[test]
fn a_page_that_went_bad_is_found_by_the_check_behind_the_start() {
    let place = closed();
    let pages = fs::metadata(&place.db).expect("a file").len() as usize / 4096;
    let damaged = (1..pages).filter(|page| {
        let copy = self::place();
        let mut bytes = fs::read(&place.db).expect("the file");
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(&copy.db, bytes).expect("a copy");
        matches!(quick_check(&copy.db), Err(error) if corrupt(&error))
    });
    assert_eq!(damaged.count(), pages - 1);
}

#[test]
fn a_newer_schema_is_left_alone() {
    let newer = |error: &StoreError| {
        matches!(error, StoreError::SchemaNewer { found, known }
            if *found == NEWEST_SCHEMA + 1 && *known == NEWEST_SCHEMA)
    };
    let place = closed();
    sql(&place, &format!("PRAGMA user_version = {}", NEWEST_SCHEMA + 1));
    check(&place, newer);
    // The newer number may still be in the log.
    let running = closed();
    let conn = rusqlite::Connection::open(&running.db).expect("it opens");
    conn.execute_batch(&format!("PRAGMA user_version = {}", NEWEST_SCHEMA + 1)).expect("it works");
    let copy = self::place();
    for suffix in ["", "-wal"] {
        fs::copy(running.beside(suffix), copy.beside(suffix)).expect("a copy");
    }
    check(&copy, newer);
}

#[test]
fn another_programs_database_is_left_alone() {
    let place = place();
    sql(&place, "CREATE TABLE theirs (x); PRAGMA application_id = 7");
    check(&place, |error| matches!(error, StoreError::NotOurs(7)));
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let target = closed();
    let place = place();
    std::os::unix::fs::symlink(&target.db, &place.db).expect("a link");
    assert!(corrupt(&Store::open(&place.db).expect_err("a link is refused")));
    fs::remove_file(&place.db).expect("the link goes");
    fs::create_dir(&place.db).expect("a directory");
    assert!(corrupt(&Store::open(&place.db).expect_err("a directory is refused")));
}
