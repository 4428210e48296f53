//! The two small files in the home that others read: who holds it, and whose it is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Who holds the home. Not the lock: it says who, the lock says whether.
pub(super) const HOLDER_NAME: &str = "daemon.json";

/// Read by complete removal, ours and the alpha's: the directory is PortReeve's, and which one it is.
pub(super) const OWNER_NAME: &str = ".portreeve-owner.json";

/// The process that holds a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// The socket that it serves, if it serves.
    pub socket: Option<PathBuf>,
    /// When it took the home, by the wall clock.
    pub started_at: String,
    /// The boot of the machine under which it did.
    pub boot_id: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)?;
        match &self.socket {
            Some(socket) => write!(f, " on {}", socket.display())?,
            None => write!(f, " without a socket")?,
        }
        write!(f, " since {}", self.started_at)
    }
}

/// `.portreeve-owner.json`, as the protocol has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Owner {
    pub(super) schema_version: u32,
    pub(super) product: String,
    pub(super) canonical_application_directory: PathBuf,
    pub(super) owner_uid: u32,
    pub(super) created_at: String,
}

/// Reads who holds the home, as far as it was written and can be read.
pub(super) fn holder(home: &Path) -> Option<Holder> {
    serde_json::from_slice(&fs::read(home.join(HOLDER_NAME)).ok()?).ok()
}

/// Reads whose the home is. `None`: there is no such file.
pub(super) fn owner(home: &Path) -> io::Result<Option<Owner>> {
    match fs::read(home.join(OWNER_NAME)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a private file whole or not at all. Only under the home's lock: the name aside is always the same.
pub(super) fn write(home: &Path, name: &str, record: &impl Serialize) -> io::Result<()> {
    let (path, aside) = (home.join(name), home.join(format!("{name}.new")));
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut bytes = serde_json::to_vec(record)?;
    bytes.push(b'\n');
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    let written = file.write_all(&bytes).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&aside, &path)).or_else(|error| {
        fs::remove_file(&aside)?;
        Err(error)
    })?;
    File::open(home)?.sync_all()
}
