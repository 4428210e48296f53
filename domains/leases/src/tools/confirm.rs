//! `leases_confirm`.

use crate::{ConfirmLease, ConfirmRequest, Confirmed};
use portreeve_records::{Id, Pid};
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

impl Spend for LeasesConfirm {
    type Operation = ConfirmLease;
    type Input = ConfirmInput;
    type Output = Confirmed;
    const SETTLES: bool = true;

    fn example() -> Example<ConfirmInput> {
        Example::of(ConfirmInput {
            credential_handle: CredentialHandle::example("cred_0000000000000000000000000000000"),
            root_pid: Pid::new(4242).expect("a pid"),
        })
    }
    fn request(input: ConfirmInput, held: Held) -> ConfirmRequest {
        ConfirmRequest { lease_id: lease(&held), lease_token: held.secret, root_pid: input.root_pid }
    }
    fn changed(_: &Confirmed) -> bool {
        true
    }
    fn pending(_: &Confirmed) -> Option<Vec<String>> {
        None
    }
    fn output(reply: Confirmed) -> Confirmed {
        reply
    }
    fn summary(output: &Confirmed, _: bool) -> String {
        let place = output.addresses.first().map_or_else(|| format!("port {}", output.port), Clone::clone);
        format!("Proved: your server listens on {place}. It is run {}.", output.run_id)
    }
}

/// The lease that a credential in custody opens.
pub(super) fn lease(held: &Held) -> Id {
    Id::parse(&held.subject).expect("custody took the subject from a lease's id")
}
