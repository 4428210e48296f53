//! How long the daemon's reply gives each lease in it.
//!
//! Protocol 1 writes it beside the id wherever a lease or a session comes: `leaseId` and `expiresAt`, or `id` and
//! `deadlineAt`. Only times are read here; the credentials themselves go through their types.

use std::collections::HashMap;

use serde_json::Value;

use crate::clock;

/// Milliseconds that are left, by the id of the lease or session.
#[derive(Debug, Default)]
pub(super) struct LeaseTimes(HashMap<String, i64>);

impl LeaseTimes {
    pub(super) fn of(reply: &Value) -> Self {
        let mut times = Self::default();
        times.read(reply);
        times
    }

    /// What is left for `subject`, unless the reply doesn't say.
    pub(super) fn remaining(&self, subject: &str) -> Option<i64> {
        self.0.get(subject).copied()
    }

    fn read(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.read(item)),
            Value::Object(fields) => {
                for (id, end) in [("leaseId", "expiresAt"), ("id", "deadlineAt")] {
                    let id = fields.get(id).and_then(Value::as_str);
                    let left = fields.get(end).and_then(Value::as_str).and_then(clock::ms_until);
                    if let (Some(id), Some(left)) = (id, left) {
                        self.0.insert(id.to_owned(), left);
                    }
                }
                fields.values().for_each(|field| self.read(field));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_found_beside_their_ids() {
        let end = clock::stamp_at(clock::boot_ms() + 15_000);
        let reply = json!({
            "activation": {"endpoints": [{"leaseId": "c", "expiresAt": null}]},
            "leases": [{"leaseId": "a", "expiresAt": end}, {"leaseId": "b", "expiresAt": "soon"}],
            "operation": {"id": "d", "deadlineAt": end},
        });
        let times = LeaseTimes::of(&reply);
        assert!((14_000..=15_000).contains(&times.remaining("a").unwrap()));
        assert_eq!((times.remaining("b"), times.remaining("c")), (None, None));
        assert!(times.remaining("d").is_some());
    }
}
