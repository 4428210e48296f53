//! Claims: the durable wish of one endpoint of one component in one worktree for a port.

use crate::{Id, Named, PortNumber, WorkspaceRoot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a claim is for. No two claims share one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimIdentity {
    /// The project.
    pub project: Named,
    /// The worktree's directory, as its real path.
    pub workspace_root: WorkspaceRoot,
    /// The component, under its older name.
    pub service: Named,
    /// The component.
    pub component: Named,
    /// The endpoint of the component.
    pub endpoint: Named,
    /// The transport.
    pub transport: Transport,
}

impl ClaimIdentity {
    /// An identity of these parts.
    pub fn new(project: Named, workspace_root: WorkspaceRoot, component: Named, endpoint: Named) -> Self {
        let service = component.clone();
        ClaimIdentity { project, workspace_root, service, component, endpoint, transport: Transport::Tcp }
    }
}

impl<'de> Deserialize<'de> for ClaimIdentity {
    /// Takes `component` or its older alias `service`; both must agree where both are there.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Sent {
            project: Named,
            workspace_root: WorkspaceRoot,
            service: Option<Named>,
            component: Option<Named>,
            #[serde(default = "Named::default_endpoint")]
            endpoint: Named,
            #[serde(rename = "transport")]
            _transport: Transport,
        }
        let sent = Sent::deserialize(deserializer)?;
        let component = match (sent.component, sent.service) {
            (Some(component), Some(service)) if component != service => {
                return Err(serde::de::Error::custom("component and its alias service disagree"));
            }
            (Some(component), _) | (None, Some(component)) => component,
            (None, None) => return Err(serde::de::Error::missing_field("component")),
        };
        Ok(ClaimIdentity::new(sent.project, sent.workspace_root, component, sent.endpoint))
    }
}

/// How ports are reached. TCP is all there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
}

/// How long a claim keeps its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ClaimMode {
    /// Until it is reassigned or deleted.
    #[default]
    Sticky,
    /// For a while after its last use.
    Ephemeral,
}

impl ClaimMode {
    /// The mode as it is stored and sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClaimMode::Sticky => "sticky",
            ClaimMode::Ephemeral => "ephemeral",
        }
    }
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Its id.
    pub id: Id,
    /// What it is for.
    pub identity: ClaimIdentity,
    /// How long it keeps its port.
    pub mode: ClaimMode,
    /// The port it has, once one was confirmed, prepared or assigned.
    pub assigned_port: Option<PortNumber>,
    /// The port it would rather have.
    pub preferred_port: Option<PortNumber>,
    /// The only port it takes.
    pub exact_port: Option<PortNumber>,
    /// When an ephemeral assignment ends, UTC.
    pub assignment_expires_at: Option<String>,
    /// When it was made, UTC.
    pub created_at: String,
    /// When it was last changed, UTC.
    pub updated_at: String,
    /// When it was last used, UTC.
    pub last_used_at: String,
}
