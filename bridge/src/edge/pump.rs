//! The only writer of the protocol's stdout.
//!
//! Whatever is pushed is written whole and in order by one task. The queue has no bound of its own: what is
//! pushed carries the slot it was accepted under ([`super::in_flight`]), and the slot is given back once it is
//! written. Once a write has failed everything else is dropped and accounted for, since half a line may be out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rmcp::ErrorData;
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use tokio::sync::{mpsc, oneshot};

use super::event::{Notices, TransportEvent, cut};
use super::in_flight::Slot;
use super::stdio::Output;

/// A host that hasn't read for this long is noted, once for each stall.
const STALL: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Order {
    Write { bytes: Vec<u8>, id: Option<RequestId>, slot: Option<Slot> },
    Finish(oneshot::Sender<()>),
}

#[derive(Debug, Clone)]
pub(super) struct Pump {
    queue: mpsc::UnboundedSender<Order>,
    failed: Arc<AtomicBool>,
}

impl Pump {
    pub(super) fn start(output: Output, notices: Notices) -> Self {
        let (queue, orders) = mpsc::unbounded_channel();
        let failed = Arc::new(AtomicBool::new(false));
        tokio::spawn(run(output, orders, failed.clone(), notices));
        Self { queue, failed }
    }

    /// Whether stdout can't be written any more.
    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn push(&self, message: &ServerJsonRpcMessage, slot: Option<Slot>) {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(response.id.clone()),
            ServerJsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        match serde_json::to_vec(message) {
            Ok(mut bytes) => {
                bytes.push(b'\n');
                // The task ends with the runtime only; then nobody is left to answer.
                drop(self.queue.send(Order::Write { bytes, id, slot }));
            }
            Err(error) => {
                tracing::error!(%error, "an answer could not be serialized");
                let lost = ErrorData::internal_error("the answer could not be serialized", None);
                self.refuse(lost, id, slot);
            }
        }
    }

    /// Answers with a JSON-RPC error.
    pub(super) fn refuse(&self, error: ErrorData, id: Option<RequestId>, slot: Option<Slot>) {
        self.push(&ServerJsonRpcMessage::error(error, id), slot);
    }

    /// Waits until everything pushed so far is written, at most for `bound`.
    pub(super) async fn finish(&self, bound: Duration) {
        let (done, written) = oneshot::channel();
        drop(self.queue.send(Order::Finish(done)));
        // A host that doesn't read is noted by the pump itself; there is nobody else left to tell.
        drop(tokio::time::timeout(bound, written).await);
    }
}

async fn run(
    mut output: Output,
    mut orders: mpsc::UnboundedReceiver<Order>,
    failed: Arc<AtomicBool>,
    notices: Notices,
) {
    let mut broken: Option<String> = None;
    while let Some(order) = orders.recv().await {
        let (bytes, id, slot) = match order {
            Order::Write { bytes, id, slot } => (bytes, id, slot),
            Order::Finish(done) => {
                if done.send(()).is_err() {
                    tracing::debug!("nobody waits for the last writes any more");
                }
                continue;
            }
        };
        if broken.is_none()
            && let Err(error) = write(&mut output, bytes, &notices).await
        {
            failed.store(true, Ordering::Relaxed);
            broken = Some(cut(&error.to_string()));
        }
        if let Some(reason) = &broken {
            let id = id.map(|id| cut(&id.into_json_value().to_string()));
            notices.note(TransportEvent::OutputFailed { reason: reason.clone(), id });
        }
        drop(slot);
    }
}

async fn write(output: &mut Output, bytes: Vec<u8>, notices: &Notices) -> std::io::Result<()> {
    let begun = Instant::now();
    let write = output.write_all(bytes);
    let mut write = std::pin::pin!(write);
    tokio::select! {
        result = &mut write => return result,
        () = tokio::time::sleep(STALL) => {
            notices.note(TransportEvent::OutputStalled { waited: begun.elapsed() });
        }
    }
    write.await
}
