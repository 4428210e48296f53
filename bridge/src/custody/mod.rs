//! Custody: raw credentials go in, handles come out, and nothing of either outlives this process.
//!
//! Its rules are in [`vault`], without a clock. This module gives them one, and is what a call sees:
//! - a grant brings the secret of [`Custody::secret_for`] and puts the reply's credentials into a [`Receiving`];
//! - a spend borrows one ([`Custody::lend`]) and then settles it, returns it, or drops it in doubt.
//!
//! [`renewal`] keeps what is held alive, [`ending`] gives it back when the bridge ends, both on a connection of
//! their own. A handle is unguessable, means something in this process only, and is held for ten minutes, at
//! most sixty.

mod became;
pub(crate) mod ending;
mod entry;
mod lease_time;
mod purposes;
pub(crate) mod renewal;
mod requests;
mod vault;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portreeve_registry::{
    Answer, Credential, CredentialHandle, Deposit, Failure, FailureClass, Held, Outcome, Secret, Spent,
};
use serde_json::{Map, Value};
use tokio::sync::{Notify, OwnedMutexGuard};

use self::lease_time::LeaseTimes;
use self::vault::{Lent, Vault};
use crate::clock;

/// The vault, shared by the calls, the renewal and the end. Clones share one state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Custody(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    vault: Mutex<Vault>,
    /// One spend of a handle at a time: the second one sees what the first one made of it.
    turns: Mutex<HashMap<CredentialHandle, Arc<tokio::sync::Mutex<()>>>>,
    /// Something new is held: the renewal has to look at its times again.
    taken: Notify,
}

impl Custody {
    fn vault(&self) -> MutexGuard<'_, Vault> {
        self.0.vault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many credentials are held.
    pub(crate) fn held(&self) -> usize {
        self.vault().held()
    }

    /// The secret that a grant for `purpose` brings: the same one until its outcome is known and over.
    ///
    /// # Errors
    /// `policy.refused` when this bridge holds too many credentials.
    pub(crate) fn secret_for(&self, purpose: &str) -> Result<Secret, Failure> {
        let mut vault = self.vault();
        vault.room()?;
        Ok(vault.purposes.secret(purpose, clock::boot_ms()))
    }

    /// Where the credentials of a grant's reply go.
    pub(crate) fn receiving(&self, reply: &Value) -> Receiving<'_> {
        Receiving { custody: self, times: LeaseTimes::of(reply), taken: Vec::new() }
    }

    /// The grant failed: whether its secret is brought again depends on what became of it.
    pub(crate) fn not_granted(&self, purpose: &str, failure: &Failure) {
        if matches!(failure.outcome, Outcome::NotStarted | Outcome::NotApplied) {
            self.vault().purposes.refused(purpose);
        }
    }

    /// The secret of the lease that a grant was refused for, if it is this bridge's own: a worktree has one
    /// identity and many names.
    pub(crate) fn in_the_way(&self, failure: &Failure) -> Option<Secret> {
        let lease = failure.details.get("leaseId").and_then(Value::as_str)?;
        (failure.class == FailureClass::Conflict).then(|| self.vault().secret_of(lease))?
    }

    /// Borrows the credential of `handle` for one request of `tool`, waiting for its turn.
    ///
    /// # Errors
    /// What became of the handle, or that it is of another domain.
    pub(crate) async fn lend(
        &self,
        handle: &CredentialHandle,
        domain: &str,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Borrowed, Failure> {
        let turn = {
            let mut turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(handle.clone()).or_default().clone()
        };
        let turn = turn.lock_owned().await;
        match self.vault().lend(handle, domain, tool, arguments, clock::boot_ms())? {
            Lent::Settled(answer) => Ok(Borrowed::Settled(answer)),
            Lent::Held(held) => Ok(Borrowed::Loan(
                Box::new(held),
                Loan {
                    custody: self.clone(),
                    handle: handle.clone(),
                    tool: tool.to_owned(),
                    arguments: arguments.clone(),
                    sent: false,
                    _turn: turn,
                },
            )),
        }
    }

    /// Holds the credential of `handle` until `minutes` after it was taken.
    /// Answers the end as people read it, and whether it moved.
    ///
    /// # Errors
    /// What became of the handle.
    pub(crate) fn extend(&self, handle: &CredentialHandle, minutes: u8) -> Result<(String, bool), Failure> {
        let (ends_ms, moved) = self.vault().extend(handle, minutes, clock::boot_ms())?;
        Ok((clock::stamp_at(ends_ms), moved))
    }
}

/// Takes the credentials of one reply.
#[derive(Debug)]
pub(crate) struct Receiving<'a> {
    custody: &'a Custody,
    times: LeaseTimes,
    taken: Vec<CredentialHandle>,
}

impl Receiving<'_> {
    /// The grant was for `purpose`.
    pub(crate) fn granted(self, purpose: &str) {
        self.custody.vault().purposes.granted(purpose, &self.taken);
    }
}

impl portreeve_registry::Custody for Receiving<'_> {
    fn hold(&mut self, credential: Credential) -> Deposit {
        let lease_ms = self.times.remaining(&credential.subject);
        let (handle, ends_ms) = self.custody.vault().hold(credential, lease_ms, clock::boot_ms());
        self.custody.0.taken.notify_one();
        self.taken.push(handle.clone());
        Deposit { handle, custody_ends_at: clock::stamp_at(ends_ms) }
    }
}

/// What a spend finds under its handle.
#[derive(Debug)]
pub(crate) enum Borrowed {
    /// The credential, and the loan that has to end one way or another.
    Loan(Box<Held>, Loan),
    /// The result of the same transition, which succeeded before.
    Settled(Answer),
}

/// A credential in use. Dropped after [`Loan::sent`], the transition's outcome is in doubt and the credential
/// is kept for the repeat.
#[derive(Debug)]
pub(crate) struct Loan {
    custody: Custody,
    handle: CredentialHandle,
    tool: String,
    arguments: Map<String, Value>,
    sent: bool,
    _turn: OwnedMutexGuard<()>,
}

impl Loan {
    /// From here on the daemon may have acted.
    pub(crate) fn sent(&mut self) {
        self.sent = true;
    }

    /// The transition succeeded. What it settled is wiped; the answer stays.
    pub(crate) fn succeeded(mut self, group: Option<&str>, spent: Spent, settles: bool) -> Answer {
        self.sent = false;
        let Spent { answer, pending } = spent;
        let mut vault = self.custody.vault();
        vault.no_doubt(&self.handle);
        if settles {
            vault.settle(&self.handle, &self.tool, self.arguments.clone(), answer.clone());
        }
        if let (Some(group), Some(pending)) = (group, pending) {
            vault.settle_siblings(group, &pending, &self.tool);
        }
        drop(vault);
        answer
    }

    /// The transition failed: the credential stays for another try, unless the daemon says that it opens nothing
    /// any more. The failure to answer.
    pub(crate) fn failed(mut self, failure: Failure) -> Failure {
        self.sent = failure.outcome == Outcome::Unknown;
        let mut vault = self.custody.vault();
        if !self.sent {
            vault.no_doubt(&self.handle);
        }
        vault.gone(&self.handle, failure)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.custody.vault().give_back(&self.handle, self.sent);
    }
}
