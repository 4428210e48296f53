//! Stdin and stdout as the protocol's own, without blocking the runtime.
//!
//! Descriptor 1 is duplicated for the protocol and then pointed at stderr, so that whatever else in this
//! process prints, it never breaks the stream. Three kinds of stream are told apart:
//! - a pipe is opened anew through `/proc/self/fd` (Linux), which makes it non-blocking for us alone;
//! - a socket, as Node.js hosts give, is used with `MSG_DONTWAIT`, which changes no flag that others share;
//! - anything else (a file, a terminal) is read and written on the blocking pool.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::watched::watched;

/// How much is read at once: the size of a pipe on Linux.
const CHUNK: usize = 64 * 1024;

/// How an answer is sent over a socket: a host that is gone is an error, never SIGPIPE.
#[cfg(not(target_vendor = "apple"))]
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Apple's send(2) has no such flag. Rust's runtime ignores SIGPIPE in every program that doesn't say otherwise.
#[cfg(target_vendor = "apple")]
const SEND: SendFlags = SendFlags::DONTWAIT;

/// Both directions of the protocol.
#[derive(Debug)]
pub struct Stdio {
    pub(super) input: Input,
    pub(super) output: Output,
}

#[derive(Debug)]
enum Stream {
    Pipe(AsyncFd<OwnedFd>),
    Socket(AsyncFd<OwnedFd>),
    Blocking(Arc<File>),
}

#[derive(Debug)]
pub(super) struct Input {
    stream: Stream,
    chunk: Vec<u8>,
    #[cfg(target_os = "linux")]
    hang_up: Option<AsyncFd<OwnedFd>>,
}

#[derive(Debug)]
pub(super) struct Output {
    stream: Stream,
}

impl Stdio {
    /// Takes descriptors 0 and 1 over. Needs a tokio runtime with I/O; call it once.
    ///
    /// # Errors
    /// When the descriptors can't be duplicated.
    pub fn take() -> io::Result<Self> {
        let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        if let Ok(nothing) = File::open("/dev/null") {
            rustix::stdio::dup2_stdin(nothing)?;
        }
        #[cfg(target_os = "linux")]
        let hang_up = rustix::io::fcntl_dupfd_cloexec(&input, 3)
            .ok()
            .and_then(|fd| watched(fd, Interest::PRIORITY).ok());
        Ok(Self {
            input: Input {
                stream: Stream::new(input, Interest::READABLE)?,
                chunk: vec![0; CHUNK],
                #[cfg(target_os = "linux")]
                hang_up,
            },
            output: Output { stream: Stream::new(output, Interest::WRITABLE)? },
        })
    }
}

impl Stream {
    fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
        if kind == FileType::Socket {
            return match watched(fd, interest) {
                Ok(fd) => Ok(Self::Socket(fd)),
                Err(fd) => Ok(Self::Blocking(Arc::new(fd.into()))),
            };
        }
        if kind == FileType::Fifo
            && let Some(own) = reopen(&fd, interest)
            && let Ok(own) = watched(own, interest)
        {
            return Ok(Self::Pipe(own));
        }
        Ok(Self::Blocking(Arc::new(fd.into())))
    }
}

/// The same pipe through a file description of our own, so that `O_NONBLOCK` is ours alone.
#[cfg(target_os = "linux")]
fn reopen(fd: &OwnedFd, interest: Interest) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{Mode, OFlags};

    let access = if interest.is_writable() { OFlags::WRONLY } else { OFlags::RDONLY };
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn reopen(_: &OwnedFd, _: Interest) -> Option<OwnedFd> {
    None
}

impl Input {
    /// What has come; empty at the end of the stream.
    pub(super) async fn read(&mut self) -> io::Result<&[u8]> {
        let chunk = &mut self.chunk;
        let count = match &mut self.stream {
            Stream::Pipe(fd) => {
                fd.async_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *chunk)?)).await?
            }
            Stream::Socket(fd) => {
                let receive = |fd: &OwnedFd| {
                    let (count, _) = rustix::net::recv(fd, &mut *chunk, RecvFlags::DONTWAIT)?;
                    Ok(count)
                };
                fd.async_io(Interest::READABLE, receive).await?
            }
            Stream::Blocking(file) => {
                let file = file.clone();
                let mut own = std::mem::take(chunk);
                own.resize(CHUNK, 0);
                let read = move || {
                    let count = (&*file).read(&mut own);
                    (count, own)
                };
                let (count, own) = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?;
                *chunk = own;
                count?
            }
        };
        Ok(&self.chunk[..count])
    }

    /// Waits until the host has closed its end, though there may still be something to read.
    /// Never ends where that can't be told.
    pub(super) async fn hung_up(&self) {
        #[cfg(target_os = "linux")]
        if let Some(fd) = &self.hang_up {
            while let Ok(mut guard) = fd.ready(Interest::PRIORITY).await {
                if guard.ready().is_read_closed() {
                    return;
                }
                guard.clear_ready();
            }
        }
        std::future::pending().await
    }
}

impl Output {
    pub(super) async fn write_all(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        if let Stream::Blocking(file) = &self.stream {
            let file = file.clone();
            let write = move || (&*file).write_all(&bytes);
            return tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?;
        }
        let mut left = bytes.as_slice();
        while !left.is_empty() {
            let count = match &mut self.stream {
                Stream::Pipe(fd) => {
                    fd.async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, left)?)).await?
                }
                Stream::Socket(fd) => {
                    fd.async_io(Interest::WRITABLE, |fd| Ok(rustix::net::send(fd, left, SEND)?)).await?
                }
                Stream::Blocking(_) => unreachable!("written above"),
            };
            left = &left[count..];
        }
        Ok(())
    }
}
