//! The acts.

use super::agent::{Agent, Answered};
use super::children::{Running, this_program};
use super::server::fetch;
use super::stage::{self, Stage};
use super::told::{Ended, Told, expect};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Tells the whole story, or ends it where something is other than expected.
pub(super) fn tell(told: &mut Told) -> Result<(), Ended> {
    told.act("A daemon, and two agents in two worktrees of one project")?;
    let stage = Stage::set(told)?;
    told.say(format_args!("daemon: process {}, socket {}", stage.daemon.pid(), stage.socket.display()))?;
    match &stage.without_git {
        None => told.say("worktrees: made with git worktree add")?,
        Some(why) => told.say(format_args!("worktrees: plain directories, because {why}"))?,
    }
    let [first, second] = &stage.worktrees;
    let mut a = Agent::start("agent-a", first, &stage.socket, told)?;
    let mut b = Agent::start("agent-b", second, &stage.socket, told)?;
    for agent in [&mut a, &mut b] {
        let tools = agent.tools(told)?;
        told.say(format_args!(
            "{}: a bridge with {tools} tools, in {}",
            agent.name,
            agent.worktree.display()
        ))?;
    }
    let wanted = stage::wanted_port()?;
    if !stage::is_favourite(wanted) {
        told.say(format_args!("Port 3000 is taken on this machine, so both will want {wanted}."))?;
    }

    told.act(&format!("agent-a wants port {wanted} for web, and gets it"))?;
    let acquired = acquire(&mut a, "web", wanted, told)?;
    expect("the port of agent-a", &acquired.number("port")?, &wanted)?;
    let (server_a, run_a) = serve_and_confirm(&mut a, "web", &acquired, told)?;

    told.act(&format!("agent-b wants port {wanted} for web too, gets another, and is told why"))?;
    let acquired = acquire(&mut b, "web", wanted, told)?;
    let port_b = acquired.number("port")?;
    if port_b == wanted {
        return Err(Ended::unexpected(format!("both agents got port {wanted}")));
    }
    let owner = acquired.content.get("insteadOf").and_then(|why| why.pointer("/holder/workspaceRoot"));
    expect("whose the port is", &owner.and_then(Value::as_str), &first.to_str())?;
    let (server_b, run_b) = serve_and_confirm(&mut b, "web", &acquired, told)?;
    told.say("Both serve at once:")?;
    for (agent, port) in [(&a, wanted), (&b, port_b)] {
        let page = fetch(port).map_err(|error| Ended::unexpected(format!("port {port}: {error}")))?;
        told.say(format_args!("  http://127.0.0.1:{port} says: {page}"))?;
        expect("the page", &page, &page_of(agent, "web"))?;
    }

    told.act("agent-a forgets, and asks again: it runs already")?;
    let again = acquire(&mut a, "web", wanted, told)?;
    expect("the state", &again.string("state")?, &"running".to_owned())?;
    expect("the port", &again.number("port")?, &wanted)?;

    squatted(&mut b, wanted, told)?;

    told.act("agent-a's server dies, and it is noticed without a question")?;
    let cursor = history(&mut b, json!({"limit": 1}), told)?.string("pollCursor")?;
    server_a.crash()?;
    told.say("agent-a's server is gone, without a word (SIGKILL).")?;
    let filter = json!({"order": "asc", "afterCursor": cursor});
    let event = told.wait("the end of the run in history", || {
        let page = history(&mut b, filter.clone(), told)?;
        let items = page.content.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(items
            .into_iter()
            .find(|event| event["eventType"] == "run.released" && event["entityId"] == run_a.as_str()))
    })?;
    told.say(format_args!("history, as agent-b polls it: run.released at {}", event["occurredAt"]))?;
    let restarted = acquire(&mut a, "web", wanted, told)?;
    expect("the port after the crash", &restarted.number("port")?, &wanted)?;
    let (server_a, run_a) = serve_and_confirm(&mut a, "web", &restarted, told)?;

    told.act("The command line and the bridge show the same record")?;
    let by_bridge = b.call("ports_get", json!({"port": wanted}), told)?;
    told.say(format_args!("ports_get: {}", by_bridge.summary()))?;
    let by_command = stage.command(&["ports", "inspect", &wanted.to_string()])?;
    told.say(format_args!("portreeve ports inspect {wanted}: {}", by_command["data"]["classification"]))?;
    expect("the record", &plain(by_bridge.content), &plain_value(by_command["data"].clone()))?;
    told.say("They are equal, field by field.")?;

    told.act("Everything is stopped and given back")?;
    for (agent, server, run) in [(&mut a, server_a, run_a), (&mut b, server_b, run_b)] {
        let refused = agent.call("leases_release", json!({"runId": run}), told)?;
        expect("a release while the server lives is refused", &refused.refused, &true)?;
        server.ends_well(told)?;
        let released = agent.call("leases_release", json!({"runId": run}), told)?;
        expect("the release is refused", &released.refused, &false)?;
        told.say(format_args!("{}: its server has ended. {}", agent.name, released.summary()))?;
    }
    a.end(told)?;
    b.end(told)?;
    told.say("Both bridges ended with their hosts.")?;
    stage.strike(told)?;
    told.say("The daemon is stopped, and its home removed.")
}

/// A process that asks nobody takes a port, and an agent that would like it is told about it.
fn squatted(agent: &mut Agent, wanted: u16, told: &mut Told) -> Result<(), Ended> {
    let port = stage::another_port(wanted)?;
    told.act(&format!("Somebody else takes port {port} without asking"))?;
    let elsewhere = std::env::temp_dir();
    let squatter = server(port, "I asked nobody.", &elsewhere, "a squatter")?;
    let pid = squatter.pid();
    told.wait("the squatter's page", || Ok(fetch(port).ok()))?;
    let seen = agent.call("ports_get", json!({"port": port}), told)?;
    told.say(format_args!("ports_get: {}", seen.summary()))?;
    expect("the classification", &seen.string("classification")?, &"unclaimed".to_owned())?;
    let acquired = acquire(agent, "api", port, told)?;
    if acquired.number("port")? == port {
        return Err(Ended::unexpected(format!(
            "port {port} was given away while process {pid} listens on it"
        )));
    }
    let why = acquired.content.get("insteadOf").cloned().unwrap_or_default();
    expect("the reason", &why["reason"], &"listening".into())?;
    expect("the holder", &why.pointer("/holder/pid").and_then(Value::as_u64), &Some(u64::from(pid)))?;
    let handle = acquired.string("credentialHandle")?;
    let reason = json!({"credentialHandle": handle, "reason": "client-cancelled"});
    let abandoned = agent.call("leases_abandon", reason, told)?;
    expect("the abandon is refused", &abandoned.refused, &false)?;
    told.say(format_args!("{} doesn't need it after all: {}", agent.name, abandoned.summary()))?;
    squatter.ends_well(told)
}

fn acquire(agent: &mut Agent, component: &str, wanted: u16, told: &mut Told) -> Result<Answered, Ended> {
    let asked = json!({"project": "shop", "workspaceRoot": agent.worktree, "component": component,
        "preferredPort": wanted});
    told.say(format_args!(
        "{} calls leases_acquire (component {component}, preferredPort {wanted})",
        agent.name
    ))?;
    let answered = agent.call("leases_acquire", asked, told)?;
    expect(&format!("leases_acquire is refused ({})", answered.text), &answered.refused, &false)?;
    told.say(format_args!("  {}", answered.summary()))?;
    Ok(answered)
}

/// Starts the server that was asked for, and confirms it once it listens.
fn serve_and_confirm(
    agent: &mut Agent,
    component: &str,
    acquired: &Answered,
    told: &mut Told,
) -> Result<(Running, String), Ended> {
    let port = acquired.number("port")?;
    let handle = acquired.string("credentialHandle")?;
    let what = format!("the server of {}", agent.name);
    let mut server = server(port, &page_of(agent, component), &agent.worktree, &what)?;
    let pid = server.pid();
    told.say(format_args!("{} starts its server on port {port}: process {pid}", agent.name))?;
    let confirmed = told.wait("the confirm", || {
        if let Some(status) = server.ended()? {
            return Err(Ended::unexpected(format!("the server of {} ended: {status}", agent.name)));
        }
        let answered =
            agent.call("leases_confirm", json!({"credentialHandle": handle, "rootPid": pid}), told)?;
        // Until it listens, a confirm is refused and can be repeated.
        Ok((!answered.refused).then_some(answered))
    })?;
    told.say(format_args!("  leases_confirm: {}", confirmed.summary()))?;
    let run = confirmed.string("runId")?;
    Ok((server, run))
}

fn page_of(agent: &Agent, component: &str) -> String {
    format!("{component} of {}", agent.worktree.display())
}

fn server(port: u16, page: &str, directory: &Path, what: &str) -> Result<Running, Ended> {
    let mut command = this_program()?;
    command.current_dir(directory);
    command.args(["tour-server", "--port", &port.to_string(), "--page", page]);
    Running::start(command, what)
}

fn history(agent: &mut Agent, filter: Value, told: &Told) -> Result<Answered, Ended> {
    let page = agent.call("history_list", filter, told)?;
    expect(&format!("history_list is refused ({})", page.text), &page.refused, &false)?;
    Ok(page)
}

/// A record without what the bridge adds (`summary`) and leaves out (null).
fn plain(mut content: Map<String, Value>) -> Value {
    content.remove("summary");
    plain_value(Value::Object(content))
}

fn plain_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, plain_value(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(plain_value).collect()),
        other => other,
    }
}
