//! Sockets that can't be reached.

use crate::support::{client, client_within};
use portreeve_diagnostics::{GetHealth, Nothing};
use portreeve_registry::{Failure, FailureClass, Outcome};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

async fn refused(socket: &Path) -> Failure {
    let failure = client(socket).call::<GetHealth>(&Nothing {}).await.unwrap_err();
    assert_eq!(failure.outcome, Outcome::NotStarted);
    failure
}

#[tokio::test]
async fn without_a_socket_it_says_how_to_start() {
    let directory = tempfile::tempdir().unwrap();
    let failure = refused(&directory.path().join("s")).await;
    assert_eq!(failure.class, FailureClass::DaemonSocketAbsent);
    assert_eq!(failure.next.command.as_deref(), Some("portreeve serve"));
}

#[tokio::test]
async fn a_dead_daemons_socket_is_not_listening() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    drop(UnixListener::bind(&socket).unwrap());
    assert_eq!(refused(&socket).await.class, FailureClass::DaemonNotListening);
}

#[tokio::test]
async fn what_is_no_socket_of_ours_is_denied() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    std::fs::write(&socket, "").unwrap();
    assert_eq!(refused(&socket).await.class, FailureClass::DaemonSocketDenied);
    assert_eq!(refused(&socket.join("below-a-file")).await.class, FailureClass::DaemonSocketAbsent);

    std::fs::remove_file(&socket).unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(refused(&socket).await.class, FailureClass::DaemonSocketDenied);
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
    // Only root can make a socket another user's; elsewhere there is nothing more to see.
    if std::os::unix::fs::chown(&socket, Some(65534), None).is_ok() {
        assert_eq!(refused(&socket).await.class, FailureClass::DaemonSocketDenied);
    }
}

#[tokio::test]
async fn a_full_backlog_is_waited_for_until_the_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waiting = UnixStream::connect(&socket).unwrap();
    let client = client_within(&socket, Duration::from_millis(100));
    let failure = client.call::<GetHealth>(&Nothing {}).await.unwrap_err();
    assert_eq!((failure.class, failure.outcome), (FailureClass::SocketDeadline, Outcome::NotStarted));
}
