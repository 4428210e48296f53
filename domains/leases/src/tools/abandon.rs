//! `leases_abandon`.

use super::confirm::lease;
use crate::{AbandonLease, AbandonRequest, Abandoned};
use portreeve_records::AbandonReason;
use portreeve_registry::{CredentialHandle, Example, Held, NamesHandle, Spend, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Give a leased port back because its server will not run on it. With reason address-in-use the next
    /// leases_acquire gives another port.
    pub spend LeasesAbandon = "leases_abandon"
}

/// Names the lease, and why it is given up.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AbandonInput {
    /// What leases_acquire answered.
    pub credential_handle: CredentialHandle,
    /// Why.
    pub reason: AbandonReason,
}

impl NamesHandle for AbandonInput {
    fn handle(&self) -> &CredentialHandle {
        &self.credential_handle
    }
}

/// When it was given up.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AbandonOutput {
    /// When, UTC.
    pub at: String,
}

impl Spend for LeasesAbandon {
    type Operation = AbandonLease;
    type Input = AbandonInput;
    type Output = AbandonOutput;
    const SETTLES: bool = true;

    fn example() -> Example<AbandonInput> {
        Example::of(AbandonInput {
            credential_handle: CredentialHandle::example("cred_0000000000000000000000000000000"),
            reason: AbandonReason::ClientCancelled,
        })
    }
    fn request(input: AbandonInput, held: Held) -> AbandonRequest {
        AbandonRequest {
            lease_id: lease(&held),
            lease_token: held.secret,
            reason: input.reason,
            answer_settled: Some(true),
        }
    }
    fn changed(reply: &Abandoned) -> bool {
        reply.changed
    }
    fn pending(_: &Abandoned) -> Option<Vec<String>> {
        None
    }
    fn output(reply: Abandoned) -> AbandonOutput {
        AbandonOutput { at: reply.at }
    }
    fn summary(_: &AbandonOutput, _: bool) -> String {
        "The lease is given up; its port is free for others.".to_owned()
    }
}
