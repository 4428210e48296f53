//! Opens the store's file: what must hold before a byte is written, and the settings of each connection.
//!
//! A new store is made beside its name and renamed when it is whole, so a file that is there and empty is
//! damage, never a beginning. Reading pages for damage is `damage.rs`'s, the schema `migrate.rs`'s.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use super::{beside, damage, migrate, repair};

/// Written into the file's header (bytes 68 to 71 of the SQLite format): "PRve".
pub(super) const APPLICATION_ID: i64 = 0x5052_7665;

/// Fixed at creation; `repair` relies on it for a file that lost its header.
pub(super) const PAGE_SIZE: usize = 4096;

/// The oldest engine that may carry the store: 3.51.3 repaired the reset of the write-ahead log, which could
/// lose a commit when two connections met there (<https://sqlite.org/wal.html>).
const OLDEST_ENGINE: i32 = 3_051_003;
const _: () = assert!(rusqlite::ffi::SQLITE_VERSION_NUMBER >= OLDEST_ENGINE);

/// How long a connection waits for another one. Within the daemon only start-up and a checkpoint can meet;
/// beside it, a person with the `sqlite3` shell.
const BUSY: Duration = Duration::from_secs(2);

/// The log is cut back to this many bytes after a checkpoint.
const LOG_BYTES: i64 = 4 << 20;

/// Opens the store for writing, making it first if there is none.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    assert!(
        rusqlite::version_number() >= OLDEST_ENGINE,
        "the linked SQLite is the bundled one, whose version was checked when this was compiled"
    );
    repair::finish(path)?;
    match damage::on_disk(path)? {
        damage::OnDisk::Absent => make(path)?,
        damage::OnDisk::Whole => {}
    }
    let mut conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Until the file is known to be ours and whole, closing it must not fold its log into it. Without a log,
    // closing only removes the empty one that opening made.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, damage::log_bytes(path)? > 0)?;
    damage::ours(&conn)?;
    configure_writer(&conn)?;
    migrate::up(&mut conn)?;
    damage::schema(&conn)?;
    // Everything that the log held is in the file now, so the file's length can be held against its header.
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
    damage::length(&conn, path)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(conn)
}

/// Opens a connection that can't write, for reading beside the writer.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -256;")?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Makes an empty store of the newest schema beside `path`, and gives it that name once it is on the disk.
fn make(path: &Path) -> Result<(), StoreError> {
    let aside = beside(path, ".new");
    close(create(&aside)?)?;
    publish(&aside, path)
}

/// Makes an empty store at `path`, over whatever was left there.
pub(super) fn create(path: &Path) -> Result<Connection, StoreError> {
    remove(path)?;
    // SQLite gives its side files the mode of the main one.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(on_disk)?;
    let mut conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.execute_batch(&format!(
        "PRAGMA page_size = {PAGE_SIZE}; PRAGMA application_id = {APPLICATION_ID};"
    ))?;
    configure_writer(&conn)?;
    migrate::up(&mut conn)?;
    Ok(conn)
}

/// Folds the log into the file and closes it.
pub(super) fn close(conn: Connection) -> Result<(), StoreError> {
    conn.close().map_err(|(_, error)| error.into())
}

/// Syncs the closed store at `aside` and renames it to `path`, durably.
pub(super) fn publish(aside: &Path, path: &Path) -> Result<(), StoreError> {
    let swap = || -> io::Result<()> {
        File::open(aside)?.sync_all()?;
        fs::rename(aside, path)?;
        sync_directory(path)
    };
    swap().map_err(on_disk)
}

/// Makes what was renamed, linked or removed beside `path` durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes a store's file and its side files, as far as they are there.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    for suffix in ["-wal", "-shm", "-journal", ""] {
        match fs::remove_file(beside(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(on_disk(error)),
            _ => {}
        }
    }
    Ok(())
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    // NO_MUTEX: each connection is used by one thread at a time. No URI: a path is a path. No NOFOLLOW: it would
    // refuse a link in any folder above, and `damage::on_disk` has refused the file's own.
    let conn = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY)?;
    Ok(conn)
}

fn configure_writer(conn: &Connection) -> Result<(), StoreError> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::damaged(format!("the journal mode stays {mode}")));
    }
    conn.execute_batch(&format!(
        "PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA foreign_keys = ON;
         PRAGMA trusted_schema = OFF;
         PRAGMA journal_size_limit = {LOG_BYTES};
         PRAGMA cache_size = -1024;
         PRAGMA mmap_size = 0;"
    ))?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(())
}

/// What the operating system said outside SQLite, in the store's words.
pub(super) fn on_disk(error: io::Error) -> StoreError {
    use rusqlite::ffi;
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ffi::SQLITE_FULL,
        io::ErrorKind::ReadOnlyFilesystem => ffi::SQLITE_READONLY,
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => ffi::SQLITE_CANTOPEN,
        _ => ffi::SQLITE_IOERR,
    };
    StoreError::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(error.to_string())))
}
