//! What rmcp sees of the edge: messages one by one, and a place for the answers.
//!
//! Clones share one session's queue, so that a session that rmcp gave up on can be served again where it
//! stood. At most one clone receives at a time.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{Mutex, mpsc};

use super::in_flight::InFlight;
use super::pump::Pump;

#[derive(Debug, Clone)]
pub(super) struct EdgeTransport {
    inbox: Arc<Mutex<mpsc::Receiver<ClientJsonRpcMessage>>>,
    open: Arc<InFlight>,
    pump: Pump,
}

impl EdgeTransport {
    pub(super) fn new(inbox: mpsc::Receiver<ClientJsonRpcMessage>, open: Arc<InFlight>, pump: Pump) -> Self {
        Self { inbox: Arc::new(Mutex::new(inbox)), open, pump }
    }
}

impl Transport<RoleServer> for EdgeTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let id = match &message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        match id {
            None => self.pump.push(&message, None),
            // An answer to a request that isn't open was taken back by the host meanwhile.
            Some(id) => {
                if let Some(accepted) = self.open.close(id) {
                    self.pump.push(&message, Some(accepted.slot()));
                }
            }
        }
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.inbox.lock().await.recv().await
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
