//! A world like the one that the exchanges were recorded in, and what stands in it for what was recorded.

use crate::shape::{is_pid_key, is_port_key};
use crate::support::check_envelope;
use portreeve_test_harness::machine::{self, Daemon, Server, free_port, raw, until, worktree};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

/// One recorded exchange.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Exchange {
    pub(crate) step: String,
    pub(crate) request: String,
    pub(crate) body: Value,
    pub(crate) status: u16,
    pub(crate) reply: Value,
}

/// This world's side of what was recorded.
#[derive(Default)]
pub(crate) struct Names {
    texts: BTreeMap<String, String>,
    pub(crate) ports: BTreeMap<u64, u64>,
    pids: BTreeMap<u64, u64>,
}

impl Names {
    /// Walks both replies and notes what stands for what.
    fn learn(&mut self, key: &str, recorded: &Value, came: &Value) {
        match (recorded, came) {
            (Value::Object(a), Value::Object(b)) => {
                a.iter().for_each(|(key, value)| {
                    if let Some(other) = b.get(key) {
                        self.learn(key, value, other);
                    }
                });
            }
            (Value::Array(a), Value::Array(b)) => {
                a.iter().zip(b).for_each(|(value, other)| self.learn(key, value, other));
            }
            (Value::String(a), Value::String(b)) if key != "message" => {
                self.texts.entry(a.clone()).or_insert_with(|| b.clone());
            }
            (Value::Number(a), Value::Number(b)) => {
                let (Some(a), Some(b)) = (a.as_u64(), b.as_u64()) else { return };
                if is_port_key(key) {
                    self.ports.entry(a).or_insert(b);
                } else if is_pid_key(key) {
                    self.pids.entry(a).or_insert(b);
                }
            }
            _ => {}
        }
    }

    fn rewrite(&self, key: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), self.rewrite(key, value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.rewrite(key, item)).collect(),
            Value::String(text) => self.texts.get(text).unwrap_or(text).as_str().into(),
            Value::Number(n) if is_port_key(key) => {
                n.as_u64().and_then(|n| self.ports.get(&n)).map_or_else(|| value.clone(), |n| json!(n))
            }
            Value::Number(n) if is_pid_key(key) => {
                n.as_u64().and_then(|n| self.pids.get(&n)).map_or_else(|| value.clone(), |n| json!(n))
            }
            other => other.clone(),
        }
    }

    fn rewrite_target(&self, target: &str) -> String {
        let known = |part: &str| {
            let port = part.parse().ok().and_then(|port: u64| self.ports.get(&port)).map(u64::to_string);
            port.or_else(|| self.texts.get(part).cloned()).unwrap_or_else(|| part.to_owned())
        };
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let path: Vec<String> = path.split('/').map(known).collect();
        let query = query.map(|query| {
            let pairs: Vec<String> = query
                .split('&')
                .map(|pair| match pair.split_once('=') {
                    Some((name, value)) => format!("{name}={}", known(value)),
                    None => pair.to_owned(),
                })
                .collect();
            format!("?{}", pairs.join("&"))
        });
        path.join("/") + &query.unwrap_or_default()
    }
}

/// One daemon and what was learned of it.
pub(crate) struct World {
    daemon: Daemon,
    pub(crate) names: Names,
    workspace: tempfile::TempDir,
    servers: Vec<Server>,
    bystander: Child,
}

impl World {
    pub(crate) fn new() -> World {
        let workspace = worktree();
        let bystander = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat starts");
        let mut names = Names::default();
        let path = workspace.path().canonicalize().expect("it is there");
        names.texts.insert("/home/dev/shop-agent-b".into(), path.display().to_string());
        // Whoever recorded named a root that was there and served nothing.
        names.pids.insert(1, bystander.id().into());
        World { daemon: Daemon::start(), names, workspace, servers: Vec::new(), bystander }
    }

    /// Asks as it was recorded and returns the reply.
    pub(crate) fn play(&mut self, exchange: &Exchange) -> (u16, Value) {
        let (method, target) = exchange.request.split_once(' ').expect("a method and a target");
        let target = self.names.rewrite_target(target);
        let body = match &exchange.body {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            body => Some(World::within_reach(self.names.rewrite("", body)).to_string()),
        };
        let body = body.as_deref().map(str::as_bytes);
        let (status, reply) = raw(self.daemon.socket(), method, &target, body).expect("an answer");
        let reply = serde_json::from_slice(&reply).expect("every reply is JSON");
        check_envelope(status, &reply);
        self.names.learn("", &exchange.reply, &reply);
        (status, reply)
    }

    /// Existing clients ask for a capability that is announced once stacks are served too; what is served already is
    /// played without it.
    fn within_reach(mut body: Value) -> Value {
        if let Some(required) = body.pointer_mut("/client/requiredCapabilities").and_then(Value::as_array_mut)
        {
            required.retain(|capability| capability != "mcp-foundations-v1");
        }
        body
    }

    fn origin(body: Value) -> Value {
        let mut body = body;
        body["client"] = machine::client();
        body["client"]["origin"] = json!({
            "kind": "mcp", "runId": "4e54cf40-f95c-44ae-8bc5-e1b16101633a", "label": "recorder",
        });
        body
    }

    fn serve(&mut self, port: u16) -> u32 {
        let server = Server::listen("127.0.0.1", port, self.workspace.path());
        let pid = server.pid();
        self.servers.push(server);
        pid
    }

    /// What happened between the recorded exchanges without being recorded.
    pub(crate) fn before(&mut self, step: &str) {
        match step {
            "port-inspect-pending" => {
                let port = free_port();
                let mut body = machine::acquire(self.workspace.path(), "web", json!({"preferredPort": port}));
                body["claim"]["project"] = "demo".into();
                let lease = self.daemon.post("/v1/leases/acquire", World::origin(body));
                assert_eq!(lease["port"], port);
                self.names.learn(
                    "",
                    &json!({
                        "claimId": "e454a89f-9819-43e2-967a-8780f22443b4",
                        "leaseId": "72278881-46d6-405c-9309-d0096845761c",
                        "leaseToken": "ASAuIQ_SR9wfql0sFAxX05gCBsyov-J8u8U76i4akbU",
                        "port": 3000,
                    }),
                    &lease,
                );
            }
            "lease-confirm" => {
                let port = u16::try_from(self.names.ports[&3000]).expect("a port");
                let pid = self.serve(port);
                self.names.pids.insert(89, pid.into());
            }
            "run-release-after-reclaim" => {
                self.servers.clear();
                until("the end of the run is noticed", || {
                    let page = self.daemon.get("/v1/history?eventType=run.released");
                    (page["items"].as_array().map(Vec::len) == Some(1)).then_some(())
                });
            }
            "raw-settings-preview-idem-1" => {
                let body = World::origin(json!({"updates": {"leaseTtlMilliseconds": 20_000}}));
                self.daemon.post("/v1/config", body);
            }
            "claim-delete-preview" => {
                let mut body = machine::acquire(self.workspace.path(), "abandon", json!({}));
                body["claim"]["project"] = "demo".into();
                let lease = self.daemon.post("/v1/leases/acquire", World::origin(body));
                let target = format!("/v1/leases/{}/abandon", lease["leaseId"].as_str().expect("an id"));
                let body = json!({"leaseToken": lease["leaseToken"], "reason": "client-cancelled"});
                self.daemon.post(&target, World::origin(body));
                self.names.learn("", &json!({"claimId": "7ae3966b-f2a0-45f1-9b24-e7f7c83f6397"}), &lease);
            }
            "settings-update-execute" => {
                let body = World::origin(json!({"updates": {"leaseTtlMilliseconds": 20_000}}));
                let receipt = self.daemon.post("/v1/actions/settings/preview", body);
                self.names.learn("", &json!({"receiptId": "a66f44da-c273-43ef-9a12-c0ce8252933e"}), &receipt);
            }
            "history-list-filter" => {
                for component in ["api", "worker"] {
                    let body = machine::acquire(
                        self.workspace.path(),
                        component,
                        json!({"preferredPort": free_port()}),
                    );
                    let lease = self.daemon.post("/v1/leases/acquire", World::origin(body));
                    let port = lease["port"].as_u64().and_then(|p| u16::try_from(p).ok()).expect("a port");
                    let pid = self.serve(port);
                    let target = format!("/v1/leases/{}/confirm", lease["leaseId"].as_str().expect("an id"));
                    let body = json!({"leaseToken": lease["leaseToken"], "rootPid": pid});
                    self.daemon.post(&target, World::origin(body));
                }
            }
            "raw-logs" => {
                let unknown = "/v1/leases/f66c5735-0aa1-40f7-8d61-1de80e95b24a/renew";
                for method in ["POST", "POST", "POST", "GET", "POST"] {
                    let (target, body) = match method {
                        "GET" => ("/v1/history?afterCursor=%21", None),
                        _ => (unknown, Some(json!({"leaseToken": "A".repeat(43)}))),
                    };
                    self.daemon.refused(method, target, body);
                }
            }
            _ => {}
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.bystander.kill());
        drop(self.bystander.wait());
    }
}
