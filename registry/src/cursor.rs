//! Opaque cursors: the key after which a page starts, bound to the list and its filter.
//!
//! A cursor is base64url JSON of a version, the binding's hash and the key.
//! It isn't signed: it grants nothing, and a forged one only starts a page somewhere else.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

const VERSION: u8 = 1;
/// The longest cursor that is looked at, in bytes.
///
/// A key can hold three names of 128 characters and a path of 4096 bytes, each of them six bytes in JSON, and
/// base64 makes four bytes of three.
const LONGEST: usize = 48 * 1024;

/// Why a cursor can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// Not a cursor that this program made.
    #[error("the continuation cursor is invalid")]
    Garbled,
    /// It belongs to another list or another filter.
    #[error("the continuation cursor belongs to another list or another filter")]
    Foreign,
}

fn tag(binding: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(binding.as_bytes())[..9])
}

/// The cursor that continues after `key` in the list and filter that `binding` names.
///
/// # Panics
/// If the key can't be written as JSON; keys are plain data.
pub fn cursor_for<K: Serialize>(binding: &str, key: &K) -> String {
    let json = serde_json::to_vec(&(VERSION, tag(binding), key)).expect("keys are plain data");
    BASE64_URL_SAFE_NO_PAD.encode(json)
}

/// The key in `cursor`.
///
/// # Errors
/// [`CursorError`] if it is garbage or of another list or filter.
pub fn key_of<K: DeserializeOwned>(binding: &str, cursor: &str) -> Result<K, CursorError> {
    if cursor.len() > LONGEST {
        return Err(CursorError::Garbled);
    }
    let json = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| CursorError::Garbled)?;
    let (version, bound_to, key): (u8, String, serde_json::Value) =
        serde_json::from_slice(&json).map_err(|_| CursorError::Garbled)?;
    if version != VERSION {
        return Err(CursorError::Garbled);
    }
    if bound_to != tag(binding) {
        return Err(CursorError::Foreign);
    }
    serde_json::from_value(key).map_err(|_| CursorError::Garbled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_own_list_and_filter_only() {
        let cursor = cursor_for("/v1/claims {}", &("shop", 7));
        assert_eq!(key_of::<(String, u8)>("/v1/claims {}", &cursor), Ok(("shop".into(), 7)));
        assert_eq!(key_of::<(String, u8)>("/v1/ports {}", &cursor), Err(CursorError::Foreign));
        assert_eq!(key_of::<u64>("/v1/claims {}", &cursor), Err(CursorError::Garbled));
        for garbage in ["!!!", "", "e30", "bnVsbA", &"A".repeat(LONGEST + 1)] {
            assert_eq!(key_of::<u64>("/v1/claims {}", garbage), Err(CursorError::Garbled));
        }
    }

    #[test]
    fn the_cursor_of_the_longest_key_is_taken_back() {
        let name = "\u{1f600}".repeat(128);
        let key = (name.clone(), "\u{1}".repeat(4096), name.clone(), name);
        let cursor = cursor_for("/v1/claims {}", &key);
        assert_eq!(key_of("/v1/claims {}", &cursor), Ok(key), "{} bytes", cursor.len());
    }
}
