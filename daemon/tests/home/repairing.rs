//! Repair: what can be read is kept, what can't is counted, and the damaged files stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use portreeve_daemon::clock::{Moment, SetClock};
use portreeve_daemon::home::Home;
use portreeve_daemon::store::repair::{Lost, RepairError, RepairReport, TableReport, Unreadable, repair};
use portreeve_daemon::store::{FILE_NAME, NEWEST_SCHEMA, Store, StoreError, quick_check};
use tempfile::TempDir;

const CLAIMS: usize = 1_000;
const EVENTS: usize = 2_000;
const PAGE: usize = 4096;

struct Damaged {
    _dir: TempDir,
    home: Home,
    clock: SetClock,
    db: PathBuf,
}

/// A home with a well-filled store, closed.
fn filled() -> Damaged {
    static FILE: LazyLock<Vec<u8>> = LazyLock::new(fill);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let wall = "2026-03-04T05:06:07Z".parse().expect("a time");
    let clock = SetClock::new(Moment { wall, boot_ms: 1 }, "boot");
    let home = Home::open(&dir.path().join("home"), None, &clock).expect("the home is free");
    let db = home.store_path();
    fs::write(&db, &*FILE).expect("the store's file");
    Damaged { _dir: dir, home, clock, db }
}

fn fill() -> Vec<u8> {
    let place = crate::support::place();
    let store = place.open();
    store
        .write(|tx| {
            for claim in 0..CLAIMS {
                tx.execute(
                    "INSERT INTO claim VALUES (?1, 'p', ?2, 'web', 'default', 'sticky', ?3, NULL, NULL, NULL, NULL,
                     NULL, 't', 't', 't')",
                    (format!("claim-{claim:05}"), format!("/work/{claim}"), 10_000 + claim as i64),
                )?;
                tx.execute(
                    "INSERT INTO run (id, claim_id, lease_id, port, state, binding_kind, boot_id, confirmed_at)
                     VALUES (?1, ?2, 'l', ?3, 'released', 'process', 'boot', 't')",
                    (format!("run-{claim:05}"), format!("claim-{claim:05}"), 10_000 + claim as i64),
                )?;
            }
            for event in 0..EVENTS {
                tx.execute(
                    "INSERT INTO event (id, event_type, entity_type, entity_id, payload, occurred_at)
                     VALUES (?1, 'claim.created', 'claim', 'c', '{\"some\": \"payload\"}', 't')",
                    [format!("event-{event:05}")],
                )?;
            }
            tx.execute("INSERT INTO setting VALUES ('key', '1')", ())
        })
        .expect("the rows");
    drop(store);
    fs::read(&place.db).expect("the store's file")
}

impl Damaged {
    fn edit(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(&self.db).expect("the file");
        change(&mut bytes);
        fs::write(&self.db, bytes).expect("the file again");
    }

    fn pages_of(&self, object: &str) -> Vec<usize> {
        let conn = rusqlite::Connection::open(&self.db).expect("it opens");
        let mut statement =
            conn.prepare("SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = 'leaf'").expect("dbstat");
        let pages = statement.query_map([object], |row| row.get::<_, i64>(0)).expect("pages");
        pages.map(|page| page.expect("a page") as usize - 1).collect()
    }

    /// Repairs; what comes out is sound, and what was there is kept as it was.
    #[track_caller]
    fn check(&self) -> RepairReport {
        let files = ["", "-wal"];
        let bytes = |path: &Path, suffix| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            fs::read(name).unwrap_or_default()
        };
        let before = files.map(|suffix| bytes(&self.db, suffix));
        let report = repair(&self.home, &self.clock).expect("the repair works");
        assert!(files.map(|suffix| bytes(&report.kept_as, suffix)) == before, "the damaged files are kept");
        let name = report.kept_as.file_name().expect("a name").to_str().expect("UTF-8");
        assert!(name.starts_with("authority.db.damaged-20260304T050607Z"), "{name}");
        let store = Store::open(&self.db).expect("it opens");
        quick_check(&self.db).expect("it is sound");
        for TableReport { table, kept, .. } in &report.tables {
            let count: i64 = store
                .read(|conn| {
                    Ok::<_, StoreError>(conn.query_row(
                        &format!("SELECT count(*) FROM {table}"),
                        (),
                        |row| row.get(0),
                    )?)
                })
                .expect("a count");
            assert_eq!(count, *kept as i64, "{table}");
        }
        drop(store);
        let leftovers: Vec<_> = fs::read_dir(self.home.path())
            .expect("the home")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .filter(|name| name.starts_with(FILE_NAME) && name != FILE_NAME && !name.contains(".damaged-"))
            .collect();
        assert_eq!(leftovers, [""; 0]);
        report
    }
}

fn table<'a>(report: &'a RepairReport, name: &str) -> &'a TableReport {
    report.tables.iter().find(|table| table.table == name).expect("a table")
}

fn kept(report: &RepairReport) -> [u64; 4] {
    ["claim", "run", "event", "setting"].map(|name| table(report, name).kept)
}

const ALL: [u64; 4] = [CLAIMS as u64, CLAIMS as u64, EVENTS as u64, 1];

#[test]
fn a_healthy_store_keeps_everything_and_can_be_repaired_again() {
    let damaged = filled();
    let first = damaged.check();
    assert_eq!((kept(&first), first.complete(), first.header_replaced), (ALL, true, false));
    let second = damaged.check();
    assert_eq!(kept(&second), ALL);
    assert_ne!(first.kept_as, second.kept_as);
    let next: i64 = Store::open(&damaged.db)
        .expect("it opens")
        .write(|tx| {
            tx.query_row(
                "INSERT INTO event (id, event_type, entity_type, entity_id, payload, occurred_at)
                 VALUES ('next', 't', 't', 't', '{}', 't') RETURNING seq",
                (),
                |row| row.get(0),
            )
        })
        .expect("a row");
    assert_eq!(next, EVENTS as i64 + 1);
}

#[test]
fn a_bad_page_in_the_middle_costs_its_own_rows_and_they_are_counted() {
    for (object, bad) in [("event", 1), ("event", 3), ("claim", 2)] {
        let damaged = filled();
        let leaves = damaged.pages_of(object);
        let chosen: Vec<_> = (1..=bad).map(|part| leaves[leaves.len() * part / (bad + 1)]).collect();
        damaged.edit(|bytes| {
            for page in &chosen {
                bytes[page * PAGE..(page + 1) * PAGE].fill(0xa5);
            }
        });
        let report = damaged.check();
        let hurt = table(&report, object);
        let all = if object == "event" { EVENTS } else { CLAIMS } as u64;
        let lost = all - hurt.kept;
        assert!(lost > 0 && lost < 100 * bad as u64, "{report:?}");
        assert_eq!(hurt.lost, Lost { refused: 0, unreadable: Unreadable::Rows(lost) });
        if object == "claim" {
            // Runs of claims that are gone go with them.
            assert_eq!(table(&report, "run").lost, Lost { refused: lost, unreadable: Unreadable::None });
            assert_eq!(table(&report, "event").kept, EVENTS as u64);
        } else {
            assert_eq!(table(&report, "run").kept, CLAIMS as u64);
        }
    }
}

#[test]
fn a_bad_first_or_last_page_of_a_table_costs_its_own_rows() {
    for last in [false, true] {
        let damaged = filled();
        let leaves = damaged.pages_of("event");
        let page = if last { leaves[leaves.len() - 1] } else { leaves[0] };
        damaged.edit(|bytes| bytes[page * PAGE..(page + 1) * PAGE].fill(0));
        let lost = EVENTS as u64 - table(&damaged.check(), "event").kept;
        assert!(lost > 0 && lost < 100, "{lost}");
    }
}

#[test]
fn a_bad_index_costs_nothing() {
    for index in ["claim_workspace_root", "sqlite_autoindex_claim_1", "event_entity"] {
        let damaged = filled();
        let page = damaged.pages_of(index)[0];
        damaged.edit(|bytes| bytes[page * PAGE..(page + 1) * PAGE].fill(0xa5));
        let report = damaged.check();
        assert_eq!((kept(&report), report.complete()), (ALL, true), "{index}");
    }
}

#[test]
fn a_bad_byte_within_a_row_costs_at_most_that_row() {
    let damaged = filled();
    let leaves = damaged.pages_of("claim");
    damaged.edit(|bytes| {
        let page = &mut bytes[leaves[3] * PAGE..(leaves[3] + 1) * PAGE];
        let at = page.windows(6).position(|bytes| bytes == b"claim-").expect("a row");
        page[at + 6] = 0xff;
    });
    let report = damaged.check();
    assert_eq!(table(&report, "claim").kept, CLAIMS as u64 - 1);
    assert_eq!(table(&report, "claim").lost.refused, 1);
}

#[test]
fn a_garbage_header_or_first_page_costs_nothing() {
    for end in [16, 100, PAGE] {
        let damaged = filled();
        damaged.edit(|bytes| bytes[..end].fill(0xa5));
        let report = damaged.check();
        assert_eq!((kept(&report), report.header_replaced), (ALL, true), "{end}");
    }
    let damaged = filled();
    damaged.edit(|bytes| bytes[100..PAGE].fill(0));
    assert_eq!(kept(&damaged.check()), ALL);
    let damaged = filled();
    let schema = damaged.pages_of("sqlite_schema");
    damaged.edit(|bytes| schema.iter().for_each(|page| bytes[page * PAGE..(page + 1) * PAGE].fill(0xa5)));
    assert_eq!(kept(&damaged.check()), ALL);
}

#[test]
fn a_truncated_file_keeps_what_is_left() {
    let damaged = filled();
    damaged.edit(|bytes| bytes.truncate(bytes.len() * 9 / 10));
    let report = damaged.check();
    assert!(!report.complete(), "{report:?}");
    let left: u64 = kept(&report).iter().sum();
    assert!(left > ALL.iter().sum::<u64>() / 2, "{report:?}");
    for length in [0, 10, PAGE] {
        let damaged = filled();
        damaged.edit(|bytes| bytes.truncate(length));
        damaged.check();
    }
}

#[test]
fn a_log_is_played_and_a_lost_one_costs_only_what_was_in_it() {
    for lost in [false, true] {
        let damaged = filled();
        let store = Store::open(&damaged.db).expect("it opens");
        store.write(|tx| tx.execute("INSERT INTO setting VALUES ('in the log', '1')", ())).expect("a row");
        // A killed daemon: nothing folds the log into the file.
        let log = damaged.db.with_file_name(format!("{FILE_NAME}-wal"));
        let (file, frames) = (fs::read(&damaged.db).expect("the file"), fs::read(&log).expect("the log"));
        drop(store);
        fs::write(&damaged.db, &file).expect("the file as it was");
        if !lost {
            fs::write(&log, &frames).expect("the log as it was");
        }
        let report = damaged.check();
        assert_eq!(table(&report, "setting").kept, if lost { 1 } else { 2 });
        assert_eq!(kept(&report)[..3], ALL[..3]);
    }
}

#[test]
fn the_log_alone_gives_back_what_is_in_it() {
    let damaged = filled();
    let store = Store::open(&damaged.db).expect("it opens");
    store.write(|tx| tx.execute("INSERT INTO setting VALUES ('in the log', '1')", ())).expect("a row");
    let log = damaged.db.with_file_name(format!("{FILE_NAME}-wal"));
    let frames = fs::read(&log).expect("the log");
    drop(store);
    fs::remove_file(&damaged.db).expect("the file goes");
    fs::write(&log, &frames).expect("the log as it was");
    assert_eq!(table(&damaged.check(), "setting").kept, 2);
}

#[test]
fn a_newer_schema_and_another_programs_file_are_refused_untouched() {
    let newer = format!("PRAGMA user_version = {}", NEWEST_SCHEMA + 1);
    for sql in [newer.as_str(), "PRAGMA application_id = 7"] {
        for short in [false, true] {
            let damaged = filled();
            rusqlite::Connection::open(&damaged.db).expect("it opens").execute_batch(sql).expect("it works");
            if short {
                damaged.edit(|bytes| bytes.truncate(bytes.len() / 2));
            }
            let listing = || {
                let entries = fs::read_dir(damaged.home.path()).expect("the home");
                let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
                names.sort();
                (names, fs::read(&damaged.db).expect("the file"))
            };
            let before = listing();
            let error = repair(&damaged.home, &damaged.clock).expect_err("it is refused");
            assert!(matches!(error, RepairError::NotOurs(_)), "{error:?}");
            assert!(listing() == before, "something changed");
        }
    }
}

#[test]
fn without_a_store_there_is_nothing_to_repair() {
    let damaged = filled();
    fs::remove_file(&damaged.db).expect("it was there");
    assert!(matches!(repair(&damaged.home, &damaged.clock), Err(RepairError::Absent { .. })));
}

#[test]
fn an_interrupted_swap_is_finished_by_the_next_start() {
    let damaged = filled();
    let good = fs::read(&damaged.db).expect("the file");
    // The new store is whole, the old log still has its name: the worst moment for a power cut.
    let store = Store::open(&damaged.db).expect("it opens");
    store.write(|tx| tx.execute("DELETE FROM claim", ())).expect("what the old log says");
    let log = damaged.db.with_file_name(format!("{FILE_NAME}-wal"));
    let frames = fs::read(&log).expect("the log");
    drop(store);
    fs::write(&log, frames).expect("the log as it was");
    damaged.edit(|bytes| bytes.truncate(10));
    let repaired = damaged.db.with_file_name(format!("{FILE_NAME}.repaired"));
    fs::write(&repaired, good).expect("the new store");
    let store = Store::open(&damaged.db).expect("it opens");
    let claims: i64 = store
        .read(|conn| Ok::<_, StoreError>(conn.query_row("SELECT count(*) FROM claim", (), |row| row.get(0))?))
        .expect("a count");
    assert_eq!(claims, CLAIMS as i64);
    assert!(!repaired.exists());
}

/// Whatever is broken, repair ends, with a sound store of rows that were there, or says why not.
#[test]
fn any_damage_ends_in_a_sound_store() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for _ in 0..16 {
        let damaged = filled();
        damaged.edit(|bytes| {
            for _ in 0..=next(8) {
                let (at, length) = (next(bytes.len()), 1 + next(3 * PAGE));
                let end = bytes.len().min(at + length);
                match next(3) {
                    0 => bytes[at..end].fill(next(256) as u8),
                    1 => bytes[at] ^= 1 << next(8),
                    _ => bytes[at..end].iter_mut().for_each(|byte| *byte = next(256) as u8),
                }
            }
            // What the header says of schema and owner is what a repair goes by.
            bytes[60..72].copy_from_slice(&[
                0,
                0,
                0,
                NEWEST_SCHEMA as u8,
                0,
                0,
                0,
                0,
                0x50,
                0x52,
                0x76,
                0x65,
            ]);
        });
        let report = damaged.check();
        assert!(kept(&report).iter().zip(ALL).all(|(kept, all)| *kept <= all), "{report:?}");
    }
}
