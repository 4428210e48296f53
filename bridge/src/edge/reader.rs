//! Reads stdin until it ends or the bridge closes, and accepts what can be answered.
//!
//! The order of the steps is the policy: decode, refuse or drop, wait for room, open, hand on. While it waits
//! for room it doesn't read, so a host that floods is held back by its own pipe.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions, RequestId};
use tokio::sync::mpsc;

use super::MAX_LINE;
use super::closing::{Closing, Reason};
use super::decode::{Decoded, decode};
use super::event::{Notices, TransportEvent, cut};
use super::in_flight::{InFlight, Slot};
use super::lines::{Line, Lines};
use super::pump::Pump;
use super::stdio::Input;

/// How long the reader waits for room once the host has hung up.
/// Without a bound, a host that closed stdin but never reads stdout would keep the bridge for ever.
const STUCK_AFTER_HANG_UP: Duration = Duration::from_secs(1);

/// The reader's end: nothing more is read.
struct Stop;

struct Reader {
    closing: Closing,
    open: Arc<InFlight>,
    pump: Pump,
    notices: Notices,
    inbox: mpsc::Sender<ClientJsonRpcMessage>,
}

/// Starts reading; the receiver gives accepted requests and notifications, and ends with the reader.
pub(super) fn start(
    mut input: Input,
    closing: Closing,
    open: Arc<InFlight>,
    pump: Pump,
    notices: Notices,
) -> mpsc::Receiver<ClientJsonRpcMessage> {
    let (inbox, receiver) = mpsc::channel(1);
    let reader = Reader { closing, open, pump, notices, inbox };
    tokio::spawn(async move {
        if reader.run(&mut input).await.is_ok() {
            reader.closing.begin(Reason::StdinEnded);
        }
    });
    receiver
}

impl Reader {
    /// `Ok` at the end of stdin.
    async fn run(&self, input: &mut Input) -> Result<(), Stop> {
        let mut lines = Lines::new(MAX_LINE);
        loop {
            let read = tokio::select! {
                biased;
                () = self.closing.begun() => return Err(Stop),
                read = input.read() => read,
            };
            match read {
                Ok([]) => break,
                Ok(bytes) => lines.push(bytes),
                Err(error) => {
                    tracing::error!(%error, "stdin can't be read any more");
                    break;
                }
            }
            while let Some(line) = lines.next() {
                self.take(line, input).await?;
            }
        }
        match lines.rest() {
            None => Ok(()),
            // An object that is complete lacks nothing but its newline.
            Some(Line::Whole(rest)) => match decode(&rest) {
                Decoded::Blank => Ok(()),
                Decoded::Dropped(TransportEvent::NotJson { .. }) => {
                    self.notices.note(TransportEvent::PartialAtEof { bytes: rest.len() as u64 });
                    Ok(())
                }
                decoded => self.act(decoded, rest.len(), input).await,
            },
            Some(line @ Line::TooLong { .. }) => self.take(line, input).await,
        }
    }

    async fn take(&self, line: Line, input: &Input) -> Result<(), Stop> {
        match line {
            Line::Whole(line) => self.act(decode(&line), line.len(), input).await,
            Line::TooLong { bytes } => {
                self.notices.note(TransportEvent::TooLarge { bytes });
                Ok(())
            }
        }
    }

    async fn act(&self, decoded: Decoded, bytes: usize, input: &Input) -> Result<(), Stop> {
        match decoded {
            Decoded::Blank => Ok(()),
            Decoded::Dropped(event) => {
                self.notices.note(event);
                Ok(())
            }
            Decoded::Refused(id, error, event) => {
                self.notices.note(event);
                let slot = self.room(bytes, input).await?;
                self.pump.refuse(error, id, Some(slot));
                Ok(())
            }
            Decoded::Notification(notification) => {
                self.hand_on(ClientJsonRpcMessage::notification(notification)).await
            }
            Decoded::Cancelled(id, notification) => {
                if let Some(id) = id {
                    drop(self.open.close(&id));
                }
                self.hand_on(ClientJsonRpcMessage::notification(notification)).await
            }
            Decoded::Request(id, request) => self.accept(id, *request, bytes, input).await,
        }
    }

    async fn accept(
        &self,
        id: RequestId,
        mut request: ClientRequest,
        bytes: usize,
        input: &Input,
    ) -> Result<(), Stop> {
        let shown = || cut(&id.clone().into_json_value().to_string());
        if self.open.contains(&id) {
            self.notices.note(TransportEvent::DuplicateId { id: shown() });
            return Ok(());
        }
        let slot = self.room(bytes, input).await?;
        if self.pump.failed() {
            self.notices.note(TransportEvent::Unanswerable { id: shown() });
            return Ok(());
        }
        let accepted = self.open.open(id.clone(), slot);
        request.extensions_mut().insert(accepted);
        self.hand_on(ClientJsonRpcMessage::request(request, id)).await
    }

    /// Waits for room, but not beyond the bridge's closing.
    async fn room(&self, bytes: usize, input: &Input) -> Result<Slot, Stop> {
        let stuck = async {
            input.hung_up().await;
            tokio::time::sleep(STUCK_AFTER_HANG_UP).await;
        };
        tokio::select! {
            biased;
            slot = self.open.slot(bytes) => Ok(slot),
            () = self.closing.begun() => Err(Stop),
            () = stuck => {
                self.closing.begin_within(Reason::StdinEnded, Duration::ZERO);
                Err(Stop)
            }
        }
    }

    async fn hand_on(&self, message: ClientJsonRpcMessage) -> Result<(), Stop> {
        self.inbox.send(message).await.map_err(|_| Stop)
    }
}
