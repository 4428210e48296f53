//! The socket's side: accepts, checks who is there, serves HTTP/1.1, and drains at the end.

use crate::Daemon;
use crate::router;
use crate::socket::{BoundSocket, peer_uid};
use crate::unread::Worded;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use portreeve_records::Pid;
use portreeve_registry::{Failure, FailureClass, RequestId};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Connections at once; the next one waits to be accepted.
const CONNECTIONS: usize = 512;
/// How long a request's head may take to arrive, and a kept connection to be silent.
const HEAD_TIME: Duration = Duration::from_secs(60);
/// How long a caller of another user may hold his connection.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// How long what is being answered may go on after the stop.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until the daemon is to stop; then unlinks the socket at once and drains.
pub(crate) async fn serve(daemon: Arc<Daemon>, socket: BoundSocket) -> io::Result<()> {
    let listener = UnixListener::from_std(socket.listener()?)?;
    let mut stop = daemon.stop.subscribe();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&room).acquire_owned() => permit.map_err(io::Error::other)?,
            () = stopped(&mut stop) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let daemon = Arc::clone(&daemon);
                connections.spawn(async move {
                    converse(daemon, stream).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of descriptors, or a caller that went away: neither ends the daemon.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    drop(socket);
    let drained =
        tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(
            "requests were still being answered {} s after the stop; they are cut off",
            DRAIN.as_secs()
        );
    }
    Ok(())
}

/// Waits until the daemon is to stop, or is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

async fn converse(daemon: Arc<Daemon>, stream: UnixStream) {
    let own = rustix::process::geteuid().as_raw();
    let whose = match peer_uid(&stream) {
        Ok(uid) if uid == own || uid == 0 => None,
        Ok(uid) => Some(format!("user {uid}")),
        Err(error) => Some(format!("an unknown user ({error})")),
    };
    if let Some(whose) = whose {
        tracing::warn!("a caller is refused: {whose}");
        return refuse(stream, &whose, own).await;
    }
    let pid =
        stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| Pid::new(pid.unsigned_abs()));
    let mut stop = daemon.stop.subscribe();
    let service = service_fn(move |request| {
        let daemon = Arc::clone(&daemon);
        async move { Ok::<_, Infallible>(router::answer(daemon, pid, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(64 * 1024)
        // Who shuts its side after asking still reads.
        .half_close(true)
        .serve_connection(Worded::new(TokioIo::new(stream)), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Tells a caller of another user so, whatever he asks, and looks at nothing that he sends.
async fn refuse(stream: UnixStream, whose: &str, own: u32) {
    let failure = Failure::new(
        FailureClass::DaemonPeerDenied,
        format!("this PortReeve serves user {own}, and the caller is {whose}"),
    );
    let service = service_fn(|_| {
        let refusal = router::refusal(RequestId::fresh(), &failure);
        async move { Ok::<_, Infallible>(refusal) }
    });
    let connection =
        http1::Builder::new().keep_alive(false).serve_connection(Worded::new(TokioIo::new(stream)), service);
    // Whether he reads it is his affair.
    drop(tokio::time::timeout(REFUSAL_TIME, connection).await);
}
