//! Reaching the socket: who may be behind it, and what each refusal of the kernel means.

use crate::places::{SocketCheckError, check_socket};
use portreeve_registry::{Failure, FailureClass};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;

/// How long to wait before trying a full backlog again; the kernel announces no room in one (unix(7), EAGAIN).
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);

/// Connects to a socket of this user with a server of this user behind it.
pub(crate) async fn connect(socket: &Path) -> Result<UnixStream, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    match check_socket(socket, uid) {
        Ok(()) => {}
        Err(SocketCheckError::Unreadable { source, .. }) => return Err(unreachable(socket, &source)),
        Err(refused @ SocketCheckError::Refused { .. }) => {
            return Err(about(FailureClass::DaemonSocketDenied, refused.to_string(), socket));
        }
    }
    let stream = loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => break stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(BACKLOG_PAUSE).await;
            }
            Err(error) => return Err(unreachable(socket, &error)),
        }
    };
    let peer = stream.peer_cred().map_err(|error| unreachable(socket, &error))?;
    if peer.uid() != uid {
        let text = format!("a process of user {} answers at {}", peer.uid(), socket.display());
        return Err(about(FailureClass::DaemonSocketDenied, text, socket));
    }
    Ok(stream)
}

fn about(class: FailureClass, message: String, socket: &Path) -> Failure {
    Failure::new(class, message).detail("socket", socket.to_string_lossy())
}

/// The failure that an errno of connect(2), socket(2) or lstat(2) stands for.
pub(crate) fn unreachable(socket: &Path, error: &io::Error) -> Failure {
    let path = socket.display();
    let start = |failure: Failure| failure.by(None, Some("portreeve serve".into()));
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => start(
            about(FailureClass::DaemonSocketAbsent, format!("there is no socket at {path}"), socket)
                .next("start PortReeve"),
        ),
        Some(Errno::CONNREFUSED) => start(
            about(FailureClass::DaemonNotListening, format!("nobody listens at {path}"), socket)
                .next("start PortReeve"),
        ),
        Some(Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
            about(FailureClass::DaemonSocketAbsent, format!("{path} leads to no socket: {error}"), socket)
                .next("correct the socket's path")
        }
        Some(Errno::ACCESS) => {
            about(FailureClass::DaemonSocketDenied, format!("{path} may not be opened"), socket)
        }
        Some(Errno::PERM | Errno::AFNOSUPPORT) => about(
            FailureClass::DaemonSandboxed,
            format!("the system doesn't let this process connect to {path}"),
            socket,
        ),
        _ => about(FailureClass::SocketSendFailed, format!("{path} can't be connected to: {error}"), socket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(errno: Errno, class: FailureClass) {
        let failure = unreachable(Path::new("/s"), &io::Error::from_raw_os_error(errno.raw_os_error()));
        assert_eq!(failure.class, class, "{failure}");
        assert_eq!(failure.outcome, portreeve_registry::Outcome::NotStarted);
    }

    #[test]
    fn each_refusal_has_its_class() {
        check(Errno::NOENT, FailureClass::DaemonSocketAbsent);
        check(Errno::NOTDIR, FailureClass::DaemonSocketAbsent);
        check(Errno::LOOP, FailureClass::DaemonSocketAbsent);
        check(Errno::CONNREFUSED, FailureClass::DaemonNotListening);
        check(Errno::ACCESS, FailureClass::DaemonSocketDenied);
        check(Errno::PERM, FailureClass::DaemonSandboxed);
        check(Errno::MFILE, FailureClass::SocketSendFailed);
    }
}
