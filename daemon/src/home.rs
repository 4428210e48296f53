//! The daemon's home: one private directory, held by one process at a time.
//!
//! What is held is a `flock` on the directory itself, taken once and kept for life.
//! A lock file could be deleted by somebody who tidies up, and the next daemon would lock a new one; the directory
//! can't be replaced without taking the store along.
//! The kernel lets go when the process ends, however it ends, so a lock is never stale.
//!
//! | file | what |
//! | --- | --- |
//! | `authority.db`, `-wal`, `-shm` | the store ([`crate::store`]) |
//! | `daemon.json` | who holds the home: for people and for the error of a second daemon |
//! | `.portreeve-owner.json` | whose the directory is; shared with the alpha in JavaScript |
//!
//! The alpha lives in the same directory: whatever else lies there is neither read nor touched.
//! Binding the socket is [`crate::socket`]'s.

mod directory;
mod filesystem;
mod records;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

pub use directory::DirectoryError;
pub use records::Holder;

pub(crate) use directory::PrivateDirectory;

use crate::clock::Clock;
use crate::store;

/// A home that is ours while this lives. Dropped last: it lets the next daemon in.
#[derive(Debug)]
pub struct Home {
    directory: PrivateDirectory,
    notes: Vec<HomeNote>,
}

/// Something about the home that was put right or should be looked at; it hinders nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeNote {
    /// The directory was open to others and no longer is.
    Tightened {
        /// The mode that it had.
        from: u32,
    },
    /// `.portreeve-owner.json` can't be read, or tells of another directory or user. It was left as it is;
    /// complete removal won't trust it.
    OwnerDiffers,
}

impl std::fmt::Display for HomeNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tightened { from } => {
                write!(f, "the home was open to others (mode {from:o}) and is private now")
            }
            Self::OwnerDiffers => {
                write!(f, "{} is not this home's; it was left as it is", records::OWNER_NAME)
            }
        }
    }
}

/// Why the home can't be had.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Another process has it, whatever its socket.
    #[error("{} is held by {}", path.display(), holder.as_ref().map_or("another process".to_owned(), Holder::to_string))]
    Held {
        /// The home.
        path: PathBuf,
        /// Who has it, as far as that can be read.
        holder: Option<Holder>,
    },
    /// The directory can't be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

impl HomeError {
    /// What to do about it, as a sentence.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Held { .. } => "Use the daemon that is running, or stop it first.",
            Self::Directory(error) => error.next_step(),
        }
    }
}

impl Home {
    /// Takes the home at `path`, making it if it is not there, and waits for nobody.
    ///
    /// `socket` is what this process is going to serve, for others to read; `None` if it only mends.
    ///
    /// # Errors
    /// [`HomeError::Held`] if another process has it; otherwise why the directory is unfit.
    pub fn open(path: &Path, socket: Option<&Path>, clock: &dyn Clock) -> Result<Self, HomeError> {
        let directory = PrivateDirectory::open(path)?;
        match rustix::fs::flock(&directory.fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(HomeError::Held {
                    holder: holder(&directory.path),
                    path: directory.path.clone(),
                });
            }
            Err(error) => return Err(DirectoryError::from_io(path, error).into()),
        }
        let mut home = Self { directory, notes: Vec::new() };
        home.notes.extend(home.directory.was.map(|from| HomeNote::Tightened { from }));
        home.write_records(socket, clock)?;
        Ok(home)
    }

    fn write_records(&mut self, socket: Option<&Path>, clock: &dyn Clock) -> Result<(), DirectoryError> {
        let path = self.path().to_owned();
        let failed = |name: &str, error| DirectoryError::from_io(&path.join(name), error);
        let now = clock.now().stamp();
        let holder = Holder {
            pid: std::process::id(),
            socket: socket.map(Path::to_owned),
            started_at: now.clone(),
            boot_id: clock.boot_id().to_owned(),
        };
        records::write(&path, records::HOLDER_NAME, &holder)
            .map_err(|error| failed(records::HOLDER_NAME, error))?;
        let uid = rustix::process::geteuid().as_raw();
        match records::owner(&path) {
            Ok(None) => {
                let owner = records::Owner {
                    schema_version: 1,
                    product: "portreeve".to_owned(),
                    canonical_application_directory: path.clone(),
                    owner_uid: uid,
                    created_at: now,
                };
                records::write(&path, records::OWNER_NAME, &owner)
                    .map_err(|error| failed(records::OWNER_NAME, error))?;
            }
            Ok(Some(owner))
                if owner.product == "portreeve"
                    && owner.owner_uid == uid
                    && owner.canonical_application_directory == path => {}
            Ok(Some(_)) | Err(_) => self.notes.push(HomeNote::OwnerDiffers),
        }
        Ok(())
    }

    /// The directory, all links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// Where the store's file is.
    #[must_use]
    pub fn store_path(&self) -> PathBuf {
        self.path().join(store::FILE_NAME)
    }

    /// What was put right while opening.
    #[must_use]
    pub fn notes(&self) -> &[HomeNote] {
        &self.notes
    }

    /// Is `other` this very directory?
    pub(crate) fn is(&self, other: &PrivateDirectory) -> bool {
        let identity =
            |directory: &PrivateDirectory| directory.fd.metadata().map(|about| (about.dev(), about.ino()));
        matches!((identity(&self.directory), identity(other)), (Ok(ours), Ok(theirs)) if ours == theirs)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // While the lock is still held; what remains after a kill is overwritten by the next daemon.
        if let Err(error) = std::fs::remove_file(self.path().join(records::HOLDER_NAME)) {
            tracing::debug!(%error, "the record of the home's holder stays behind");
        }
    }
}

/// Who holds the home at `path`, as was written there by whoever took it last. To be believed only while the lock is
/// held, which [`HomeError::Held`] tells.
#[must_use]
pub fn holder(path: &Path) -> Option<Holder> {
    records::holder(path)
}
