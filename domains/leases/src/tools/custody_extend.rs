//! `leases_custody_extend`.

use portreeve_registry::{CredentialHandle, Example, Issue, Local, NamesHandle, Nature, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

tool! {
    /// Keep a pending lease renewed for longer than the first ten minutes, for a server that is slow to
    /// start: up to sixty minutes from when it was acquired.
    pub local LeasesCustodyExtend = "leases_custody_extend"
}

/// Names the lease, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustodyInput {
    /// What leases_acquire answered.
    pub credential_handle: CredentialHandle,
    /// For how many minutes from when it was acquired.
    pub custody_minutes: CustodyMinutes,
}

impl NamesHandle for CustodyInput {
    fn handle(&self) -> &CredentialHandle {
        &self.credential_handle
    }
}

/// Minutes of custody, 10 to 60.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct CustodyMinutes(#[schemars(range(min = 10, max = 60))] u8);

impl CustodyMinutes {
    /// The minutes.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl<'de> Deserialize<'de> for CustodyMinutes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let minutes = u8::deserialize(deserializer)?;
        if (10..=60).contains(&minutes) {
            Ok(CustodyMinutes(minutes))
        } else {
            Err(Issue::out_of_bounds(minutes < 10, &"minutes from 10 to 60"))
        }
    }
}

/// Until when the lease is renewed by itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustodyOutput {
    /// Until when, UTC.
    pub custody_ends_at: String,
}

impl Local for LeasesCustodyExtend {
    const NATURE: Nature = Nature::Mutation;
    type Input = CustodyInput;
    type Output = CustodyOutput;

    fn example() -> Example<CustodyInput> {
        Example::of(CustodyInput {
            credential_handle: CredentialHandle::example("cred_0000000000000000000000000000000"),
            custody_minutes: CustodyMinutes(30),
        })
    }
    fn summary(output: &CustodyOutput) -> String {
        format!("The lease is renewed by itself until {}.", output.custody_ends_at)
    }
}
