//! The stdio edge: everything between the host's pipes and rmcp.
//!
//! Its job is that no input, however broken, makes the bridge hang, exit or print a stray byte, and that
//! every request it accepts is answered exactly once within the bounds of [`closing`].
//! It knows JSON-RPC envelopes and nothing of tools, the daemon or credentials.
//!
//! One request on its way through:
//! 1. `stdio` reads bytes without blocking the runtime, `lines` cuts them into bounded lines;
//! 2. `decode` tells requests from what must be dropped or refused, a pure function;
//! 3. `reader` waits for a slot (`in_flight`), so that memory stays flat whatever the host does;
//! 4. `transport` hands the message to rmcp and takes its answer;
//! 5. `pump` writes the answer, alone and in order, and gives the slot back.
//!
//! What was dropped, refused or lost is a [`TransportEvent`], handed to [`Notices`].

pub mod closing;
mod decode;
mod event;
mod in_flight;
mod lines;
mod parent;
mod pump;
mod reader;
mod stdio;
mod transport;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::{ErrorData, ServerHandler};

use self::closing::Closing;
pub use self::event::{Notices, TransportEvent};
pub use self::in_flight::Accepted;
use self::in_flight::InFlight;
use self::pump::Pump;
pub use self::stdio::Stdio;
use self::transport::EdgeTransport;

/// The longest line that is read. A longer one is discarded as it streams by.
pub const MAX_LINE: usize = 4 * 1024 * 1024;

/// How long rmcp may take, after the grace of the calls is over, to hand on their answers.
const HAND_OVER: Duration = Duration::from_millis(200);

/// How long the last answers may take to leave, when the host reads slowly or not at all.
const LAST_WRITES: Duration = Duration::from_millis(500);

/// Serves `handler` on `stdio` until [`Closing`] has begun and its grace is over.
///
/// Returns when every accepted request has been answered and the answers are written, or their bounds have
/// passed. Whoever calls this begins `closing` on signals and on the parent's end (see
/// [`closing::watch`]); the end of stdin begins it here.
pub async fn serve<H: ServerHandler>(stdio: Stdio, handler: Arc<H>, closing: Closing, notices: Notices) {
    let open = Arc::new(InFlight::new());
    let pump = Pump::start(stdio.output, notices.clone());
    let inbox = reader::start(stdio.input, closing.clone(), open.clone(), pump.clone(), notices.clone());
    let transport = EdgeTransport::new(inbox, open.clone(), pump.clone());

    let session = async {
        loop {
            match serve_server(handler.clone(), transport.clone()).await {
                Ok(running) => {
                    if let Err(error) = running.waiting().await {
                        tracing::error!(%error, "the session ended abnormally");
                    }
                    break;
                }
                // rmcp gives up on a client that opens with a notification; a bridge doesn't.
                Err(ServerInitializeError::ExpectedInitializeRequest(Some(stray))) => {
                    notices.note(TransportEvent::stray(&stray));
                }
                Err(ServerInitializeError::ConnectionClosed(_)) => break,
                Err(error) => tracing::warn!(%error, "a session could not be opened"),
            }
        }
    };
    tokio::select! {
        () = session => {}
        () = closing.overdue(HAND_OVER) => {}
    }

    for accepted in open.take_all() {
        notices.note(TransportEvent::Unanswered { id: accepted.id.to_string() });
        let lost = ErrorData::internal_error("the bridge ended before this request was answered", None);
        pump.refuse(lost, Some(accepted.id.clone()), None);
    }
    pump.finish(LAST_WRITES).await;
}
