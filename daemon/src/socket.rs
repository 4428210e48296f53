//! Binds the daemon's socket, and tells what is at its path before.
//!
//! Nobody can connect before the socket's mode is right: it is bound, set to 0600, and only then listened on.
//! What is at the path is removed only if it is a socket on which nobody answers, and only by the process that holds
//! the lock of the socket's directory, so that of many daemons started at once one binds.
//! Who may call what is decided elsewhere; [`peer_uid`] says who calls.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::home::{DirectoryError, Home, PrivateDirectory};

/// How many callers may wait to be accepted: a herd of agents that start together.
const BACKLOG: i32 = 512;

/// What is at a socket's path.
#[derive(Debug)]
pub enum Existing {
    /// Nothing.
    Absent,
    /// A socket whose process is gone.
    Stale,
    /// Somebody listens: a daemon of ours, the alpha's, or anything else.
    Live {
        /// The process that listens, where the system tells.
        pid: Option<i32>,
    },
    /// Something else than a socket.
    NotASocket,
    /// A socket of which it can't be told whether anybody listens.
    Unclear(io::Error),
}

/// Looks at what is at `path` without changing anything and without waiting.
///
/// # Errors
/// The path can't be looked at.
pub fn probe_existing(path: &Path) -> io::Result<Existing> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Existing::Absent),
        Err(error) => return Err(error),
        Ok(about) if !about.file_type().is_socket() => return Ok(Existing::NotASocket),
        Ok(_) => {}
    }
    let probe = new_socket(true)?;
    let address = SocketAddrUnix::new(path)?;
    Ok(match rustix::net::connect(&probe, &address) {
        Ok(()) => Existing::Live { pid: listener_pid(&probe) },
        // Its queue is full, so somebody listens, if slowly.
        Err(Errno::AGAIN | Errno::INPROGRESS) => Existing::Live { pid: None },
        Err(Errno::CONNREFUSED) => Existing::Stale,
        Err(Errno::NOENT) => Existing::Absent,
        Err(error) => Existing::Unclear(error.into()),
    })
}

/// The kernel keeps the credentials of the process that called listen(2): unix(7), `SO_PEERCRED`.
#[cfg(target_os = "linux")]
fn listener_pid(probe: &OwnedFd) -> Option<i32> {
    rustix::net::sockopt::socket_peercred(probe).ok().map(|peer| peer.pid.as_raw_nonzero().get())
}

#[cfg(not(target_os = "linux"))]
fn listener_pid(_probe: &OwnedFd) -> Option<i32> {
    None
}

/// The bound socket. Dropping it removes it from the file system, if it is still the one that was bound.
///
/// To be dropped before the [`Home`]: the next daemon may come as soon as that is free.
#[derive(Debug)]
pub struct BoundSocket {
    listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
}

/// Why the socket can't be bound.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody answers at the path.
    #[error("{} is served by {}", path.display(), pid.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Live {
        /// The socket.
        path: PathBuf,
        /// Who listens, where the system tells.
        pid: Option<i32>,
    },
    /// Another daemon is about to bind in the same directory, or lives in it.
    #[error("the directory {} is held by another daemon", path.display())]
    Contended {
        /// The socket's directory.
        path: PathBuf,
    },
    /// Something else than a socket is in the way.
    #[error("{} is no socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A socket is in the way, and whether somebody serves it can't be told.
    #[error("{} can't be asked whether it is served", path.display())]
    Unclear {
        /// The socket.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Its directory can't be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The operating system refused a step.
    #[error("{} can't be bound", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl SocketError {
    /// What to do about it, as a sentence.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Live { .. } => "Use the daemon that is running, or stop it first.",
            Self::Contended { .. } => {
                "Use the daemon that is running there, or choose another path with --socket."
            }
            Self::NotASocket { .. } => "Move it out of the way, or choose another path with --socket.",
            Self::Unclear { .. } | Self::Io { .. } => {
                "Look at that path, or choose another one with --socket."
            }
            Self::Directory(error) => error.next_step(),
        }
    }
}

/// Binds and listens at `path`, which replaces a dead daemon's socket and nothing else.
///
/// The home proves that no other daemon of the same home is alive. A directory that has to be made is made private;
/// one that is there must be ours.
///
/// # Errors
/// See [`SocketError`]; whatever was at the path is still there, unless it was a dead daemon's socket.
pub fn bind(path: &Path, home: &Home) -> Result<BoundSocket, SocketError> {
    let failed = |source: io::Error| SocketError::Io { path: path.to_owned(), source };
    let parent = path.parent().unwrap_or(Path::new("/"));
    let ours = parent == portreeve_client::places::short_directory(rustix::process::geteuid().as_raw());
    let directory =
        if ours { PrivateDirectory::open(parent)? } else { PrivateDirectory::open_chosen(parent)? };
    // Two daemons of different homes may share a socket's path. In our own home the lock is held already.
    if !home.is(&directory) {
        match rustix::fs::flock(&directory.fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(SocketError::Contended { path: parent.to_owned() }),
            Err(error) => return Err(DirectoryError::from_io(parent, error).into()),
        }
    }
    match probe_existing(path).map_err(failed)? {
        Existing::Absent => {}
        Existing::Stale => fs::remove_file(path).map_err(failed)?,
        Existing::Live { pid } => return Err(SocketError::Live { path: path.to_owned(), pid }),
        Existing::NotASocket => return Err(SocketError::NotASocket { path: path.to_owned() }),
        Existing::Unclear(source) => return Err(SocketError::Unclear { path: path.to_owned(), source }),
    }
    listen(path).map_err(failed)
}

fn listen(path: &Path) -> io::Result<BoundSocket> {
    let socket = new_socket(false)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let about = fs::symlink_metadata(path)?;
    let bound =
        BoundSocket { listener: socket.into(), path: path.to_owned(), identity: (about.dev(), about.ino()) };
    // Until listen(2), connecting is refused.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&bound.listener, BACKLOG)?;
    bound.listener.set_nonblocking(true)?;
    Ok(bound)
}

fn new_socket(nonblocking: bool) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    #[cfg(not(target_os = "linux"))]
    let socket = {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        socket
    };
    if nonblocking {
        rustix::io::ioctl_fionbio(&socket, true)?;
    }
    Ok(socket)
}

impl BoundSocket {
    /// A listener for the async runtime. The file is removed when `self` is dropped, so `self` has to outlive it.
    ///
    /// # Errors
    /// The descriptor can't be copied.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    /// Where it is bound.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        let here = fs::symlink_metadata(&self.path).map(|about| (about.dev(), about.ino()));
        if here.is_ok_and(|here| here == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "the socket stays behind");
        }
    }
}

/// The user who is at the other end: `SO_PEERCRED`, on macOS getpeereid(3).
///
/// # Errors
/// The kernel doesn't say.
pub fn peer_uid(stream: &tokio::net::UnixStream) -> io::Result<u32> {
    Ok(stream.peer_cred()?.uid())
}
