//! The requests that were accepted and are not answered yet.
//!
//! A request holds a slot from the moment it is accepted until its answer has been written, and a long message
//! holds several: so neither a host that sends without end nor one that never reads makes memory grow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rmcp::model::RequestId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots in all: requests of ordinary length that can be open at once.
pub(super) const SLOTS: u32 = 64;

/// A message holds one slot, and one more for each of these bytes, up to all of them.
const BYTES_PER_SLOT: usize = 64 * 1024;

/// One accepted request. Handlers find it in the request's extensions, as `Arc<Accepted>`.
#[derive(Debug)]
pub struct Accepted {
    /// The host's JSON-RPC id: worth keeping beside our own request id, never a key of ours.
    pub id: RequestId,
    /// When it was accepted.
    pub at: Instant,
    slot: Slot,
}

/// Room for one message, given back when the last clone is dropped.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Accepted {
    /// The room that the request holds; its answer takes it over.
    pub(super) fn slot(&self) -> Slot {
        self.slot.clone()
    }
}

#[derive(Debug)]
pub(super) struct InFlight {
    slots: Arc<Semaphore>,
    open: Mutex<HashMap<RequestId, Arc<Accepted>>>,
}

impl InFlight {
    pub(super) fn new() -> Self {
        Self { slots: Arc::new(Semaphore::new(SLOTS as usize)), open: Mutex::default() }
    }

    /// Waits until there is room for a message of this length.
    pub(super) async fn slot(&self, bytes: usize) -> Slot {
        let weight = u32::try_from(1 + bytes / BYTES_PER_SLOT).unwrap_or(SLOTS).min(SLOTS);
        let slot = self.slots.clone().acquire_many_owned(weight).await;
        Slot { _permit: Arc::new(slot.expect("the semaphore is never closed")) }
    }

    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.lock().contains_key(id)
    }

    /// Opens a request. Its id must not be open.
    pub(super) fn open(&self, id: RequestId, slot: Slot) -> Arc<Accepted> {
        let accepted = Arc::new(Accepted { id: id.clone(), at: Instant::now(), slot });
        self.lock().insert(id, accepted.clone());
        accepted
    }

    /// Closes a request: because it is answered now, or because the host took it back.
    /// `None` when it was closed before, so that nothing is answered twice.
    pub(super) fn close(&self, id: &RequestId) -> Option<Arc<Accepted>> {
        self.lock().remove(id)
    }

    /// Closes whatever is left.
    pub(super) fn take_all(&self) -> Vec<Arc<Accepted>> {
        self.lock().drain().map(|(_, accepted)| accepted).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Arc<Accepted>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
