//! Opens a directory that is to be ours alone, and refuses one that could not be.
//!
//! Looks at what it opened, never at the path again, so that nothing can be put in between.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::filesystem;

/// A directory that only its owner, this process's user, can enter.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    /// The open directory.
    pub(crate) fd: File,
    /// Its path with all links resolved.
    pub(crate) path: PathBuf,
    /// The mode that it had, if it had to be tightened.
    pub(crate) was: Option<u32>,
}

/// Why a directory can't be used. [`DirectoryError::next_step`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A link, which somebody could point elsewhere.
    #[error("{} is a symbolic link", path.display())]
    Link {
        /// The path as it was given.
        path: PathBuf,
    },
    /// A file or a device.
    #[error("{} is no directory", path.display())]
    NoDirectory {
        /// The path as it was given.
        path: PathBuf,
    },
    /// Another user's.
    #[error("{} belongs to user {owner}", path.display())]
    Owner {
        /// The path as it was given.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Others may replace what is in it.
    #[error("{} can be written by others (mode {mode:o})", path.display())]
    Writable {
        /// The path as it was given.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// On a file system of the network, where neither locks nor shared memory can be relied on.
    #[error("{} is on a network file system ({kind})", path.display())]
    Network {
        /// The path as it was given.
        path: PathBuf,
        /// The file system's name.
        kind: String,
    },
    /// On a file system that is mounted read-only.
    #[error("{} is on a read-only file system", path.display())]
    ReadOnly {
        /// What could not be written.
        path: PathBuf,
    },
    /// On a file system without room, or beyond a quota.
    #[error("the disk under {} is full", path.display())]
    Full {
        /// What could not be written.
        path: PathBuf,
    },
    /// This user may not.
    #[error("{} is not accessible to this user", path.display())]
    Denied {
        /// What could not be reached.
        path: PathBuf,
    },
    /// Anything else that the operating system said.
    #[error("{} can't be used", path.display())]
    Io {
        /// What could not be used.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl DirectoryError {
    /// What the operating system said about `path`, told apart.
    pub(crate) fn from_io(path: &Path, error: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_owned(), error.into());
        match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::PermissionDenied => Self::Denied { path },
            io::ErrorKind::NotADirectory => Self::NoDirectory { path },
            _ => Self::Io { path, source },
        }
    }

    /// What to do about it, as a sentence.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Link { .. } => "Give the directory that the link points to as PORTREEVE_HOME or --home.",
            Self::NoDirectory { .. } => "Move it out of the way, or choose another place with --home.",
            Self::Owner { .. } => {
                "Run PortReeve as that user, or choose a directory of your own with --home."
            }
            Self::Writable { .. } => "Take the others' write permission away, or choose another directory.",
            Self::Network { .. } => "Choose a directory on a local disk with PORTREEVE_HOME or --home.",
            Self::ReadOnly { .. } => {
                "Mount it writable, or choose another place with PORTREEVE_HOME or --home."
            }
            Self::Full { .. } => "Free some space there, then start PortReeve again.",
            Self::Denied { .. } => "Give your user access to it, or choose another place with --home.",
            Self::Io { .. } => "Look at that path and its disk, or choose another place with --home.",
        }
    }
}

impl PrivateDirectory {
    /// Opens `path`, makes it (and what is missing above it) if it is not there, and tightens it if it is ours but
    /// open to others.
    pub(crate) fn open(path: &Path) -> Result<Self, DirectoryError> {
        let mut directory = Self::open_or_make(path)?;
        let mode = directory.check(path)?;
        if mode & 0o077 != 0 || mode & 0o700 != 0o700 {
            rustix::fs::fchmod(&directory.fd, Mode::RWXU).map_err(|e| DirectoryError::from_io(path, e))?;
            directory.was = Some(mode);
        }
        Ok(directory)
    }

    /// Opens a directory that somebody chose to put a socket in: made private if it has to be made, otherwise left as
    /// it is, and refused if it isn't ours or others could replace what is in it.
    pub(crate) fn open_chosen(path: &Path) -> Result<Self, DirectoryError> {
        let directory = Self::open_or_make(path)?;
        let mode = directory.check(path)?;
        if mode & 0o002 != 0 {
            return Err(DirectoryError::Writable { path: path.to_owned(), mode });
        }
        Ok(directory)
    }

    fn open_or_make(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |error| DirectoryError::from_io(path, error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::open(path, flags, Mode::empty());
        let fd = match open() {
            Err(Errno::NOENT) => {
                make(path)?;
                open()
            }
            other => other,
        };
        let fd = match fd {
            Ok(fd) => fd,
            // Which of the two errors a link gives differs between systems.
            Err(Errno::LOOP | Errno::NOTDIR) if path.is_symlink() => {
                return Err(DirectoryError::Link { path: path.to_owned() });
            }
            Err(error) => return Err(failed(error.into())),
        };
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { fd: fd.into(), path, was: None })
    }

    /// Checks owner and file system, and gives the mode.
    fn check(&self, path: &Path) -> Result<u32, DirectoryError> {
        let about = self.fd.metadata().map_err(|e| DirectoryError::from_io(path, e))?;
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(DirectoryError::Owner { path: path.to_owned(), owner: about.uid() });
        }
        if let Some(kind) = filesystem::network(&self.fd).map_err(|e| DirectoryError::from_io(path, e))? {
            return Err(DirectoryError::Network { path: path.to_owned(), kind });
        }
        Ok(about.mode() & 0o7777)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // Closing alone would not do: a child between its fork and its exec still has a copy of the descriptor, and
        // a lock goes with the last copy.
        if let Err(error) = rustix::fs::flock(&self.fd, FlockOperation::Unlock) {
            tracing::warn!(%error, path = %self.path.display(), "the directory's lock stays until this process ends");
        }
    }
}

/// Makes the directory and what is missing above it, each of them private.
fn make(path: &Path) -> Result<(), DirectoryError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| DirectoryError::from_io(path, error))
}
