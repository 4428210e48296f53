//! `ports_reclaim_preview` and `ports_reclaim_execute`.

use super::one;
use crate::{
    LauncherAction, PortRef, ReclaimAction, ReclaimActionRequest, ReclaimObserved, ReclaimOutcome,
    ReclaimPolicy, ReclaimProposal, Reclamation, SentSignal,
};
use portreeve_records::{Classification, Id, Listener, Named, Pid, PortNumber, WorkspaceRoot};
use portreeve_registry::{Change, Effect, Example, Executed, Receipt, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Get a port back by ending the server that a confirmed run proves to be of your own worktree: SIGTERM
    /// to its process tree, and SIGKILL only under force-after-grace. It never ends a stranger's process, a
    /// container, the agent's host, or what merely connects to the port.
    pub change PortsReclaim = "ports_reclaim"
}

/// Which port, whose, and how far to go.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimInput {
    /// The port.
    pub port: PortNumber,
    /// The worktree whose server it is; another's is refused.
    pub workspace_root: WorkspaceRoot,
    /// How far it may go; graceful by default.
    #[serde(default)]
    pub policy: Option<ReclaimPolicyInput>,
}

/// How far ending a process may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ReclaimPolicyInput {
    /// SIGTERM, and no more.
    #[default]
    Graceful,
    /// SIGTERM, and SIGKILL once the grace has passed.
    ForceAfterGrace,
}

/// A process that would be ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TargetItem {
    /// Its id.
    pub pid: Pid,
    /// Its command.
    pub command: String,
    /// Whether it listens on the port.
    pub listens: bool,
}

/// What would happen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimShown {
    /// The port.
    pub port: PortNumber,
    /// How far it may go.
    pub policy: ReclaimPolicy,
    /// What would come of it.
    pub outcome: ReclaimOutcome,
    /// Why, where the outcome doesn't say it all.
    pub reason: Option<String>,
    /// What is left to whoever launched a container.
    pub launcher_action: Option<LauncherAction>,
    /// What the port is.
    pub classification: Classification,
    /// Whose it is: the project.
    pub project: Option<Named>,
    /// The worktree.
    pub workspace_root: Option<WorkspaceRoot>,
    /// The component.
    pub component: Option<Named>,
    /// The run.
    pub run_id: Option<Id>,
    /// Since when, UTC.
    pub since: Option<String>,
    /// Who confirmed it, by their own account.
    pub confirmed_by: Option<String>,
    /// The processes that would be ended, at most 20 of them.
    #[schemars(length(max = 20))]
    pub targets: Vec<TargetItem>,
    /// How many they are.
    pub target_count: usize,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimDone {
    /// Its id, under which history tells of it.
    pub operation_id: Id,
    /// The port.
    pub port: PortNumber,
    /// What came of it.
    pub outcome: ReclaimOutcome,
    /// Why, where the outcome doesn't say it all.
    pub reason: Option<String>,
    /// What is left to whoever launched a container.
    pub launcher_action: Option<LauncherAction>,
    /// What was sent, at most 40 of it.
    #[schemars(length(max = 40))]
    pub signals: Vec<SentSignal>,
}

impl Change for PortsReclaim {
    const EFFECT: Effect = Effect::Destructive;
    type Action = ReclaimAction;
    type Input = ReclaimInput;
    type Shown = ReclaimShown;
    type Done = ReclaimDone;

    fn example() -> Example<ReclaimInput> {
        Example::of(ReclaimInput {
            port: PortNumber::new(3000).expect("3000 is a port"),
            workspace_root: WorkspaceRoot::parse("/home/me/shop").expect("an absolute path"),
            policy: Some(ReclaimPolicyInput::Graceful),
        })
    }
    fn example_target() -> PortRef {
        PortRef { port: PortNumber::new(3000).expect("3000 is a port") }
    }
    fn request(input: ReclaimInput) -> ReclaimActionRequest {
        let policy = match input.policy.unwrap_or_default() {
            ReclaimPolicyInput::Graceful => ReclaimPolicy::Graceful,
            ReclaimPolicyInput::ForceAfterGrace => ReclaimPolicy::ForceAfterGrace,
        };
        ReclaimActionRequest { port: input.port, policy, workspace_root: Some(input.workspace_root) }
    }
    fn shown(receipt: Receipt<ReclaimProposal, ReclaimObserved>) -> ReclaimShown {
        let seen = receipt.observed;
        let identity = seen.inventory.claim.map(|claim| claim.identity);
        let run = seen.inventory.run;
        ReclaimShown {
            port: seen.port,
            policy: seen.policy,
            outcome: seen.outcome,
            reason: seen.reason,
            launcher_action: seen.launcher_action,
            classification: seen.inventory.classification,
            project: identity.as_ref().map(|i| i.project.clone()),
            workspace_root: identity.as_ref().map(|i| i.workspace_root.clone()),
            component: identity.map(|i| i.component),
            run_id: run.as_ref().map(|run| run.id),
            since: run.map(|run| run.confirmed_at),
            confirmed_by: seen.confirmed_by,
            target_count: seen.targets.len(),
            targets: seen.targets.iter().take(20).map(item).collect(),
        }
    }
    fn done(result: Reclamation) -> ReclaimDone {
        let mut signals = result.signals;
        signals.truncate(40);
        ReclaimDone {
            operation_id: result.operation_id,
            port: result.port,
            outcome: result.outcome,
            reason: result.reason,
            launcher_action: result.launcher_action,
            signals,
        }
    }
    fn preview_summary(shown: &ReclaimShown) -> String {
        let port = shown.port;
        let mut text = match (&shown.workspace_root, &shown.project, &shown.component) {
            (Some(root), Some(project), Some(component)) => {
                let label = shown.confirmed_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
                let since = shown.since.as_ref().map(|at| format!(", since {at}")).unwrap_or_default();
                format!("Port {port} is {component} of {project} in {root}{label}{since}. ")
            }
            _ => format!("Port {port} is nobody's claim. "),
        };
        let reason = shown.reason.as_deref().unwrap_or("no reason");
        text.push_str(&match shown.outcome {
            ReclaimOutcome::AlreadyFree => "Nobody listens on it: there is nothing to end.".to_owned(),
            ReclaimOutcome::LauncherActionRequired => {
                "A container has it: whoever launched it has to stop it.".to_owned()
            }
            ReclaimOutcome::Refused => format!("Reclaiming it would be refused: {reason}."),
            _ => {
                let whom: Vec<String> =
                    shown.targets.iter().take(3).map(|t| one(t.pid, Some(&t.command))).collect();
                let more = shown.target_count.saturating_sub(whom.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let force = match shown.policy {
                    ReclaimPolicy::ForceAfterGrace => ", then SIGKILL after the grace",
                    _ => "",
                };
                format!("Execute sends SIGTERM to {}{more}{force}.", whom.join(", "))
            }
        });
        text
    }
    fn execute_summary(done: &Executed<ReclaimDone>) -> String {
        let result = &done.result;
        let port = result.port;
        let reason = result.reason.as_deref().unwrap_or("no reason given");
        let text = match result.outcome {
            ReclaimOutcome::AlreadyFree => format!("Port {port} was free already."),
            ReclaimOutcome::Terminated => {
                format!("Port {port} is free: its server ended, after {} signals.", result.signals.len())
            }
            ReclaimOutcome::Timeout => format!("Port {port} is not free: {reason}."),
            ReclaimOutcome::LauncherActionRequired => {
                format!("Nothing was ended: a container has port {port}; whoever launched it has to stop it.")
            }
            ReclaimOutcome::Refused | ReclaimOutcome::WouldTerminate => {
                format!("Nothing was ended on port {port}: {reason}.")
            }
        };
        if done.replayed { format!("As recorded: {text}") } else { text }
    }
}

fn item(listener: &Listener) -> TargetItem {
    let command = listener.command.clone().unwrap_or_default();
    TargetItem {
        pid: listener.pid,
        command: command.chars().filter(|c| !c.is_control()).take(80).collect(),
        listens: !listener.names.is_empty(),
    }
}
