//! The writer: what is answered is kept, what is refused leaves nothing, and nobody pays for a neighbour.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};

use portreeve_daemon::store::{StoreError, Tx, WriteError};

use crate::support::{keys, place, put};

fn insert(tx: &Tx<'_>, key: &str) -> rusqlite::Result<usize> {
    tx.execute("INSERT INTO setting VALUES (?1, '1')", [key])
}

/// Holds the writer until told, so that what is queued meanwhile becomes one group.
fn hold(store: &portreeve_daemon::store::Store) -> impl FnOnce() + use<> {
    let (release, wait) = channel::<()>();
    let (started, running) = channel();
    let held = store.write_async(move |_| {
        started.send(()).expect("the test waits");
        wait.recv()
    });
    running.recv().expect("the writer began");
    drop(held);
    move || release.send(()).expect("the writer waits")
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

#[test]
fn a_write_is_there_for_the_next_read_and_after_reopening() {
    let place = place();
    let store = place.open();
    put(&store, "a");
    assert_eq!(keys(&store), ["a"]);
    drop(store);
    assert!(!place.beside("-wal").exists(), "closing folds the log into the file");
    assert_eq!(keys(&place.open()), ["a"]);
}

#[test]
fn a_refused_write_and_a_panic_take_nothing_of_their_group_with_them() {
    let place = place();
    let store = place.open();
    let release = hold(&store);
    let first = store.write_async(|tx| insert(tx, "first"));
    let refused = store.write_async(|tx| {
        insert(tx, "refused").expect("a row");
        Err::<(), _>("no")
    });
    let panicked = store.write_async(|tx| -> Result<(), ()> {
        insert(tx, "panicked").expect("a row");
        panic!("planted")
    });
    let broken = store.write_async(|tx| {
        insert(tx, "broken")?;
        insert(tx, "first")
    });
    let last = store.write_async(|tx| insert(tx, "last"));
    release();
    wait(async {
        assert!(matches!(first.await, Ok(1)));
        assert!(matches!(refused.await, Err(WriteError::Refused("no"))));
        assert!(matches!(panicked.await, Err(WriteError::Panicked(message)) if message == "planted"));
        assert!(matches!(broken.await, Err(WriteError::Refused(error)) if error.sqlite_error().is_some()));
        assert!(matches!(last.await, Ok(1)));
    });
    assert_eq!(keys(&store), ["first", "last"]);
}

#[test]
fn a_request_sees_its_group_and_no_reader_sees_it_before_the_commit() {
    let place = place();
    let store = place.open();
    let release = hold(&store);
    let one = store.write_async(|tx| insert(tx, "one"));
    let reading = store.clone();
    let two = store.write_async(move |tx| {
        let inside: i64 = tx.query_row("SELECT count(*) FROM setting", (), |row| row.get(0))?;
        Ok::<_, rusqlite::Error>((inside, keys(&reading).len()))
    });
    release();
    wait(async {
        one.await.expect("one is written");
        assert_eq!(two.await.expect("two is counted"), (1, 0));
    });
}

#[test]
fn hooks_run_after_the_commit_before_the_answer_and_never_for_what_was_undone() {
    let place = place();
    let store = place.open();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = |what: &'static str| {
        let (told, reading) = (Arc::clone(&told), store.clone());
        Box::new(move || told.lock().expect("no panic holds it").push((what, keys(&reading).len())))
    };
    let (kept, second, dropped) = (tell("kept"), tell("second"), tell("dropped"));
    store
        .write(move |tx| {
            tx.after_commit(kept);
            tx.after_commit(second);
            insert(tx, "kept")
        })
        .expect("the write is kept");
    assert_eq!(*told.lock().expect("no panic holds it"), [("kept", 1), ("second", 1)]);
    store
        .write(move |tx| {
            tx.after_commit(dropped);
            Err::<(), _>(())
        })
        .expect_err("the write is refused");
    store
        .write(|tx| {
            tx.after_commit(Box::new(|| panic!("planted")));
            insert(tx, "answered")
        })
        .expect("a hook's panic comes after the commit");
    assert_eq!(told.lock().expect("no panic holds it").len(), 2);
    assert_eq!(keys(&store), ["answered", "kept"]);
}

#[test]
fn a_transaction_lost_on_the_way_fails_those_before_and_spares_those_after() {
    let place = place();
    let store = place.open();
    let release = hold(&store);
    let before = store.write_async(|tx| insert(tx, "before"));
    // What a full disk makes SQLite do by itself.
    let loses = store.write_async(|tx| tx.execute_batch("ROLLBACK"));
    let after = store.write_async(|tx| insert(tx, "after"));
    release();
    wait(async {
        assert!(matches!(before.await, Err(WriteError::Store(StoreError::Undone))));
        assert!(matches!(loses.await, Err(WriteError::Store(StoreError::Undone))));
        after.await.expect("the next group is a new one");
    });
    assert_eq!(keys(&store), ["after"]);
}

#[test]
fn a_busy_store_says_so_and_works_again() {
    let place = place();
    let store = place.open();
    let other = rusqlite::Connection::open(&place.db).expect("a second connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    let error = store.write(|tx| insert(tx, "a")).expect_err("the other one holds the lock");
    assert!(matches!(error, WriteError::Store(StoreError::Busy(_))), "{error:?}");
    other.execute_batch("ROLLBACK").expect("the lock is given back");
    put(&store, "b");
    assert_eq!(keys(&store), ["b"]);
}

#[test]
fn a_reader_keeps_its_snapshot_and_cannot_write() {
    let place = place();
    let store = place.open();
    put(&store, "a");
    let count = "SELECT count(*) FROM setting";
    let counts = store.read(|conn| {
        let before: i64 = conn.query_row(count, (), |row| row.get(0))?;
        put(&store, "b");
        let after: i64 = conn.query_row(count, (), |row| row.get(0))?;
        assert!(conn.execute("DELETE FROM setting", ()).is_err());
        Ok::<_, StoreError>((before, after))
    });
    assert_eq!(counts.expect("both counts"), (1, 1));
    assert_eq!(keys(&store).len(), 2);
}

#[test]
fn readers_outnumber_their_connections_and_survive_a_panic() {
    let place = place();
    let store = place.open();
    put(&store, "a");
    for _ in 0..5 {
        let panicking = store.clone();
        let read = move || panicking.read(|_| -> Result<(), StoreError> { panic!("planted") });
        std::thread::spawn(read).join().expect_err("the panic goes on");
    }
    let start = Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                start.wait();
                assert_eq!(keys(&store), ["a"]);
            });
        }
    });
}

#[test]
fn many_threads_write_at_once_and_each_is_answered_after_its_own_commit() {
    let place = place();
    let store = place.open();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for write in 0..50 {
                    let key = format!("{thread}-{write:02}");
                    put(store, &key);
                    assert!(keys(store).contains(&key));
                }
            });
        }
    });
    assert_eq!(keys(&store).len(), 400);
}

#[test]
fn what_is_queued_is_written_before_the_store_closes_even_from_its_own_hook() {
    let place = place();
    let store = place.open();
    let release = hold(&store);
    for key in 0..100 {
        drop(store.write_async(move |tx| insert(tx, &key.to_string())));
    }
    let closed = Arc::new(AtomicBool::new(false));
    let (last, saw) = (store.clone(), Arc::clone(&closed));
    drop(store.write_async(move |tx| {
        tx.after_commit(Box::new(move || {
            drop(last);
            saw.store(true, Ordering::SeqCst);
        }));
        insert(tx, "hook")
    }));
    release();
    drop(store);
    let store = place.open();
    while keys(&store).len() < 101 || !closed.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}
