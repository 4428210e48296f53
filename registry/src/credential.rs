//! Credentials: raw secrets, the handles that stand for them, and the custody between the two.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A raw credential: a lease token, a launcher credential, a token seed.
///
/// It crosses the socket and nothing else.
/// It has no JSON schema on purpose: a tool whose input or output would carry one does not compile.
/// `Debug` shows nothing of it, and its memory is wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

/// The text is no credential: not 43 to 128 characters of base64url.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not a credential: 43 to 128 characters of base64url")]
pub struct SecretError;

impl Secret {
    /// Makes a fresh one of 32 random bytes from the kernel, as 43 characters of base64url.
    ///
    /// # Panics
    /// If the kernel has no randomness to give, which Linux and macOS don't do once booted.
    pub fn random() -> Secret {
        let mut bytes = Zeroizing::new([0u8; 32]);
        getrandom::fill(bytes.as_mut()).expect("the kernel gives randomness once booted");
        Secret(Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(bytes.as_ref())))
    }

    /// Takes text that claims to be a credential.
    ///
    /// # Errors
    /// [`SecretError`] if it isn't 43 to 128 characters of base64url (protocol 1, "Malformed tokens").
    pub fn parse(text: String) -> Result<Secret, SecretError> {
        let text = Zeroizing::new(text);
        let fits = (43..=128).contains(&text.len());
        if fits && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            Ok(Secret(text))
        } else {
            Err(SecretError)
        }
    }

    /// The text itself, for the socket.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored in its place: the SHA-256 of its text.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// Whether `stored` is this one's digest, in constant time.
    pub fn matches(&self, stored: &[u8]) -> bool {
        bool::from(self.digest().as_slice().ct_eq(stored))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The text is not repeated in the error: it may be a credential with one character too many.
        let text = String::deserialize(deserializer)?;
        Secret::parse(text).map_err(serde::de::Error::custom)
    }
}

/// Stands for a credential that this bridge holds; means nothing anywhere else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct CredentialHandle(#[schemars(length(min = 1, max = 64))] String);

impl CredentialHandle {
    /// Makes an unguessable one: `cred_` and 32 characters of base64url (24 random bytes).
    ///
    /// # Panics
    /// As [`Secret::random`].
    pub fn random() -> CredentialHandle {
        let mut bytes = [0u8; 24];
        getrandom::fill(&mut bytes).expect("the kernel gives randomness once booted");
        CredentialHandle(format!("cred_{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// For examples in declarations: a handle of that text, which no bridge holds.
    pub fn example(text: &str) -> CredentialHandle {
        CredentialHandle(text.to_owned())
    }

    /// The handle as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a credential is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// A standalone lease; the subject is the lease's id.
    Lease,
    /// A lease of a stack's activation; the subject is the lease's id, the group the activation's.
    ActivationLease,
    /// A launcher session; the subject is the operation's id.
    LauncherOperation,
}

/// A credential on its way from a reply into custody.
#[derive(Debug)]
pub struct Credential {
    /// What it is good for.
    pub kind: CredentialKind,
    /// The id of the lease or session that it opens.
    pub subject: String,
    /// The activation whose leases are settled together, where there is one.
    pub group: Option<String>,
    /// The credential.
    pub secret: Secret,
}

/// A credential in custody, lent to a [`crate::Spend`] for one request.
#[derive(Debug)]
pub struct Held {
    /// What it is good for.
    pub kind: CredentialKind,
    /// The id of the lease or session that it opens.
    pub subject: String,
    /// The activation it belongs to, where there is one.
    pub group: Option<String>,
    /// The credential.
    pub secret: Secret,
}

/// What custody answers to a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposit {
    /// The handle that stands for it.
    pub handle: CredentialHandle,
    /// Until when it is held and renewed, UTC, unless custody is extended.
    pub custody_ends_at: String,
}

/// Where a [`crate::Grant`] puts the credentials of its reply.
pub trait Custody {
    /// Takes a credential and gives the handle that stands for it.
    ///
    /// The same subject gives the same handle for as long as it is held.
    fn hold(&mut self, credential: Credential) -> Deposit;
}
