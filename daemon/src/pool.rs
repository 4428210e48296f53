//! The pool: which ports are spoken for, kept in memory so that choosing one costs no search.
//!
//! It follows the store: rebuilt at start, changed after each commit.
//! Ports that a request is just considering are marked too, so that requests at once consider different ones.
//! The store's unique indexes stay the last word.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const ASSIGNED: u8 = 1;
const PENDING: u8 = 2;
const CONSIDERED: u8 = 4;

/// A mark of every port.
#[derive(Debug)]
pub(crate) struct Pool {
    marks: Mutex<Box<[u8; 65536]>>,
    /// Somebody has decided about a port.
    decided: Condvar,
}

/// What is known of a port in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u8);

impl Mark {
    pub(crate) fn assigned(self) -> bool {
        self.0 & ASSIGNED != 0
    }
    pub(crate) fn pending(self) -> bool {
        self.0 & PENDING != 0
    }
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool { marks: Mutex::new(Box::new([0; 65536])), decided: Condvar::new() }
    }

    fn marks(&self) -> MutexGuard<'_, Box<[u8; 65536]>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn assign(&self, port: u16) {
        self.marks()[usize::from(port)] |= ASSIGNED;
    }
    pub(crate) fn unassign(&self, port: u16) {
        self.marks()[usize::from(port)] &= !ASSIGNED;
    }
    pub(crate) fn hold(&self, port: u16) {
        self.marks()[usize::from(port)] |= PENDING;
    }
    pub(crate) fn let_go(&self, port: u16) {
        self.marks()[usize::from(port)] &= !PENDING;
    }
    pub(crate) fn mark(&self, port: u16) -> Mark {
        Mark(self.marks()[usize::from(port)])
    }

    /// Marks `port` as considered, once nobody else does so any more; none if that takes longer than `patience`.
    ///
    /// Whoever holds a considered port must not wait for another one.
    pub(crate) fn consider(&self, port: u16, patience: Duration) -> Option<Considered<'_>> {
        let at = usize::from(port);
        let (mut marks, _) = self
            .decided
            .wait_timeout_while(self.marks(), patience, |marks| marks[at] & CONSIDERED != 0)
            .unwrap_or_else(PoisonError::into_inner);
        if marks[at] & CONSIDERED != 0 {
            return None;
        }
        marks[at] |= CONSIDERED;
        Some(Considered { pool: self, port })
    }

    /// The first port of `ports` that nobody has, holds or considers and that `suits`; considered from now on.
    pub(crate) fn next(
        &self,
        mut ports: impl Iterator<Item = u16>,
        suits: impl Fn(u16) -> bool,
    ) -> Option<Considered<'_>> {
        let mut marks = self.marks();
        let port = ports.find(|port| marks[usize::from(*port)] == 0 && suits(*port))?;
        marks[usize::from(port)] |= CONSIDERED;
        Some(Considered { pool: self, port })
    }
}

/// A port under consideration; dropping it ends that.
#[derive(Debug)]
pub(crate) struct Considered<'a> {
    pool: &'a Pool,
    port: u16,
}

impl Considered<'_> {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Considered<'_> {
    fn drop(&mut self) {
        self.pool.marks()[usize::from(self.port)] &= !CONSIDERED;
        self.pool.decided.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_requests_never_consider_one_port() {
        let pool = Pool::new();
        pool.assign(5000);
        let first = pool.next(5000..=5002, |_| true).unwrap();
        let second = pool.next(5000..=5002, |_| true).unwrap();
        assert_eq!((first.port(), second.port()), (5001, 5002));
        assert!(pool.next(5000..=5002, |_| true).is_none());
        assert!(pool.consider(5001, Duration::ZERO).is_none());
        drop(first);
        assert_eq!(pool.next(5000..=5002, |_| true).unwrap().port(), 5001);
        pool.unassign(5000);
        assert_eq!(pool.next(5000..=5002, |port| port != 5001).unwrap().port(), 5000);
    }

    #[test]
    fn whoever_waits_for_a_port_sees_what_was_decided() {
        let pool = Pool::new();
        let first = pool.consider(5000, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let second = pool.consider(5000, Duration::from_secs(20)).unwrap();
                pool.mark(second.port()).pending()
            });
            pool.hold(5000);
            drop(first);
            assert!(second.join().unwrap());
        });
    }
}
