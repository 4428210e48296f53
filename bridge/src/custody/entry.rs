//! One credential in custody, and when it is due.

use portreeve_registry::{Credential, CredentialHandle, CredentialKind, Secret};

use super::became::Trouble;

/// How long a credential is held unless custody is extended.
pub(super) const WINDOW_MS: i64 = 10 * 60_000;
/// Renewals are never further apart.
pub(super) const LONGEST_INTERVAL_MS: i64 = 10_000;

/// A credential in custody.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) credential: Credential,
    pub(super) taken_ms: i64,
    pub(super) ends_ms: i64,
    /// When to renew next; `None` once the daemon refused for good.
    pub(super) renew_ms: Option<i64>,
    /// The lease's whole time, as last seen.
    pub(super) lease_ms: i64,
    /// Calls that use it now.
    pub(super) lent: u32,
    /// A transition was asked for and its outcome isn't known.
    pub(super) in_doubt: bool,
    /// Why the last renewal failed.
    pub(super) trouble: Option<Trouble>,
}

impl Entry {
    pub(super) fn new(credential: Credential, lease_ms: i64, now: i64) -> Self {
        let mut entry = Self {
            credential,
            taken_ms: now,
            ends_ms: now + WINDOW_MS,
            renew_ms: None,
            lease_ms,
            lent: 0,
            in_doubt: false,
            trouble: None,
        };
        entry.renewed(lease_ms, now);
        entry
    }

    /// Whether it opens the same thing.
    pub(super) fn is_for(&self, credential: &Credential) -> bool {
        self.credential.kind == credential.kind && self.credential.subject == credential.subject
    }

    /// The lease has `lease_ms` from now: renewed next in a third of that, or ten seconds.
    pub(super) fn renewed(&mut self, lease_ms: i64, now: i64) {
        self.lease_ms = lease_ms.max(1);
        self.renew_ms = Some(now + (self.lease_ms / 3).min(LONGEST_INTERVAL_MS));
        self.trouble = None;
    }
}

/// A credential that is due for something.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub(super) handle: CredentialHandle,
    pub(super) kind: CredentialKind,
    pub(super) subject: String,
    pub(super) group: Option<String>,
    pub(super) secret: Secret,
}

impl Due {
    pub(super) fn of(handle: &CredentialHandle, entry: &Entry) -> Self {
        let Credential { kind, subject, group, secret } = &entry.credential;
        Self {
            handle: handle.clone(),
            kind: *kind,
            subject: subject.clone(),
            group: group.clone(),
            secret: secret.clone(),
        }
    }
}

/// The domain whose tools a credential is good for.
pub(super) fn domain_of(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Lease => "leases",
        CredentialKind::ActivationLease => "activations",
        CredentialKind::LauncherOperation => "launcher",
    }
}
