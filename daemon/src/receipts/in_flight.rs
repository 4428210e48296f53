//! Which receipts are being executed by this daemon: one at a time each, and the others wait.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// The receipts in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    ids: Mutex<HashSet<String>>,
    left: Condvar,
}

/// The right to execute one receipt; dropping it lets the next one look.
#[derive(Debug)]
pub(crate) struct Turn {
    inner: Arc<Inner>,
    id: String,
}

impl InFlight {
    /// Takes the turn, once nobody else has it; `None` if that takes too long.
    pub(super) fn enter(&self, id: &str, until: Instant) -> Option<Turn> {
        let mut ids = self.inner.ids.lock().unwrap_or_else(PoisonError::into_inner);
        while ids.contains(id) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            ids = self.inner.left.wait_timeout(ids, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        ids.insert(id.to_owned());
        Some(Turn { inner: Arc::clone(&self.inner), id: id.to_owned() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.inner.ids.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        self.inner.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_at_a_time_and_each_receipt_for_itself() {
        let flight = InFlight::default();
        let soon = || Instant::now() + Duration::from_millis(20);
        let turn = flight.enter("a", soon()).unwrap();
        assert!(flight.enter("a", soon()).is_none());
        drop(flight.enter("b", soon()).unwrap());
        let other = flight.clone();
        let waiting =
            std::thread::spawn(move || other.enter("a", Instant::now() + Duration::from_secs(20)).is_some());
        drop(turn);
        assert!(waiting.join().unwrap());
    }
}
