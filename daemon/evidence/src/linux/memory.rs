//! Where sockets were seen, and which were seen nowhere. Never an answer by itself: only where to look first,
//! and where not to look again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Holder, Holding, ProcessId, Socket, Visibility};

/// How much of each kind is remembered before all of it is forgotten.
const CAPACITY: usize = 16 * 1024;

/// A socket without a visible holder, by its inode and cookie: an inode is used again one day.
type Absent = (u64, u64);

/// What is remembered. Shared between threads; nothing slow is done while it is held.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    places: HashMap<u64, Vec<Holder>>,
    /// Sockets that none of the processes in `swept` had when it was looked into.
    absent: HashMap<Absent, Visibility>,
    swept: HashSet<ProcessId>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills in where each was seen last, unchecked.
    pub(super) fn recall(&self, found: &mut [Holding]) {
        let remembered = self.lock();
        for holding in found {
            if let Some(seen) = remembered.places.get(&holding.socket.inode) {
                holding.holders.extend_from_slice(seen);
            }
        }
    }

    /// Remembers where these are, now that it is known.
    pub(super) fn place(&self, found: &[Holding]) {
        let mut remembered = self.lock();
        if remembered.places.len() + found.len() > CAPACITY {
            remembered.places.clear();
        }
        for holding in found {
            if holding.holders.is_empty() {
                remembered.places.remove(&holding.socket.inode);
            } else {
                remembered.places.insert(holding.socket.inode, holding.holders.clone());
            }
        }
    }

    /// Whether all these sockets were absent from the processes told, and the verdict of each then.
    pub(super) fn absent(&self, sockets: &[Socket]) -> Option<(Vec<Visibility>, HashSet<ProcessId>)> {
        let remembered = self.lock();
        let verdict = |socket: &Socket| remembered.absent.get(&(socket.inode, socket.cookie)).copied();
        let verdicts = sockets.iter().map(verdict).collect::<Option<Vec<_>>>()?;
        Some((verdicts, remembered.swept.clone()))
    }

    /// Remembers that these have no visible holder among the processes swept. Those remembered before are
    /// forgotten, but for the same ones: they were not looked for in this sweep.
    pub(super) fn miss(&self, found: &[Holding], swept: HashSet<ProcessId>) {
        let mut remembered = self.lock();
        let missed = found
            .iter()
            // Without a cookie a later socket with the inode could not be told from this one.
            .filter(|holding| holding.holders.is_empty() && holding.socket.cookie != 0)
            .map(|holding| ((holding.socket.inode, holding.socket.cookie), holding.visibility));
        remembered.absent = missed.take(CAPACITY).collect();
        remembered.swept = if remembered.absent.is_empty() { HashSet::new() } else { swept };
    }

    /// Drops what no longer listens, given everything that does.
    pub(super) fn keep_only(&self, sockets: &[Socket]) {
        let mut remembered = self.lock();
        if remembered.places.len() > sockets.len() {
            let alive: HashSet<u64> = sockets.iter().map(|socket| socket.inode).collect();
            remembered.places.retain(|inode, _| alive.contains(inode));
        }
    }
}
