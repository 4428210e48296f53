//! `leases_acquire`.

use crate::{
    AcquireLease, AcquireRequest, Acquired, Allocation, Holder, InsteadOf, LeaseStanding, ReplacementPolicy,
    WhyNot,
};
use portreeve_records::{ClaimIdentity, ClaimMode, Id, Named, Pid, PortNumber, WorkspaceRoot};
use portreeve_registry::{
    Credential, CredentialHandle, CredentialKind, Custody, Example, Grant, Secret, tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Get a TCP port for one endpoint of one component in one worktree, before you start its server.
    /// The claim keeps its port across restarts. Answers state pending with a port and a credentialHandle:
    /// start the server on that port, then call leases_confirm; or running, when the claim is served already.
    /// If it isn't the port you asked for, insteadOf says why and whose that is. Repeating is safe; no process
    /// is ever ended for it.
    pub grant LeasesAcquire = "leases_acquire"
}

/// Says what the port is for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcquireInput {
    /// The project's name.
    pub project: Named,
    /// Absolute path of the worktree's directory.
    pub workspace_root: WorkspaceRoot,
    /// The component, such as web or api.
    pub component: Named,
    /// The endpoint of the component; default if it has one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Named>,
    /// sticky (default) keeps the port; ephemeral gives it back a while after its last use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ClaimMode>,
    /// The port you would like; another is given if it is taken. Not with exactPort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_port: Option<PortNumber>,
    /// The only port that will do; a conflict if it is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_port: Option<PortNumber>,
}

/// The port, and what to do with it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcquireOutput {
    /// pending: start your server, then confirm. running: it is served already.
    pub state: LeaseStanding,
    /// The port.
    pub port: PortNumber,
    /// The claim.
    pub claim_id: Id,
    /// The lease.
    pub lease_id: Option<Id>,
    /// For leases_confirm and leases_abandon; this bridge only.
    pub credential_handle: Option<CredentialHandle>,
    /// The lease's end; renewed by itself until custodyEndsAt.
    pub expires_at: Option<String>,
    /// Until when the lease is renewed by itself.
    pub custody_ends_at: Option<String>,
    /// Why it isn't the port asked for or had before.
    pub instead_of: Option<InsteadOf>,
    /// What should be known of the exact port that was given.
    pub warning: Option<WhyNot>,
    /// The run that serves the claim.
    pub run_id: Option<Id>,
    /// Since when.
    pub since: Option<String>,
    /// Whether it listens now.
    pub listening: Option<bool>,
    /// The root of its process tree.
    pub root_pid: Option<Pid>,
}

impl Grant for LeasesAcquire {
    type Operation = AcquireLease;
    type Input = AcquireInput;
    type Output = AcquireOutput;

    fn example() -> Example<AcquireInput> {
        Example::of(AcquireInput {
            project: Named::parse("shop").expect("a name"),
            workspace_root: WorkspaceRoot::parse("/home/dev/shop-agent-a").expect("a path"),
            component: Named::parse("web").expect("a name"),
            endpoint: None,
            mode: None,
            preferred_port: PortNumber::new(3000),
            exact_port: None,
        })
    }

    fn purpose(input: &AcquireInput) -> String {
        let endpoint = input.endpoint.as_ref().map_or("default", Named::as_str);
        let parts =
            [input.project.as_str(), input.workspace_root.as_str(), input.component.as_str(), endpoint];
        parts.join("\u{0}")
    }

    fn request(input: AcquireInput, secret: Secret) -> AcquireRequest {
        let endpoint = input.endpoint.unwrap_or_else(Named::default_endpoint);
        AcquireRequest {
            claim: ClaimIdentity::new(input.project, input.workspace_root, input.component, endpoint),
            allocation: Allocation {
                mode: input.mode.unwrap_or_default(),
                preferred_port: input.preferred_port,
                exact_port: input.exact_port,
                replacement_policy: ReplacementPolicy::Never,
            },
            lease_token: Some(secret),
            answer_running: Some(true),
        }
    }

    fn changed(reply: &Acquired) -> bool {
        reply.changed.unwrap_or(true)
    }

    fn receive(reply: Acquired, custody: &mut dyn Custody) -> AcquireOutput {
        let deposit = reply.lease_id.zip(reply.lease_token).map(|(lease, secret)| {
            custody.hold(Credential {
                kind: CredentialKind::Lease,
                subject: lease.to_string(),
                group: None,
                secret,
            })
        });
        let (credential_handle, custody_ends_at) =
            deposit.map(|deposit| (deposit.handle, deposit.custody_ends_at)).unzip();
        let standing = if reply.run_id.is_some() { LeaseStanding::Running } else { LeaseStanding::Pending };
        AcquireOutput {
            state: reply.state.unwrap_or(standing),
            port: reply.port,
            claim_id: reply.claim_id,
            lease_id: reply.lease_id,
            credential_handle,
            expires_at: reply.expires_at,
            custody_ends_at,
            instead_of: reply.instead_of,
            warning: reply.warning,
            run_id: reply.run_id,
            since: reply.since,
            listening: reply.listening,
            root_pid: reply.root_pid,
        }
    }

    fn summary(output: &AcquireOutput, _: bool) -> String {
        let port = output.port;
        let mut text = match (output.state, output.listening) {
            (LeaseStanding::Running, Some(false)) => format!(
                "Port {port} is already served for this claim, but its process doesn't listen now: look at it, \
                 or end it and call again."
            ),
            (LeaseStanding::Running, _) => {
                format!("Port {port} is already served for this claim; just use it.")
            }
            (LeaseStanding::Pending, _) => format!(
                "Port {port} is held for you: start the server on it, then call leases_confirm with its pid."
            ),
        };
        if let Some(instead_of) = &output.instead_of {
            text.push(' ');
            text.push_str(&instead_of.sentence());
        }
        if output.warning == Some(WhyNot::BadPort) {
            text.push_str(" Browsers refuse to open this port.");
        }
        text
    }
}

impl InsteadOf {
    /// Why not that port, in a sentence for whoever asked for it.
    pub fn sentence(&self) -> String {
        let port = self.port;
        let holder = self.holder.as_ref().map(Holder::phrase).filter(|phrase| !phrase.is_empty());
        match self.reason {
            WhyNot::Assigned => match holder {
                Some(holder) => format!("Not {port}: it belongs to {holder}."),
                None => format!("Not {port}: it belongs to another claim."),
            },
            WhyNot::Leased => match holder {
                Some(holder) => format!("Not {port}: it is leased to {holder}."),
                None => format!("Not {port}: it is leased to another claim."),
            },
            WhyNot::Listening => match holder {
                Some(holder) => format!("Not {port}: {holder} listens on it."),
                None => format!("Not {port}: somebody listens on it."),
            },
            WhyNot::HeldUnseen => {
                format!("Not {port}: it can't be bound, and whoever holds it can't be seen from here.")
            }
            WhyNot::Forwarded => format!("Not {port}: it is forwarded elsewhere, something answers on it."),
            WhyNot::Excluded => format!("Not {port}: the settings exclude it."),
            WhyNot::BadPort => format!("Not {port}: browsers refuse to open it."),
            WhyNot::Privileged => format!("Not {port}: this user may not bind it."),
            WhyNot::SetAside => format!("Not {port}: a start on it failed with address-in-use a while ago."),
        }
    }
}

impl Holder {
    /// Who it is, in words.
    pub fn phrase(&self) -> String {
        let mut text = match (&self.component, &self.workspace_root) {
            (Some(component), Some(root)) if self.same_workspace == Some(true) => {
                format!("{component} of your own worktree {root}")
            }
            (Some(component), Some(root)) => format!("{component} of {root}"),
            (Some(component), None) => component.clone(),
            (None, Some(root)) => format!("somebody in {root}"),
            (None, None) => String::new(),
        };
        if let Some(pid) = self.pid {
            let command: String = self
                .command
                .as_deref()
                .unwrap_or_default()
                .chars()
                .filter(|c| !c.is_control())
                .take(80)
                .collect();
            let process =
                if command.is_empty() { format!("pid {pid}") } else { format!("{command}, pid {pid}") };
            text = if text.is_empty() {
                format!("a process nobody claims ({process})")
            } else {
                format!("{text} ({process})")
            };
        }
        if let (Some(since), false) = (&self.since, text.is_empty()) {
            text.push_str(&format!(", since {since}"));
        }
        text
    }
}
