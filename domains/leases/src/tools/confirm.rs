//! `leases_confirm`.

use crate::{ConfirmLease, ConfirmRequest, Confirmed};
use portreeve_records::{Id, Pid, PortNumber};
use portreeve_registry::{CredentialHandle, Example, Held, NamesHandle, Spend, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Prove that the server you started has its port: the kernel must show that only rootPid or its
    /// descendants listen on it. Call it once the server listens; if it fails, handle and lease stay, so start
    /// the server properly and call again. The answer of a failure says who does hold the port and where your
    /// process tree listens instead.
    pub spend LeasesConfirm = "leases_confirm"
}

/// Names the lease and the server's process.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmInput {
    /// What leases_acquire answered.
    pub credential_handle: CredentialHandle,
    /// The pid that you started: the server, or the launcher above it; not your shell.
    pub root_pid: Pid,
}

impl NamesHandle for ConfirmInput {
    fn handle(&self) -> &CredentialHandle {
        &self.credential_handle
    }
}

/// The run that the lease became.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmOutput {
    /// The run, for leases_release.
    pub run_id: Id,
    /// The port.
    pub port: PortNumber,
    /// Where it listens, address and port: which loopback family works.
    #[schemars(length(max = 64))]
    pub addresses: Vec<String>,
    /// When it was proved, UTC.
    pub confirmed_at: String,
    /// The claim.
    pub claim_id: Id,
    /// The lease that it was.
    pub lease_id: Id,
}

impl Spend for LeasesConfirm {
    type Operation = ConfirmLease;
    type Input = ConfirmInput;
    type Output = ConfirmOutput;
    const SETTLES: bool = true;

    fn example() -> Example<ConfirmInput> {
        Example::of(ConfirmInput {
            credential_handle: CredentialHandle::example("cred_0000000000000000000000000000000"),
            root_pid: Pid::new(4242).expect("a pid"),
        })
    }
    fn request(input: ConfirmInput, held: Held) -> ConfirmRequest {
        ConfirmRequest {
            lease_id: lease(&held),
            lease_token: held.secret,
            root_pid: input.root_pid,
            answer_settled: Some(true),
        }
    }
    fn changed(reply: &Confirmed) -> bool {
        reply.changed.unwrap_or(true)
    }
    fn pending(_: &Confirmed) -> Option<Vec<String>> {
        None
    }
    fn output(reply: Confirmed) -> ConfirmOutput {
        ConfirmOutput {
            run_id: reply.run_id,
            port: reply.port,
            addresses: reply.addresses,
            confirmed_at: reply.confirmed_at,
            claim_id: reply.claim_id,
            lease_id: reply.lease_id,
        }
    }
    fn summary(output: &ConfirmOutput, _: bool) -> String {
        let place = output.addresses.first().map_or_else(|| format!("port {}", output.port), Clone::clone);
        format!("Proved: your server listens on {place}. It is run {}.", output.run_id)
    }
}

/// The lease that a credential in custody opens.
pub(super) fn lease(held: &Held) -> Id {
    Id::parse(&held.subject).expect("custody took the subject from a lease's id")
}
