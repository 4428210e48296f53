//! A power cut, played by a layer under SQLite that notes every write and every sync.
//!
//! The disk that this plays keeps what was synced, and of what was not, any part: none, all, or a choice of
//! writes in any order, the last of them torn. After every cut the store opens, is sound, and holds every write that was
//! acknowledged before it.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{LazyLock, Mutex, Once, PoisonError};

use portreeve_daemon::store::{Store, quick_check};
use rusqlite::ffi;

use crate::support::{Place, keys, place, put};

/// What happened on the disk, and when something was acknowledged.
#[derive(Debug, Clone)]
enum Act {
    Write { file: PathBuf, at: usize, bytes: Vec<u8> },
    Truncate { file: PathBuf, length: usize },
    Sync { file: PathBuf },
    Delete { file: PathBuf },
    Answer { key: String },
}

/// The directories that are watched, each with what happened in it.
static WATCHED: LazyLock<Mutex<BTreeMap<PathBuf, Vec<Act>>>> = LazyLock::new(Mutex::default);

fn note(act: Act) {
    let directory = match &act {
        Act::Write { file, .. } | Act::Truncate { file, .. } | Act::Sync { file } | Act::Delete { file } => {
            file.parent().map(Path::to_owned)
        }
        Act::Answer { .. } => None,
    };
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(acts) = directory.and_then(|directory| watched.get_mut(&directory)) {
        acts.push(act);
    }
}

/// One file's content as written and as it would be after a cut.
#[derive(Debug, Clone, Default)]
struct Disk {
    synced: BTreeMap<PathBuf, Vec<u8>>,
    pending: Vec<Act>,
}

impl Disk {
    fn act(&mut self, act: &Act) {
        match act {
            Act::Sync { file } => {
                let (now, later) =
                    std::mem::take(&mut self.pending).into_iter().partition(|act| of(act) == Some(file));
                self.pending = later;
                let now: Vec<Act> = now;
                now.iter().for_each(|act| apply(&mut self.synced, act));
            }
            // The names of files are as durable as the file system makes them; a log that is gone is a log that was
            // synced into its file before.
            Act::Delete { file } => {
                self.pending.retain(|act| of(act) != Some(file));
                self.synced.remove(file);
            }
            Act::Answer { .. } => {}
            Act::Write { .. } | Act::Truncate { .. } => self.pending.push(act.clone()),
        }
    }

    /// What is on the disk after a cut now, of the pending writes those that `survives` picks.
    fn cut(&self, mut survives: impl FnMut() -> Fate) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = self.synced.clone();
        for act in &self.pending {
            match (survives(), act) {
                (Fate::Lost, _) => {}
                (Fate::Torn, Act::Write { file, at, bytes }) => {
                    let bytes = bytes[..bytes.len() / 2].to_vec();
                    apply(&mut files, &Act::Write { file: file.clone(), at: *at, bytes });
                }
                (Fate::Whole | Fate::Torn, act) => apply(&mut files, act),
            }
        }
        files
    }
}

#[derive(Clone, Copy)]
enum Fate {
    Lost,
    Torn,
    Whole,
}

fn of(act: &Act) -> Option<&PathBuf> {
    match act {
        Act::Write { file, .. } | Act::Truncate { file, .. } => Some(file),
        _ => None,
    }
}

fn apply(files: &mut BTreeMap<PathBuf, Vec<u8>>, act: &Act) {
    match act {
        Act::Write { file, at, bytes } => {
            let content = files.entry(file.clone()).or_default();
            content.resize(content.len().max(at + bytes.len()), 0);
            content[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        Act::Truncate { file, length } => files.entry(file.clone()).or_default().resize(*length, 0),
        _ => {}
    }
}

/// Runs `work` on a watched store; gives the disk before it and what happened.
fn watch(work: impl FnOnce(&Store, &dyn Fn(&str))) -> (Disk, Vec<Act>) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(shim::register);
    let place = place();
    let directory = fs::canonicalize(place.dir.path()).expect("it is there");
    // Everything up to here is old and on the disk.
    drop(place.open());
    let mut disk = Disk::default();
    disk.synced.insert(directory.join("authority.db"), fs::read(&place.db).expect("the file"));
    WATCHED.lock().expect("no panic holds it").insert(directory.clone(), Vec::new());
    let store = Store::open(directory.join("authority.db")).expect("it opens");
    work(&store, &|key| {
        let mut watched = WATCHED.lock().expect("no panic holds it");
        watched.get_mut(&directory).expect("it is watched").push(Act::Answer { key: key.to_owned() });
    });
    drop(store);
    let acts = WATCHED.lock().expect("no panic holds it").remove(&directory).expect("it was watched");
    (disk, acts)
}

/// Cuts the power after each of the acts, in several ways, and opens the store that is left.
#[track_caller]
fn check((mut disk, acts): (Disk, Vec<Act>)) -> usize {
    let mut answered: Vec<&str> = Vec::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut cuts = 0;
    for act in &acts {
        disk.act(act);
        if let Act::Answer { key } = act {
            answered.push(key);
        }
        for way in 0..4 {
            let files = disk.cut(|| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                match (way, random % 3) {
                    (0, _) | (2.., 0) => Fate::Lost,
                    (1, _) | (2.., 1) => Fate::Whole,
                    _ => Fate::Torn,
                }
            });
            // Nothing new since the last cut: nothing new to see.
            if way > 0 && disk.pending.is_empty() {
                continue;
            }
            cuts += 1;
            survive(&files, &answered);
        }
    }
    cuts
}

#[track_caller]
fn survive(files: &BTreeMap<PathBuf, Vec<u8>>, answered: &[&str]) {
    let after: Place = place();
    for (file, bytes) in files {
        let name = file.file_name().expect("a name");
        if !name.to_string_lossy().ends_with("-shm") {
            fs::write(after.dir.path().join(name), bytes).expect("the disk as it is left");
        }
    }
    let store = after.open();
    quick_check(&after.db).expect("it is sound");
    let there = keys(&store);
    for key in answered {
        assert!(there.iter().any(|there| there == key), "{key} was acknowledged and is gone");
    }
}

#[test]
fn every_acknowledged_write_survives_a_power_cut_at_any_point() {
    let watched = watch(|store, answer| {
        for key in 0..12 {
            let key = format!("key {key:02}");
            put(store, &key);
            answer(&key);
        }
    });
    let syncs = watched.1.iter().filter(|act| matches!(act, Act::Sync { .. })).count();
    assert!(syncs >= 12, "each of the writes was synced: {syncs}");
    let cuts = check(watched);
    assert!(cuts > 100, "{cuts}");
}

#[test]
fn a_power_cut_while_the_log_is_folded_into_the_file_loses_nothing() {
    let watched = watch(|store, answer| {
        for key in 0..6 {
            let key = format!("key {key}");
            let row = key.clone();
            // Large rows, so that the log passes the size at which it is folded.
            let written = store.write(move |tx| {
                tx.execute("INSERT INTO setting VALUES (?1, json_quote(hex(zeroblob(500000))))", [&row])
            });
            written.expect("a row");
            answer(&key);
        }
    });
    let folded = |act: &Act| matches!(act, Act::Sync { file } if file.ends_with("authority.db"));
    assert!(watched.1.iter().any(folded), "the log was folded");
    // Of the thousands of writes only the neighbourhood of syncs and answers is of interest.
    let (disk, acts) = watched;
    let mut thinned = disk.clone();
    let mut answered: Vec<&str> = Vec::new();
    for (at, act) in acts.iter().enumerate() {
        thinned.act(act);
        if let Act::Answer { key } = act {
            answered.push(key);
        }
        let near = acts[at..acts.len().min(at + 2)].iter().any(|act| !matches!(act, Act::Write { .. }));
        if near {
            survive(&thinned.cut(|| Fate::Lost), &answered);
            survive(&thinned.cut(|| Fate::Whole), &answered);
            let mut turn = 0_u32;
            let files = thinned.cut(|| {
                turn += 1;
                if turn.is_multiple_of(3) { Fate::Lost } else { Fate::Whole }
            });
            survive(&files, &answered);
        }
    }
}

#[test]
fn an_answer_before_the_sync_would_be_noticed() {
    let (mut disk, acts) = watch(|store, answer| {
        put(store, "a");
        answer("a");
    });
    // The fault, planted: the sync that made it durable never happened.
    acts.iter()
        .filter(|act| !matches!(act, Act::Sync { .. } | Act::Delete { .. }))
        .for_each(|act| disk.act(act));
    let lost = std::panic::catch_unwind(|| survive(&disk.cut(|| Fate::Lost), &["a"]));
    lost.expect_err("the check sees that it is gone");
}

/// The layer: SQLite's own VFS with a note of each change. Registered as the default, so that the store needs no
/// seam for it.
mod shim {
    #![expect(unsafe_code, reason = "a VFS is a table of C functions")]

    use super::*;

    /// Our file: SQLite's own behind it, and its path.
    #[repr(C)]
    struct File {
        base: ffi::sqlite3_file,
        real: *mut ffi::sqlite3_file,
        path: *mut PathBuf,
    }

    struct Real(*mut ffi::sqlite3_vfs);
    // SAFETY: SQLite's own VFS lives as long as the process and may be used by every thread.
    unsafe impl Send for Real {}
    // SAFETY: as above.
    unsafe impl Sync for Real {}

    // SAFETY: the default VFS is always there.
    static REAL: LazyLock<Real> = LazyLock::new(|| Real(unsafe { ffi::sqlite3_vfs_find(ptr::null()) }));

    pub(super) fn register() {
        let real = REAL.0;
        // SAFETY: `real` is SQLite's; the copy is given our name, size and two functions, and is never freed.
        unsafe {
            let mut vfs = *real;
            vfs.zName = c"watched".as_ptr();
            vfs.szOsFile = size_of::<File>() as c_int;
            vfs.pNext = ptr::null_mut();
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            assert_eq!(ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 1), ffi::SQLITE_OK);
        }
    }

    unsafe fn path(name: *const c_char) -> PathBuf {
        if name.is_null() {
            return PathBuf::new();
        }
        // SAFETY: SQLite gives NUL-terminated names.
        let name = unsafe { CStr::from_ptr(name) };
        PathBuf::from(name.to_string_lossy().into_owned())
    }

    unsafe extern "C" fn open(
        _vfs: *mut ffi::sqlite3_vfs,
        name: *const c_char,
        file: *mut ffi::sqlite3_file,
        flags: c_int,
        out: *mut c_int,
    ) -> c_int {
        // SAFETY: SQLite gives room for `szOsFile` bytes; the real file gets room of its own, zeroed.
        unsafe {
            let file = file.cast::<File>();
            let size = (*REAL.0).szOsFile as usize;
            let real =
                Box::into_raw(vec![0_u64; size.div_ceil(8)].into_boxed_slice()).cast::<ffi::sqlite3_file>();
            let opened = (*REAL.0).xOpen.expect("a VFS opens")(REAL.0, name, real, flags, out);
            (*file).real = real;
            (*file).path = Box::into_raw(Box::new(path(name)));
            (*file).base.pMethods = if opened == ffi::SQLITE_OK { &METHODS } else { ptr::null() };
            opened
        }
    }

    unsafe extern "C" fn delete(_vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
        // SAFETY: the arguments are SQLite's own.
        unsafe {
            note(Act::Delete { file: path(name) });
            (*REAL.0).xDelete.expect("a VFS deletes")(REAL.0, name, sync)
        }
    }

    /// Calls the real file's method of the same name.
    macro_rules! pass {
        ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {$(
            unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $kind)*) -> $result {
                // SAFETY: `file` is one of ours, opened, and SQLite's own file behind it has this method.
                unsafe {
                    let real = (*file.cast::<File>()).real;
                    (*(*real).pMethods).$method.expect("SQLite's own file has it")(real $(, $argument)*)
                }
            }
        )*};
    }

    pass! {
        read => xRead(to: *mut c_void, amount: c_int, at: i64) -> c_int;
        size => xFileSize(size: *mut i64) -> c_int;
        lock => xLock(level: c_int) -> c_int;
        unlock => xUnlock(level: c_int) -> c_int;
        reserved => xCheckReservedLock(out: *mut c_int) -> c_int;
        control => xFileControl(op: c_int, argument: *mut c_void) -> c_int;
        sector => xSectorSize() -> c_int;
        shm_map => xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
        shm_lock => xShmLock(offset: c_int, amount: c_int, flags: c_int) -> c_int;
        shm_barrier => xShmBarrier() -> ();
        shm_unmap => xShmUnmap(delete: c_int) -> c_int;
        real_write => xWrite(from: *const c_void, amount: c_int, at: i64) -> c_int;
        real_truncate => xTruncate(length: i64) -> c_int;
        real_sync => xSync(flags: c_int) -> c_int;
        real_close => xClose() -> c_int;
    }

    unsafe fn name(file: *mut ffi::sqlite3_file) -> PathBuf {
        // SAFETY: `file` is one of ours, opened.
        unsafe { (*(*file.cast::<File>()).path).clone() }
    }

    unsafe extern "C" fn write(
        file: *mut ffi::sqlite3_file,
        from: *const c_void,
        amount: c_int,
        at: i64,
    ) -> c_int {
        // SAFETY: SQLite gives `amount` bytes.
        unsafe {
            let bytes = std::slice::from_raw_parts(from.cast::<u8>(), amount as usize).to_vec();
            note(Act::Write { file: name(file), at: at as usize, bytes });
            real_write(file, from, amount, at)
        }
    }

    unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
        // SAFETY: passed on as it came.
        unsafe {
            note(Act::Truncate { file: name(file), length: length as usize });
            real_truncate(file, length)
        }
    }

    unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
        // SAFETY: passed on as it came. Noted after it: it holds only once it has returned.
        unsafe {
            let result = real_sync(file, flags);
            if result == ffi::SQLITE_OK {
                note(Act::Sync { file: name(file) });
            }
            result
        }
    }

    unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
        // SAFETY: SQLite closes a file once; the path was boxed when it was opened. The room of the real file is left
        // to the process.
        unsafe {
            let result = real_close(file);
            drop(Box::from_raw((*file.cast::<File>()).path));
            result
        }
    }

    /// What the file can promise about torn and ordered writes: nothing.
    unsafe extern "C" fn characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
        0
    }

    static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
        iVersion: 2,
        xClose: Some(close),
        xRead: Some(read),
        xWrite: Some(write),
        xTruncate: Some(truncate),
        xSync: Some(sync),
        xFileSize: Some(size),
        xLock: Some(lock),
        xUnlock: Some(unlock),
        xCheckReservedLock: Some(reserved),
        xFileControl: Some(control),
        xSectorSize: Some(sector),
        xDeviceCharacteristics: Some(characteristics),
        xShmMap: Some(shm_map),
        xShmLock: Some(shm_lock),
        xShmBarrier: Some(shm_barrier),
        xShmUnmap: Some(shm_unmap),
        xFetch: None,
        xUnfetch: None,
    };
}
