//! The same, as an agent's host does it: through a bridge.

use crate::support::{Scene, Temper, lives};
use portreeve_test_harness::machine::{portreeve, worktree};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Bridge {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Bridge {
    fn start(scene: &Scene) -> Bridge {
        let mut child = Command::new(portreeve())
            .args(["mcp", "serve", "--label", "codex-shop", "--socket"])
            .arg(scene.daemon.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the bridge starts");
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut bridge = Bridge { child, stdin, stdout: BufReader::new(stdout), next: 0 };
        bridge.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "host", "version": "1"}}),
        );
        bridge.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        bridge
    }

    fn send(&mut self, message: Value) {
        writeln!(self.stdin, "{message}").expect("the bridge reads");
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        self.send(json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the bridge answers");
        serde_json::from_str::<Value>(&line).expect("JSON")["result"].clone()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The structured content of a success.
    fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// The record of a failure.
    fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["_meta"]["portreeve/error"].clone()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn no_execute_without_a_preview_and_with_one_it_does_just_that() {
    let scene = Scene::new();
    let mut bridge = Bridge::start(&scene);
    let record = bridge.refused("settings_update_execute", json!({}));
    assert_eq!(record["class"], "policy.preview_required");
    let record = bridge
        .refused("settings_update_execute", json!({"receiptId": "0198c0de-0000-7000-8000-000000000000"}));
    assert_eq!(record["class"], "receipt.unknown");
    assert_eq!(record["nextStep"]["tool"], "settings_update_preview");
    let shown = bridge.done("settings_update_preview", json!({"updates": {"leaseTtlMilliseconds": 20_000}}));
    assert_eq!(shown["current"]["leaseTtlMilliseconds"], 15_000);
    assert_eq!(shown["proposed"]["leaseTtlMilliseconds"], 20_000);
    let summary = shown["summary"].as_str().unwrap();
    assert!(summary.contains("leaseTtlMilliseconds: 15000 to 20000"), "{summary}");
    let receipt = json!({"receiptId": shown["receiptId"]});
    let done = bridge.done("settings_update_execute", receipt.clone());
    assert_eq!((&done["changed"], &done["replayed"]), (&json!(true), &json!(false)));
    let again = bridge.done("settings_update_execute", receipt);
    assert_eq!((&again["changed"], &again["replayed"]), (&json!(false), &json!(true)));
    // An execute takes the receipt and the target, nothing else.
    let more = json!({"receiptId": shown["receiptId"], "updates": {}});
    assert_eq!(bridge.refused("settings_update_execute", more)["class"], "bridge.invalid_arguments");
}

#[test]
fn an_agent_reclaims_its_own_worktrees_port_and_no_others() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Plain);
    let mut bridge = Bridge::start(&scene);
    let stranger = worktree();
    let foreign = json!({"port": run.port, "workspaceRoot": stranger.path()});
    let record = bridge.refused("ports_reclaim_preview", foreign);
    assert_eq!(record["class"], "policy.refused");
    assert_eq!(
        bridge.refused("ports_reclaim_preview", json!({"port": run.port}))["class"],
        "bridge.invalid_arguments"
    );
    let shown =
        bridge.done("ports_reclaim_preview", json!({"port": run.port, "workspaceRoot": scene.root()}));
    let summary = shown["summary"].as_str().unwrap();
    assert!(
        summary.starts_with(&format!("Port {} is web of shop in {}", run.port, scene.root())),
        "{summary}"
    );
    assert_eq!(shown["targets"][0]["pid"], run.server.pid());
    assert!(lives(run.server.pid()));
    let wrong = json!({"receiptId": shown["receiptId"], "port": 1});
    assert_eq!(bridge.refused("ports_reclaim_execute", wrong)["class"], "receipt.mismatch");
    let execute = json!({"receiptId": shown["receiptId"], "port": run.port});
    let done = bridge.done("ports_reclaim_execute", execute);
    assert_eq!(done["outcome"], "terminated");
    assert!(!lives(run.server.pid()));
}

#[test]
fn claims_are_reassigned_deleted_and_pruned_by_an_agent() {
    let scene = Scene::new();
    let claimed = scene.claim("web");
    let mut bridge = Bridge::start(&scene);
    let port = portreeve_test_harness::machine::free_port();
    let shown = bridge.done("claims_reassign_preview", json!({"claimId": claimed.claim, "exactPort": port}));
    assert_eq!((&shown["claim"]["assignedPort"], &shown["port"]), (&json!(claimed.port), &json!(port)));
    let target = |shown: &Value| json!({"receiptId": shown["receiptId"], "claimId": claimed.claim});
    assert_eq!(bridge.done("claims_reassign_execute", target(&shown))["assignedPort"], port);
    let shown = bridge.done("claims_delete_preview", json!({"claimId": claimed.claim}));
    assert_eq!(shown["classification"], "idle");
    assert_eq!(bridge.done("claims_delete_execute", target(&shown))["deleted"], true);
    let shown = bridge.done("claims_prune_preview", json!({}));
    assert_eq!(shown["totals"], json!({"candidates": 0, "deleted": 0, "skipped": 0}));
    let done = bridge.done("claims_prune_execute", json!({"receiptId": shown["receiptId"]}));
    assert_eq!(done["deletedClaimIds"], json!([]));
}

#[test]
fn unsafe_eviction_is_out_of_an_agents_reach() {
    let scene = Scene::new();
    let mut bridge = Bridge::start(&scene);
    let tools = bridge.ask("tools/list", json!({}))["tools"].as_array().unwrap().clone();
    assert!(!tools.is_empty());
    assert!(tools.iter().all(|tool| !tool["name"].as_str().unwrap().contains("evict")));
    let registry = portreeve_domains::load().unwrap();
    let reached = |tool: &portreeve_registry::Advertised| {
        tool.face().operation.is_some_and(|(_, path)| path.ends_with("/unsafe-evict"))
    };
    assert!(!registry.iter().any(reached));
}
