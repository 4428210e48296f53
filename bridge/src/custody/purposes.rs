//! The secrets that this bridge brings to its grants, by what they are for.
//!
//! A grant that is asked for again brings the same secret and so gets the same lease: that is what makes a lost
//! reply harmless. A purpose ends with its credentials, or when no answer came for longer than any lease lives.

use std::collections::HashMap;

use portreeve_registry::{CredentialHandle, Secret};

/// No lease that nobody renews lives longer (protocol 1 allows 120 s).
const IN_DOUBT_MS: i64 = 120_000;
/// Purposes that are remembered; the oldest go first.
const MOST: usize = 2_048;

#[derive(Debug)]
struct Purpose {
    secret: Secret,
    asked_ms: i64,
    handles: Vec<CredentialHandle>,
}

#[derive(Debug, Default)]
pub(super) struct Purposes(HashMap<String, Purpose>);

impl Purposes {
    /// The secret to bring: that of the last time, while its outcome is open or its credentials are held.
    pub(super) fn secret(&mut self, purpose: &str, now: i64) -> Secret {
        self.0.retain(|_, open| !open.handles.is_empty() || now - open.asked_ms < IN_DOUBT_MS);
        if self.0.len() >= MOST
            && !self.0.contains_key(purpose)
            && let Some(oldest) =
                self.0.iter().min_by_key(|(_, open)| open.asked_ms).map(|(name, _)| name.clone())
        {
            self.0.remove(&oldest);
        }
        let open = self.0.entry(purpose.to_owned()).or_insert_with(|| Purpose {
            secret: Secret::random(),
            asked_ms: now,
            handles: Vec::new(),
        });
        open.asked_ms = now;
        open.secret.clone()
    }

    /// The grant was answered; its credentials are held under these handles, if it has any.
    pub(super) fn granted(&mut self, purpose: &str, handles: &[CredentialHandle]) {
        if handles.is_empty() {
            self.refused(purpose);
        } else if let Some(open) = self.0.get_mut(purpose) {
            for handle in handles {
                if !open.handles.contains(handle) {
                    open.handles.push(handle.clone());
                }
            }
        }
    }

    /// The grant was refused for certain; what was granted for the purpose before stays.
    pub(super) fn refused(&mut self, purpose: &str) {
        if self.0.get(purpose).is_some_and(|open| open.handles.is_empty()) {
            self.0.remove(purpose);
        }
    }

    /// A credential is over; the purpose with its last one.
    pub(super) fn over(&mut self, handle: &CredentialHandle) {
        self.0.retain(|_, open| {
            let before = open.handles.len();
            open.handles.retain(|held| held != handle);
            open.handles.len() == before || !open.handles.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_brings_the_same_secret_until_the_grant_is_over() {
        let mut purposes = Purposes::default();
        let first = purposes.secret("web", 0);
        assert_eq!(purposes.secret("web", 1_000).expose(), first.expose());
        assert_ne!(purposes.secret("api", 1_000).expose(), first.expose());
        let handle = CredentialHandle::random();
        purposes.granted("web", std::slice::from_ref(&handle));
        assert_eq!(purposes.secret("web", 900_000).expose(), first.expose());
        purposes.over(&handle);
        assert_ne!(purposes.secret("web", 900_000).expose(), first.expose());
    }

    #[test]
    fn a_refusal_and_a_long_silence_end_a_purpose() {
        let mut purposes = Purposes::default();
        let first = purposes.secret("web", 0);
        purposes.refused("web");
        let second = purposes.secret("web", 0);
        assert_ne!(first.expose(), second.expose());
        assert_ne!(purposes.secret("web", IN_DOUBT_MS).expose(), second.expose());
    }

    #[test]
    fn purposes_are_bounded() {
        let mut purposes = Purposes::default();
        for number in 0..(MOST as i64 + 100) {
            purposes.secret(&number.to_string(), number);
        }
        assert_eq!(purposes.0.len(), MOST);
        assert!(!purposes.0.contains_key("0"));
    }
}
