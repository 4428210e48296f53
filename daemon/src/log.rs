//! The diagnostic log: a few rotating files of JSON lines in the home, and `GET /v1/logs`.
//!
//! It is written on a best effort: a full disk loses entries and nothing else.
//! It never holds tokens: its messages are made of failures, and those don't.

use crate::clock::{Clock, SystemClock};
use crate::handler::{Asked, serve};
use portreeve_history::{ListLogs, LogEntry, LogFilter};
use portreeve_registry::{Cut, Failure, FailureClass, PageOf, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

serve!(list ListLogs => list);

/// The newest file; older ones have `.1`, `.2` and so on behind it.
const NAME: &str = "authority.log";
/// Entries of the plain list when no limit was asked for.
const PLAIN: usize = 100;
/// Files at most, whatever the settings.
const MOST_FILES: u64 = 16;

/// One line of a file.
#[derive(Serialize, Deserialize)]
struct Line {
    number: u64,
    #[serde(flatten)]
    entry: LogEntry,
}

/// The log.
pub(crate) struct Log {
    directory: PathBuf,
    clock: SystemClock,
    state: Mutex<State>,
}

struct State {
    file: Option<File>,
    size: u64,
    number: u64,
    largest: u64,
    files: u64,
}

impl Log {
    /// Opens the log in the home; numbers go on where they ended.
    pub(crate) fn open(directory: &Path, clock: SystemClock) -> Log {
        // The newest file may be empty: it may have been made just before the last end.
        let last = (0..MOST_FILES).find_map(|age| lines(&path(directory, age)).unwrap_or_default().pop());
        let number = last.map_or(0, |line| line.number);
        let (file, size) = open(&directory.join(NAME));
        let state = State { file, size, number, largest: 1_048_576, files: 3 };
        Log { directory: directory.to_owned(), clock, state: Mutex::new(state) }
    }

    /// Sets how large a file grows, in bytes, and how many there are.
    pub(crate) fn bound(&self, largest: u64, files: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.largest, state.files) = (largest, files);
    }

    /// Appends an entry.
    pub(crate) fn write(&self, level: &str, component: &str, message: &str, details: Map<String, Value>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.number += 1;
        let entry = LogEntry {
            timestamp: self.clock.now().stamp(),
            level: level.to_owned(),
            component: component.to_owned(),
            message: message.to_owned(),
            details,
        };
        let Ok(mut text) = serde_json::to_string(&Line { number: state.number, entry }) else { return };
        text.push('\n');
        if state.size + text.len() as u64 > state.largest {
            self.rotate(&mut state);
        }
        let written = state.file.as_mut().map(|file| file.write_all(text.as_bytes()));
        match written {
            Some(Ok(())) => state.size += text.len() as u64,
            Some(Err(error)) => tracing::debug!(%error, "a log entry was lost"),
            None => {}
        }
    }

    fn rotate(&self, state: &mut State) {
        let path = |age| path(&self.directory, age);
        state.file = None;
        for age in (0..state.files.saturating_sub(1)).rev() {
            if let Err(error) = fs::rename(path(age), path(age + 1))
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::debug!(%error, "a log file could not be moved on");
            }
        }
        if state.files <= 1 {
            // One file only: it starts anew.
            drop(fs::remove_file(path(0)));
        }
        for age in state.files..MOST_FILES {
            drop(fs::remove_file(path(age)));
        }
        (state.file, state.size) = open(&path(0));
    }

    /// A request that failed.
    pub(crate) fn request_failed(&self, id: RequestId, method: &str, path: &str, failure: &Failure) {
        let path: String = path.chars().take(200).collect();
        let details = json!({
            "requestId": id.to_string(),
            "method": method,
            "pathname": path,
            "error": failure.message,
        });
        if let Value::Object(details) = details {
            self.write("error", "protocol", "Request failed.", details);
        }
    }
}

/// The file that is `age` rotations old.
fn path(directory: &Path, age: u64) -> PathBuf {
    if age == 0 { directory.join(NAME) } else { directory.join(format!("{NAME}.{age}")) }
}

/// Opens a file for appending, and ends a line that was torn in its middle, so that the next one is whole.
fn open(path: &Path) -> (Option<File>, u64) {
    let opened = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path);
    let ended = opened.and_then(|mut file| {
        let mut size = file.metadata()?.len();
        let mut last = [b'\n'];
        if size > 0 {
            file.read_exact_at(&mut last, size - 1)?;
        }
        if last != *b"\n" {
            file.write_all(b"\n")?;
            size += 1;
        }
        Ok((file, size))
    });
    match ended {
        Ok((file, size)) => (Some(file), size),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the log can't be written");
            (None, 0)
        }
    }
}

/// The lines of the newest `files` files, oldest first.
fn read(directory: &Path, files: u64) -> io::Result<Vec<Line>> {
    let mut all = Vec::new();
    for age in (0..files).rev() {
        all.extend(lines(&path(directory, age))?);
    }
    Ok(all)
}

/// The lines of one file, none if there is none. A torn line is passed over.
fn lines(path: &Path) -> io::Result<Vec<Line>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut lines = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        lines.extend(serde_json::from_slice::<Line>(&line?).ok());
    }
    Ok(lines)
}

/// Pages go on by number, oldest first; the plain form answers the newest entries.
fn list(asked: &Asked<'_>, _: &LogFilter, cut: &Cut<u64>) -> Result<PageOf<LogEntry>, Failure> {
    let log = &asked.daemon.log;
    let files = log.state.lock().unwrap_or_else(PoisonError::into_inner).files;
    let mut lines = read(&log.directory, files)
        .map_err(|e| Failure::new(FailureClass::StoreIoError, format!("the log can't be read: {e}")))?;
    if let Some(after) = cut.after() {
        lines.retain(|line| line.number > *after);
    } else if !cut.paged() {
        let most = cut.limit().unwrap_or(PLAIN);
        let spare = lines.len().saturating_sub(most);
        lines.drain(..spare);
    }
    cut.page(lines.into_iter().map(|line| Ok((line.number, line.entry))))
}
