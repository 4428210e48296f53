//! What custody knows, and its rules: pure, every time is given.
//!
//! Times are milliseconds of the boot clock. Nothing here asks the daemon, sleeps or reads a clock.
//!
//! A handle is held until it is settled (its transition succeeded), its window ends, or the daemon says that what
//! it opens is gone. Then the credential is wiped and a tombstone says what became of the handle.

use std::collections::{HashMap, VecDeque};

use portreeve_registry::{
    Answer, Credential, CredentialHandle, CredentialKind, Failure, FailureClass, Held, Secret,
};
use serde_json::{Map, Value};

use super::became::{Became, Trouble, is_gone, unknown};
use super::entry::{Due, Entry, LONGEST_INTERVAL_MS, domain_of};
use super::purposes::Purposes;

/// What is assumed of a lease whose end the daemon didn't say, so that it is renewed soon.
const ASSUMED_LEASE_MS: i64 = 3_000;
/// How soon a renewal that got no answer is tried again.
const TRY_AGAIN_MS: i64 = 1_000;
/// While something is held the vault is looked at more often than this; a longer pause was a sleep of the machine
/// or a stop of the process.
const GAP_MS: i64 = 3 * LONGEST_INTERVAL_MS;
/// Credentials that are held at once, before another grant is refused.
const MOST_HELD: usize = 1_024;
/// Tombstones that are kept; the oldest go first.
const MOST_TOMBSTONES: usize = 512;

#[derive(Debug)]
enum Place {
    Held(Box<Entry>),
    Tombstone(Box<Became>),
}

/// What a spend gets.
#[derive(Debug)]
pub(crate) enum Lent {
    /// The credential; bring it back with [`Vault::give_back`].
    Held(Held),
    /// This very transition succeeded before: its result.
    Settled(Answer),
}

/// Everything in custody.
#[derive(Debug, Default)]
pub(super) struct Vault {
    places: HashMap<CredentialHandle, Place>,
    tombstones: VecDeque<CredentialHandle>,
    pub(super) purposes: Purposes,
    looked_ms: i64,
}

impl Vault {
    /// How many credentials are held.
    pub(super) fn held(&self) -> usize {
        self.entries().count()
    }

    /// Refuses another grant when too much is held.
    pub(super) fn room(&self) -> Result<(), Failure> {
        let held = self.held();
        if held < MOST_HELD {
            return Ok(());
        }
        Err(Failure::new(
            FailureClass::PolicyRefused,
            format!("this bridge holds {held} credentials already"),
        )
        .next("confirm or abandon what was acquired before"))
    }

    /// Takes a credential; the same subject gives the same handle while it is held.
    /// Answers the handle, and when its window ends.
    pub(super) fn hold(
        &mut self,
        credential: Credential,
        lease_ms: Option<i64>,
        now: i64,
    ) -> (CredentialHandle, i64) {
        self.look(now);
        let lease_ms = lease_ms.unwrap_or(ASSUMED_LEASE_MS);
        let same = self.places.iter_mut().find_map(|(handle, place)| match place {
            Place::Held(entry) if entry.is_for(&credential) => Some((handle.clone(), entry)),
            _ => None,
        });
        if let Some((handle, entry)) = same {
            entry.credential = credential;
            entry.renewed(lease_ms, now);
            return (handle, entry.ends_ms);
        }
        let handle = CredentialHandle::random();
        let entry = Entry::new(credential, lease_ms, now);
        let ends_ms = entry.ends_ms;
        self.places.insert(handle.clone(), Place::Held(Box::new(entry)));
        (handle, ends_ms)
    }

    /// The secret of a lease that is held.
    pub(super) fn secret_of(&self, lease: &str) -> Option<Secret> {
        let held = self.entries().map(|(_, entry)| &entry.credential);
        let mut leases = held.filter(|credential| credential.kind == CredentialKind::Lease);
        leases.find(|credential| credential.subject == lease).map(|credential| credential.secret.clone())
    }

    /// Lends a credential for one request of `tool`, which belongs to `domain`.
    pub(super) fn lend(
        &mut self,
        handle: &CredentialHandle,
        domain: &str,
        tool: &str,
        arguments: &Map<String, Value>,
        now: i64,
    ) -> Result<Lent, Failure> {
        self.look(now);
        match self.places.get_mut(handle) {
            None => Err(unknown()),
            Some(Place::Held(entry)) => {
                let owner = domain_of(entry.credential.kind);
                if owner != domain {
                    return Err(Failure::new(
                        FailureClass::BridgeInvalidArguments,
                        format!("credentialHandle: this handle is good for the tools of {owner} only"),
                    ));
                }
                entry.lent += 1;
                let Credential { kind, subject, group, secret } = &entry.credential;
                Ok(Lent::Held(Held {
                    kind: *kind,
                    subject: subject.clone(),
                    group: group.clone(),
                    secret: secret.clone(),
                }))
            }
            Some(Place::Tombstone(became)) => match &**became {
                Became::Settled { tool: before, arguments: given, answer }
                    if before == tool && given == arguments =>
                {
                    Ok(Lent::Settled(answer.clone().unchanged()))
                }
                became => Err(became.failure()),
            },
        }
    }

    /// The credential comes back. `in_doubt`: the daemon may have acted, and nobody knows.
    pub(super) fn give_back(&mut self, handle: &CredentialHandle, in_doubt: bool) {
        if let Some(Place::Held(entry)) = self.places.get_mut(handle) {
            entry.lent = entry.lent.saturating_sub(1);
            entry.in_doubt |= in_doubt;
        }
    }

    /// The daemon answered a transition of this handle, and what it says outranks any doubt.
    pub(super) fn no_doubt(&mut self, handle: &CredentialHandle) {
        if let Some(Place::Held(entry)) = self.places.get_mut(handle) {
            entry.in_doubt = false;
        }
    }

    /// A transition succeeded: the credential is wiped, its result kept.
    pub(super) fn settle(
        &mut self,
        handle: &CredentialHandle,
        tool: &str,
        arguments: Map<String, Value>,
        answer: Answer,
    ) {
        self.bury(handle, Became::Settled { tool: tool.to_owned(), arguments, answer });
    }

    /// What the reply to `tool` no longer shows as pending in the group is wiped too.
    pub(super) fn settle_siblings(&mut self, group: &str, pending: &[String], tool: &str) {
        let over: Vec<CredentialHandle> = self
            .entries()
            .filter(|(_, entry)| entry.credential.group.as_deref() == Some(group))
            .filter(|(_, entry)| !pending.contains(&entry.credential.subject))
            .map(|(handle, _)| handle.clone())
            .collect();
        for handle in over {
            self.bury(&handle, Became::SettledBeside { tool: tool.to_owned() });
        }
    }

    /// Holds until `minutes` after the credential was taken, if that is later than before.
    /// Answers the end, and whether it moved.
    pub(super) fn extend(
        &mut self,
        handle: &CredentialHandle,
        minutes: u8,
        now: i64,
    ) -> Result<(i64, bool), Failure> {
        self.look(now);
        match self.places.get_mut(handle) {
            None => Err(unknown()),
            Some(Place::Tombstone(became)) => Err(became.failure()),
            Some(Place::Held(entry)) => {
                let ends_ms = entry.taken_ms + i64::from(minutes) * 60_000;
                let moved = ends_ms > entry.ends_ms;
                entry.ends_ms = entry.ends_ms.max(ends_ms);
                Ok((entry.ends_ms, moved))
            }
        }
    }

    /// What has to be renewed now.
    pub(super) fn due(&mut self, now: i64) -> Vec<Due> {
        self.look(now);
        self.entries()
            .filter(|(_, entry)| entry.renew_ms.is_some_and(|at| at <= now))
            .map(|(handle, entry)| Due::of(handle, entry))
            .collect()
    }

    /// What could be given back now: everything that no call uses.
    pub(super) fn idle(&self) -> Vec<Due> {
        self.entries()
            .filter(|(_, entry)| entry.lent == 0)
            .map(|(handle, entry)| Due::of(handle, entry))
            .collect()
    }

    /// When somebody has to look again; `None` while nothing is held.
    pub(super) fn next_look(&self, now: i64) -> Option<i64> {
        let next =
            self.entries().map(|(_, entry)| entry.renew_ms.map_or(entry.ends_ms, |at| at.min(entry.ends_ms)));
        next.min().map(|at| at.clamp(now, now + LONGEST_INTERVAL_MS))
    }

    /// A renewal succeeded; the lease has `lease_ms` from now.
    pub(super) fn renewed(&mut self, handle: &CredentialHandle, lease_ms: Option<i64>, now: i64) {
        if let Some(Place::Held(entry)) = self.places.get_mut(handle) {
            let lease_ms = lease_ms.unwrap_or(entry.lease_ms);
            entry.renewed(lease_ms, now);
        }
    }

    /// A renewal failed. `true` when the credential is lost by that.
    pub(super) fn renewal_failed(&mut self, handle: &CredentialHandle, failure: &Failure, now: i64) -> bool {
        let Some(Place::Held(entry)) = self.places.get_mut(handle) else { return false };
        let trouble = Trouble { class: failure.class, message: failure.message.clone() };
        if !is_gone(failure.class) {
            entry.renew_ms = Some(now + TRY_AGAIN_MS.min(entry.lease_ms / 3));
            entry.trouble.get_or_insert(trouble);
            return false;
        }
        let first = entry.trouble.take().unwrap_or(trouble);
        entry.renew_ms = None;
        if entry.lent > 0 || entry.in_doubt {
            // Perhaps it is gone because the transition succeeded: its repeat has to reach the daemon.
            entry.trouble = Some(first);
            return false;
        }
        self.bury(handle, Became::Lost(first));
        true
    }

    /// The daemon says that what the handle opens is gone. The failure to answer: its own, or that of the
    /// renewals which let it go.
    pub(super) fn gone(&mut self, handle: &CredentialHandle, failure: Failure) -> Failure {
        if !is_gone(failure.class) {
            return failure;
        }
        let trouble = match self.places.get_mut(handle) {
            Some(Place::Held(entry)) => entry.trouble.take(),
            _ => None,
        };
        let answer = match &trouble {
            // A refused renewal says no more than the daemon does now.
            Some(trouble) if !is_gone(trouble.class) => trouble.failure(),
            _ => failure.clone(),
        };
        let became = trouble.unwrap_or(Trouble { class: failure.class, message: failure.message });
        self.bury(handle, Became::Lost(became));
        answer
    }

    /// Wipes a credential that was given back to the daemon.
    pub(super) fn forget(&mut self, handle: &CredentialHandle) {
        self.places.remove(handle);
    }

    /// Ends what has run out; after a sleep of the machine everything gets one more lease time first.
    fn look(&mut self, now: i64) {
        let slept = now - self.looked_ms > GAP_MS;
        self.looked_ms = now;
        let mut over = Vec::new();
        for (handle, place) in &mut self.places {
            let Place::Held(entry) = place else { continue };
            if slept && entry.taken_ms < now {
                entry.renew_ms = entry.renew_ms.map(|_| now);
                entry.ends_ms = entry.ends_ms.max(now + entry.lease_ms);
            }
            if entry.ends_ms <= now && entry.lent == 0 {
                over.push(handle.clone());
            }
        }
        for handle in over {
            self.bury(&handle, Became::WindowEnded);
        }
    }

    fn bury(&mut self, handle: &CredentialHandle, became: Became) {
        let Some(place) = self.places.get_mut(handle) else { return };
        let was_held = matches!(place, Place::Held(_));
        *place = Place::Tombstone(Box::new(became));
        self.purposes.over(handle);
        if was_held {
            self.tombstones.push_back(handle.clone());
        }
        if self.tombstones.len() > MOST_TOMBSTONES
            && let Some(oldest) = self.tombstones.pop_front()
        {
            self.places.remove(&oldest);
        }
    }

    fn entries(&self) -> impl Iterator<Item = (&CredentialHandle, &Entry)> {
        self.places.iter().filter_map(|(handle, place)| match place {
            Place::Held(entry) => Some((handle, &**entry)),
            Place::Tombstone(_) => None,
        })
    }
}

#[cfg(test)]
#[path = "vault_tests.rs"]
mod tests;
