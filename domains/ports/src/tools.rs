//! The tools of this domain.

pub(crate) mod reclaim;

use crate::{GetPort, ListPorts, PortFilter, PortRef};
use portreeve_records::{
    Classification, EvidenceNote, Id, InventoryEntry, Named, Pid, PortNumber, WorkspaceRoot,
};
use portreeve_registry::{Collection, Example, Page, Read, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Show everything known of one port, read from the kernel now: claim, pending lease, confirmed run,
    /// listening processes and whether they are proved to be the claim's, and what could not be seen.
    /// Use it before you blame a port; it never touches anything.
    pub read PortsGet = "ports_get"
}
impl Read for PortsGet {
    type Operation = GetPort;
    type Input = PortRef;
    type Output = InventoryEntry;
    fn example() -> Example<PortRef> {
        Example::of(PortRef { port: PortNumber::new(3000).expect("3000 is a port") })
    }
    fn request(input: PortRef) -> PortRef {
        input
    }
    fn output(reply: InventoryEntry) -> InventoryEntry {
        reply
    }
    fn summary(entry: &InventoryEntry) -> String {
        summarize(entry)
    }
}

/// Narrows the list of ports; all that are given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortsListFilter {
    /// Only ports of this classification.
    pub classification: Option<Classification>,
    /// Only ports with (true) or without (false) a claim.
    pub claimed: Option<bool>,
    /// Only ports with (true) or without (false) a listener.
    pub listening: Option<bool>,
    /// Only ports claimed for this project.
    pub project: Option<Named>,
    /// Only ports claimed for this worktree.
    pub workspace_root: Option<WorkspaceRoot>,
    /// Only ports claimed for this component.
    pub component: Option<Named>,
    /// Only ports claimed for this endpoint.
    pub endpoint: Option<Named>,
}

/// One port in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortItem {
    /// The port.
    pub port: PortNumber,
    /// What it is.
    pub classification: Classification,
    /// The claim's project.
    pub project: Option<Named>,
    /// The claim's worktree.
    pub workspace_root: Option<WorkspaceRoot>,
    /// The claim's component.
    pub component: Option<Named>,
    /// The claim's endpoint.
    pub endpoint: Option<Named>,
    /// Who listens, in a line.
    pub owner: Option<String>,
    /// The pending lease.
    pub lease_id: Option<Id>,
    /// The confirmed run.
    pub run_id: Option<Id>,
    /// False when something could not be read.
    pub complete: bool,
}

tool! {
    /// List the ports that are claimed, leased or listened on, by number, each with its owner in a line.
    /// Details of one: ports_get.
    pub collection PortsList = "ports_list"
}
impl Collection for PortsList {
    type Listing = ListPorts;
    type Filter = PortsListFilter;
    type Item = PortItem;
    fn example() -> Example<PortsListFilter> {
        Example::of(PortsListFilter { listening: Some(true), ..PortsListFilter::default() })
    }
    fn filter(filter: PortsListFilter) -> PortFilter {
        PortFilter {
            classification: filter.classification,
            claimed: filter.claimed,
            listening: filter.listening,
            project: filter.project,
            workspace: filter.workspace_root.map(|root| root.as_str().to_owned()),
            component: filter.component,
            endpoint: filter.endpoint,
            ..PortFilter::default()
        }
    }
    fn item(entry: InventoryEntry) -> PortItem {
        let owner = owner(&entry);
        let identity = entry.claim.map(|claim| claim.identity);
        PortItem {
            port: entry.port,
            classification: entry.classification,
            owner,
            lease_id: entry.lease.map(|lease| lease.id),
            run_id: entry.run.map(|run| run.id),
            complete: entry.evidence.complete,
            project: identity.as_ref().map(|i| i.project.clone()),
            workspace_root: identity.as_ref().map(|i| i.workspace_root.clone()),
            component: identity.as_ref().map(|i| i.component.clone()),
            endpoint: identity.map(|i| i.endpoint),
        }
    }
    fn summary(page: &Page<PortItem>) -> String {
        match page.items() {
            [] => "No port matches.".to_owned(),
            [only] => format!("1 port: {}.", only.port),
            [first, .., last] => format!("{} ports, {} to {}.", page.items().len(), first.port, last.port),
        }
    }
}

/// Who listens, in a line of at most 120 characters.
fn owner(entry: &InventoryEntry) -> Option<String> {
    let line = match entry.listeners.as_slice() {
        [] => match entry.holders.first() {
            Some(holder) => format!("a process of uid {} that can't be seen", holder.uid),
            None => match &entry.docker {
                Some(docker) if !docker.containers.is_empty() => "a container".to_owned(),
                _ => return None,
            },
        },
        [listener] => one(listener.pid, listener.command.as_deref()),
        [listener, others @ ..] => {
            format!("{} and {} more", one(listener.pid, listener.command.as_deref()), others.len())
        }
    };
    Some(line)
}

pub(crate) fn one(pid: Pid, command: Option<&str>) -> String {
    let command: String = command
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .take(80)
        .collect();
    if command.is_empty() { format!("pid {pid}") } else { format!("{command} (pid {pid})") }
}

fn summarize(entry: &InventoryEntry) -> String {
    let port = entry.port;
    let whose = entry.claim.as_ref().map(|claim| {
        let identity = &claim.identity;
        format!("{}/{} of {}", identity.component, identity.endpoint, identity.workspace_root)
    });
    let whose = whose.as_deref().unwrap_or("nobody");
    let who = owner(entry).unwrap_or_else(|| "nobody".to_owned());
    let mut text = match entry.classification {
        Classification::Available => format!("Nothing is known of port {port}."),
        Classification::Verified => format!("Port {port} is {whose}: {who} is proved to be its server."),
        Classification::Idle => format!("Port {port} is {whose}; nobody listens on it now."),
        Classification::Unclaimed => format!("Port {port} is claimed by nobody, and {who} listens on it."),
        Classification::Pending => format!("Port {port} is leased for {whose}, and not yet confirmed."),
        Classification::Conflicting if entry.listeners.is_empty() && entry.holders.is_empty() => {
            format!("Port {port} is {whose}: its process lives, but nobody listens.")
        }
        Classification::Conflicting => {
            format!("Port {port} is {whose}, but {who} listens on it and isn't proved to be its server.")
        }
        Classification::Mixed => {
            format!("Port {port} is {whose}, but some of its listeners are not its server's ({who}).")
        }
        Classification::DockerManaged => format!("Port {port} is published by a container."),
    };
    if !entry.evidence.complete {
        text.push_str(" Not everything could be read, so don't take it for free.");
    } else if entry.evidence.notes.contains(&EvidenceNote::Forwarded) {
        text.push_str(" Something answers on it without a listener here: it is forwarded.");
    }
    text
}
