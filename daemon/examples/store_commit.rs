//! What a durable write costs through the engine, beside a bare SQLite commit with `synchronous=FULL` on the same file
//! system in the same run.
//!
//! `cargo run --release -p portreeve-daemon --example store_commit [DIRECTORY]`
//!
//! The directory (the working directory if none is given) must be on a disk: a commit to a tmpfs measures nothing.

use std::env;
use std::error::Error;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use portreeve_daemon::store::{Store, StoreError};
use rusqlite::Connection;

const WRITES: usize = 4_000;
const THREADS: usize = 8;
const INSERT: &str = "INSERT INTO event (id, event_type, entity_type, entity_id, payload, occurred_at)
    VALUES (?1, 'lease.acquired', 'lease', 'l', '{\"port\": 3000}', '2026-01-02T03:04:05.678Z')";

fn main() -> Result<(), Box<dyn Error>> {
    let near = env::args_os().nth(1).map_or_else(env::current_dir, |path| Ok(PathBuf::from(path)))?;
    let directory = tempfile::tempdir_in(near)?;
    on_disk(directory.path())?;
    line("writes", "median", "p99", "per second");
    // In turn, three times: the disk's mood changes within a run.
    for round in 0..3 {
        let place = |name: &str| directory.path().join(format!("{name}-{round}.db"));
        bare(&place("bare"))?;
        engine(&place("engine"), 1)?;
        engine(&place("engine-many"), THREADS)?;
    }
    Ok(())
}

/// The reference: the same insert into the same tables, one transaction each, on one connection.
fn bare(path: &Path) -> Result<(), Box<dyn Error>> {
    // The tables come from the engine, the connection is SQLite's own.
    drop(Store::open(path)?);
    let conn = Connection::open(path)?;
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON;")?;
    let start = Instant::now();
    let mut times = Vec::with_capacity(WRITES);
    for write in 0..WRITES {
        let begin = Instant::now();
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        conn.prepare_cached(INSERT)?.execute([write.to_string()])?;
        conn.prepare_cached("COMMIT")?.execute(())?;
        times.push(begin.elapsed());
    }
    report("bare SQLite, 1 thread", times, start.elapsed());
    Ok(())
}

/// Through the engine, from so many threads, each waiting for its answer.
fn engine(path: &Path, threads: usize) -> Result<(), Box<dyn Error>> {
    let store = Store::open(path)?;
    let start = Instant::now();
    let times = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let store = &store;
                    move || write(store, thread)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a writer panicked")?)
            .collect::<Result<Vec<_>, _>>()
    });
    let times: Vec<_> = times?.into_iter().flatten().collect();
    report(&format!("engine, {threads} thread(s)"), times, start.elapsed());
    Ok(())
}

fn write(store: &Store, thread: usize) -> Result<Vec<Duration>, String> {
    let mut times = Vec::with_capacity(WRITES);
    for write in 0..WRITES {
        let begin = Instant::now();
        let id = format!("{thread}-{write}");
        let written = store.write(move |tx| Ok::<_, StoreError>(tx.prepare_cached(INSERT)?.execute([id])?));
        written.map_err(|error| error.to_string())?;
        times.push(begin.elapsed());
    }
    Ok(times)
}

fn report(what: &str, mut times: Vec<Duration>, whole: Duration) {
    times.sort_unstable();
    let at = |part: usize| format!("{:.1} us", times[times.len() * part / 100].as_secs_f64() * 1e6);
    let rate = format!("{:.0}", times.len() as f64 / whole.as_secs_f64());
    line(what, &at(50), &at(99), &rate);
}

fn line(what: &str, median: &str, p99: &str, rate: &str) {
    writeln!(stdout(), "{what:<24} {median:>12} {p99:>12} {rate:>12}").expect("standard output is open");
}

#[cfg(target_os = "linux")]
fn on_disk(directory: &Path) -> Result<(), Box<dyn Error>> {
    /// `TMPFS_MAGIC` in statfs(2).
    const TMPFS: i64 = 0x0102_1994;
    let kind = rustix::fs::statfs(directory)?.f_type;
    if kind == TMPFS { Err("that is a tmpfs: give a directory on a disk".into()) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
fn on_disk(_directory: &Path) -> Result<(), Box<dyn Error>> {
    Ok(())
}
