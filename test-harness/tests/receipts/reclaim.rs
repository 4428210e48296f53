//! Reclaim: what it says, what it refuses, and what it never touches.

use crate::support::{Run, Scene, Started, Temper, changes, class, id, listens, lives, timed};
use portreeve_test_harness::machine::{Daemon, ask, client, free_port, portreeve, until, worktree};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

fn reclaim(port: u16) -> String {
    format!("ports/{port}/reclaim")
}

fn pids(targets: &Value) -> Vec<u64> {
    targets.as_array().unwrap().iter().map(|t| t["pid"].as_u64().unwrap()).collect()
}

#[test]
fn a_preview_tells_whose_server_it_is_and_an_execute_ends_it() {
    let scene = Scene::new();
    let mut run = scene.serve("web", Temper::Plain);
    let before = scene.daemon.tables();
    let what = reclaim(run.port);
    let receipt = scene.preview(&what, json!({"policy": "graceful"}));
    assert_eq!(scene.daemon.tables(), before);
    assert_eq!(receipt["action"], "port.reclaim");
    assert_eq!(receipt["target"], json!({"type": "port", "id": run.port.to_string()}));
    assert_eq!(receipt["proposal"], json!({"policy": "graceful"}));
    let seen = &receipt["observed"];
    assert_eq!(seen["outcome"], "would-terminate");
    assert_eq!((&seen["reason"], &seen["launcherAction"]), (&Value::Null, &Value::Null));
    assert_eq!((&seen["port"], &seen["policy"]), (&json!(run.port), &json!("graceful")));
    let target = &seen["targets"][0];
    assert_eq!(target, &seen["inventory"]["listeners"][0]);
    assert_eq!(
        target["ownership"],
        json!({"verified": true, "reason": "verified", "lineage": [run.server.pid()]})
    );
    assert_eq!(seen["inventory"]["classification"], "verified");
    let done = scene.execute(&what, &receipt);
    assert_eq!((&done["changed"], &done["replayed"]), (&json!(true), &json!(false)));
    let result = &done["result"];
    assert_eq!(result["outcome"], "terminated");
    let fields: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 10, "{fields:?}");
    assert_eq!((&result["operation"], &result["dryRun"]), (&json!("reclaim"), &json!(false)));
    assert_eq!(result["targets"], seen["targets"]);
    assert_eq!(result["signals"][0]["pid"], run.server.pid());
    assert_eq!(result["signals"][0]["signal"], "SIGTERM");
    assert!(run.server.ended() && !listens(run.port));
    // The run is over and the claim keeps its port.
    let released = scene.daemon.post(&format!("/v1/runs/{}/release", run.run), json!({}));
    assert_eq!(released["changed"], false);
    let entry = scene.daemon.get(&format!("/v1/ports/{}", run.port));
    assert_eq!((&entry["classification"], &entry["claim"]["id"]), (&json!("idle"), &json!(run.claim)));
    // Again, it is the recorded result.
    let again = scene.execute(&what, &receipt);
    assert_eq!(again, json!({"changed": false, "replayed": true, "result": result}));
}

#[test]
fn history_tells_it_in_order() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Plain);
    let done = scene.daemon.post(&format!("/v1/ports/{}/reclaim", run.port), json!({"policy": "graceful"}));
    let told = |operation: &Value| -> Vec<Value> {
        let path = format!(
            "/v1/history?entityType=reclamation&order=asc&afterCursor=&entityId={}",
            operation["operationId"].as_str().unwrap()
        );
        scene.daemon.get(&path)["items"].as_array().unwrap().clone()
    };
    let events = told(&done);
    let types: Vec<&str> = events.iter().map(|e| e["eventType"].as_str().unwrap()).collect();
    let prefix = |name: &str| format!("reclamation.{name}");
    assert_eq!(types, ["requested", "signal-authorized", "signal-sent", "completed"].map(prefix));
    assert_eq!(events[0]["payload"]["evidence"]["run"], run.run);
    assert_eq!(events[1]["payload"]["fingerprint"], done["targets"][0]["process"]);
    assert_eq!(events[2]["payload"], done["signals"][0]);
    assert_eq!(events[3]["payload"], done);
    // Dry runs and refusals, as far as they get.
    let dry = json!({"policy": "graceful", "dryRun": true});
    let dry = scene.daemon.post(&format!("/v1/ports/{}/reclaim", run.port), dry);
    assert_eq!((&dry["outcome"], &dry["dryRun"]), (&json!("already-free"), &json!(true)));
    let types: Vec<Value> = told(&dry).iter().map(|e| e["eventType"].clone()).collect();
    assert_eq!(types, ["reclamation.requested", "reclamation.completed"]);
}

#[test]
fn a_port_of_another_worktree_is_refused_by_name() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Plain);
    let stranger = worktree();
    let body = json!({"policy": "graceful", "workspaceRoot": stranger.path()});
    let before = scene.daemon.tables();
    let path = format!("/v1/actions/{}/preview", reclaim(run.port));
    let (status, error) = scene.daemon.refused("POST", &path, Some(body));
    assert_eq!((status, class(&error)), (409, "policy.refused"));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&scene.root()) && message.contains("web of shop"), "{message}");
    assert_eq!(error["details"]["workspaceRoot"], scene.root());
    assert_eq!(scene.daemon.tables(), before);
    let own = json!({"policy": "graceful", "workspaceRoot": scene.tree.path()});
    assert_eq!(scene.preview(&reclaim(run.port), own)["observed"]["outcome"], "would-terminate");
}

/// Both the preview's outcome and the act's, which must agree and leave the process alone.
fn refusal(scene: &Scene, port: u16, policy: &str) -> (String, String) {
    let receipt = scene.preview(&reclaim(port), json!({"policy": policy}));
    let seen = &receipt["observed"];
    let done = scene.execute(&reclaim(port), &receipt);
    assert_eq!(done["changed"], true, "every first execution says so");
    let direct = scene.daemon.post(&format!("/v1/ports/{port}/reclaim"), json!({"policy": policy}));
    for result in [&done["result"], &direct] {
        assert_eq!((&result["outcome"], &result["reason"]), (&seen["outcome"], &seen["reason"]));
        assert_eq!(result["signals"], json!([]));
    }
    let text = |value: &Value| value.as_str().unwrap_or("null").to_owned();
    (text(&seen["outcome"]), text(&seen["reason"]))
}

#[test]
fn what_no_run_proves_is_refused() {
    let scene = Scene::new();
    let port = free_port();
    let mut stranger = Started::listen(port, Temper::Plain, scene.tree.path());
    assert_eq!(refusal(&scene, port, "graceful"), ("refused".into(), "ownership-unverified".into()));
    assert!(!stranger.ended());
}

#[test]
fn a_port_that_a_stranger_shares_is_refused_as_mixed() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Twin);
    let mut stranger = Started::listen(run.port, Temper::Twin, scene.tree.path());
    assert_eq!(refusal(&scene, run.port, "force-after-grace"), ("refused".into(), "ownership-mixed".into()));
    assert!(!stranger.ended() && lives(run.server.pid()));
}

#[test]
fn policy_never_and_a_free_port_end_nobody() {
    let scene = Scene::new();
    let mut run = scene.serve("web", Temper::Plain);
    assert_eq!(refusal(&scene, run.port, "never"), ("refused".into(), "replacement-policy-never".into()));
    assert!(!run.server.ended());
    assert_eq!(refusal(&scene, free_port(), "graceful"), ("already-free".into(), "null".into()));
    let (status, _) = scene.daemon.refused(
        "POST",
        &format!("/v1/ports/{}/reclaim", run.port),
        Some(json!({"dryRun": true})),
    );
    assert_eq!(status, 400, "the policy is required");
}

#[test]
fn a_listener_that_cant_be_looked_into_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // A daemon of another user than the listener's.
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    for path in [directory.path(), &home] {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    }
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
    let exe = directory.path().join("portreeve");
    std::fs::copy(portreeve(), &exe).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&exe);
    let daemon = Daemon::start_as(command, &home);
    let port = free_port();
    let mut server = Started::listen(port, Temper::Plain, directory.path());
    let dry = json!({"policy": "graceful", "dryRun": true});
    let seen = daemon.post(&format!("/v1/ports/{port}/reclaim"), dry);
    assert_eq!((&seen["outcome"], &seen["reason"]), (&json!("refused"), &json!("process-unobservable")));
    let evict = json!({"unsafeAnyOwner": true});
    let seen = daemon.post(&format!("/v1/ports/{port}/unsafe-evict"), evict);
    assert_eq!((&seen["outcome"], &seen["reason"]), (&json!("refused"), &json!("process-unobservable")));
    assert!(!server.ended());
}

/// Lets the server itself ask the daemon, from a child.
fn ask_from_within(run: &Run, scene: &Scene, path: &str, mut body: Value) -> Value {
    body["client"] = client();
    let mut stream = TcpStream::connect(("127.0.0.1", run.port)).unwrap();
    stream.set_read_timeout(Some(portreeve_test_harness::machine::PATIENCE)).unwrap();
    write!(stream, "{}\n{path}\n{body}\n", scene.daemon.socket().display()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn the_caller_and_those_above_it_are_never_ended() {
    let scene = Scene::new();
    let mut run = scene.serve("web", Temper::Caller);
    let from = |path: &str, body: Value| ask_from_within(&run, &scene, path, body)["data"].clone();
    let preview = from(&format!("/v1/actions/{}/preview", reclaim(run.port)), json!({"policy": "graceful"}));
    assert_eq!(preview["observed"]["outcome"], "refused");
    assert_eq!(preview["observed"]["reason"], "protected-process");
    // A child in the tree is another target set, so the act is tried without a receipt.
    for (path, body) in [
        (format!("/v1/ports/{}/reclaim", run.port), json!({"policy": "force-after-grace"})),
        (format!("/v1/ports/{}/unsafe-evict", run.port), json!({"unsafeAnyOwner": true})),
    ] {
        let done = from(&path, body);
        assert_eq!((&done["outcome"], &done["reason"]), (&json!("refused"), &json!("protected-process")));
        assert_eq!(done["signals"], json!([]));
    }
    assert!(!run.server.ended());
}

#[test]
fn the_daemon_and_those_above_it_are_never_ended() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let script = crate::support::script();
    let mut command = Command::new("python3");
    command.arg(&script).args(["Host", &port.to_string()]).arg(portreeve());
    let daemon = Daemon::start_as(command, &directory.path().join("home"));
    let evict = |dry: bool| {
        let body = json!({"unsafeAnyOwner": true, "policy": "force-after-grace", "dryRun": dry});
        daemon.post(&format!("/v1/ports/{port}/unsafe-evict"), body)
    };
    assert_eq!(evict(true)["outcome"], "would-terminate");
    let done = evict(false);
    assert_eq!((&done["outcome"], &done["reason"]), (&json!("refused"), &json!("protected-process")));
    assert!(listens(port));
    daemon.post("/v1/server/stop", json!({}));
}

#[test]
fn a_client_that_is_connected_survives() {
    let scene = Scene::new();
    let mut run = scene.serve("web", Temper::Plain);
    let script = format!(
        "import socket;s=socket.create_connection(('127.0.0.1',{}));print('on',flush=True)\ntry: s.recv(1)\nexcept OSError: pass\ninput()",
        run.port
    );
    let mut browser = Command::new("python3")
        .args(["-c", &script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(browser.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut String::new()).unwrap();
    let mine = TcpStream::connect(("127.0.0.1", run.port)).unwrap();
    let done =
        scene.daemon.post(&format!("/v1/ports/{}/reclaim", run.port), json!({"policy": "force-after-grace"}));
    assert_eq!(done["outcome"], "terminated");
    assert_eq!(pids(&done["targets"]), [u64::from(run.server.pid())]);
    assert!(run.server.ended());
    let ended = browser.try_wait().unwrap();
    assert!(ended.is_none(), "the client ended with {ended:?}");
    drop(mine);
    browser.kill().unwrap();
    browser.wait().unwrap();
}

#[test]
fn a_stubborn_server_gets_its_grace_and_is_killed_only_under_force() {
    let scene = Scene::with(json!({"gracefulShutdownMilliseconds": 300}));
    let mut run = scene.serve("web", Temper::Stubborn);
    let path = format!("/v1/ports/{}/reclaim", run.port);
    let grace = Duration::from_millis(300);
    let (done, took) = timed(|| scene.daemon.post(&path, json!({"policy": "graceful"})));
    assert_eq!((&done["outcome"], &done["reason"]), (&json!("timeout"), &json!("grace-period-expired")));
    assert!(took >= grace && took < grace + Duration::from_secs(1), "{took:?}");
    assert_eq!(done["signals"].as_array().unwrap().len(), 1);
    assert!(!run.server.ended() && listens(run.port));
    let entry = scene.daemon.get(&format!("/v1/ports/{}", run.port));
    assert_eq!(entry["run"]["id"], run.run, "the run goes on");
    let (done, took) = timed(|| scene.daemon.post(&path, json!({"policy": "force-after-grace"})));
    assert_eq!((&done["outcome"], &done["reason"]), (&json!("terminated"), &Value::Null));
    assert!(took >= grace && took < grace + Duration::from_secs(1), "{took:?}");
    let signals: Vec<&Value> = done["signals"].as_array().unwrap().iter().map(|s| &s["signal"]).collect();
    assert_eq!(signals, ["SIGTERM", "SIGKILL"]);
    assert!(run.server.ended());
}

#[test]
fn two_executes_at_once_signal_once() {
    let scene = Scene::with(json!({"gracefulShutdownMilliseconds": 500}));
    let run = scene.serve("web", Temper::Stubborn);
    let receipt = scene.preview(&reclaim(run.port), json!({"policy": "force-after-grace"}));
    let path = format!("/v1/actions/{}/execute", reclaim(run.port));
    let execute = || ask(scene.daemon.socket(), "POST", &path, Some(json!({"receiptId": id(&receipt)})));
    let replies: Vec<Value> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(execute)).collect();
        all.into_iter().map(|one| one.join().unwrap().1["data"].clone()).collect()
    });
    assert_eq!(replies.iter().filter(|r| r["changed"] == true).count(), 1, "{replies:?}");
    assert!(replies.iter().all(|r| r["result"] == replies[0]["result"]), "{replies:?}");
    let sent = scene.daemon.get("/v1/history?eventType=reclamation.signal-sent");
    assert_eq!(sent["items"].as_array().unwrap().len(), 2);
}

/// Every fact of the plan, changed in turn.
#[test]
fn each_fact_of_a_plan_that_changes_makes_its_receipt_stale() {
    let scene = Scene::new();
    let mut run = scene.serve("web", Temper::Prefork);
    let what = reclaim(run.port);
    let receipt = scene.preview(&what, json!({"policy": "graceful", "workspaceRoot": scene.root()}));
    let stale = |paths: &[&str]| {
        let (status, error) = scene.refused(&what, &receipt);
        assert_eq!((status, class(&error)), (409, "receipt.changed"), "{paths:?}: {error}");
        let found = changes(&error);
        assert!(paths.iter().all(|path| found.iter().any(|f| f.starts_with(path))), "{found:?} {paths:?}");
        assert!(found.iter().all(|f| paths.iter().any(|path| f.starts_with(path))), "{found:?} {paths:?}");
    };
    // The owner's worktree and name; the claim; the run.
    scene.sql("UPDATE claim SET workspace_root = '/elsewhere'");
    stale(&["workspace"]);
    scene.sql(&format!("UPDATE claim SET workspace_root = '{}', component = 'x'", scene.root()));
    stale(&["owner"]);
    scene.sql("UPDATE claim SET component = 'web'");
    let other = "0198c0de-0000-7000-8000-000000000009";
    scene.sql(&format!(
        "PRAGMA foreign_keys = OFF; UPDATE run_listener SET run_id = '{other}'; UPDATE run SET id = '{other}'"
    ));
    stale(&["run"]);
    scene.sql(&format!(
        "PRAGMA foreign_keys = OFF; UPDATE run SET id = '{0}'; UPDATE run_listener SET run_id = '{0}'",
        run.run
    ));
    scene.sql(&format!(
        "PRAGMA foreign_keys = OFF; UPDATE run SET claim_id = '{other}'; UPDATE claim SET id = '{other}'"
    ));
    stale(&["claim"]);
    scene.sql(&format!(
        "PRAGMA foreign_keys = OFF; UPDATE claim SET id = '{0}'; UPDATE run SET claim_id = '{0}'",
        run.claim
    ));
    // A pending lease on the port.
    scene.sql(&format!(
        "INSERT INTO lease (id, claim_id, port, state, token_hash, ttl_ms, expires_at, expires_boot_ms, boot_id, \
         created_at) SELECT '{other}', claim_id, port, 'pending', zeroblob(32), 1000, '', 9223372036854775807, \
         boot_id, '' FROM lease WHERE state = 'confirmed'"
    ));
    stale(&["lease"]);
    scene.sql("DELETE FROM lease WHERE state = 'pending'");
    // The target set and the holders: one worker ends.
    let mut before = String::new();
    before.push_str(&scene.daemon.get(&format!("/v1/ports/{}", run.port))["classification"].to_string());
    let workers: Vec<u64> = pids(&receipt["observed"]["targets"]);
    let worker = workers.iter().find(|pid| **pid != u64::from(run.server.pid())).unwrap();
    let worker = rustix::process::Pid::from_raw(i32::try_from(*worker).unwrap()).unwrap();
    rustix::process::kill_process(worker, rustix::process::Signal::KILL).unwrap();
    until("a worker is gone", || {
        let (_, error) = scene.refused(&what, &receipt);
        (changes(&error).len() == 2).then_some(())
    });
    stale(&["targets", "sockets"]);
    assert!(!run.server.ended() && listens(run.port));
}

#[test]
fn a_server_that_was_started_anew_is_another_one() {
    let scene = Scene::new();
    let mut run = scene.serve("web", Temper::Plain);
    let what = reclaim(run.port);
    let receipt = scene.preview(&what, json!({"policy": "graceful"}));
    run.server.end();
    let mut again = Started::listen(run.port, Temper::Plain, scene.tree.path());
    let (_, error) = scene.refused(&what, &receipt);
    assert_eq!(class(&error), "receipt.changed");
    assert!(!again.ended());
}

#[test]
fn others_that_come_and_go_make_no_receipt_stale() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Plain);
    let receipt = scene.preview(&reclaim(run.port), json!({"policy": "graceful"}));
    let other = scene.serve("other", Temper::Plain);
    scene.claim("third");
    let _client = TcpStream::connect(("127.0.0.1", run.port)).unwrap();
    assert_eq!(scene.execute(&reclaim(run.port), &receipt)["result"]["outcome"], "terminated");
    assert!(lives(other.server.pid()));
}

#[test]
fn replacement_ends_the_claims_own_run_and_leases_its_port_again() {
    let scene = Scene::with(json!({"gracefulShutdownMilliseconds": 300}));
    let mut run = scene.serve("web", Temper::Plain);
    let lease = scene.daemon.acquire(scene.tree.path(), "web", json!({"replacementPolicy": "graceful"}));
    assert_eq!((&lease["port"], &lease["reusedAssignment"]), (&json!(run.port), &json!(true)));
    assert!(run.server.ended());
    let stubborn = scene.serve("stubborn", Temper::Stubborn);
    let body = portreeve_test_harness::machine::acquire(
        scene.tree.path(),
        "stubborn",
        json!({"replacementPolicy": "graceful"}),
    );
    let (status, error) = scene.daemon.refused("POST", "/v1/leases/acquire", Some(body));
    assert_eq!(status, 409);
    assert_eq!(error["details"]["runId"], stubborn.run);
    assert_eq!(error["details"]["reclamation"]["outcome"], "timeout");
    let lease = scene.daemon.acquire(
        scene.tree.path(),
        "stubborn",
        json!({"replacementPolicy": "force-after-grace"}),
    );
    assert_eq!(lease["port"], stubborn.port);
}

#[test]
fn unsafe_eviction_ends_whoever_was_shown_and_nobody_else() {
    let scene = Scene::new();
    let port = free_port();
    let path = format!("/v1/ports/{port}/unsafe-evict");
    let free = scene.daemon.post(&path, json!({"unsafeAnyOwner": true, "dryRun": true}));
    assert_eq!((&free["operation"], &free["outcome"]), (&json!("unsafe-eviction"), &json!("already-free")));
    assert_eq!(
        (&free["policy"], &free["targets"], &free["signals"]),
        (&json!("graceful"), &json!([]), &json!([]))
    );
    let mut stranger = Started::listen(port, Temper::Plain, scene.tree.path());
    for body in
        [json!({"unsafeAnyOwner": false}), json!({}), json!({"unsafeAnyOwner": true, "policy": "never"})]
    {
        let (status, _) = scene.daemon.refused("POST", &path, Some(body));
        assert_eq!(status, 400);
    }
    let dry = scene.daemon.post(&path, json!({"unsafeAnyOwner": true, "dryRun": true}));
    assert_eq!(dry["outcome"], "would-terminate");
    let process = &dry["targets"][0]["process"];
    let other = json!([{"pid": process["pid"], "startTime": "2000-01-01T00:00:00.000Z"}]);
    let done = scene.daemon.post(&path, json!({"unsafeAnyOwner": true, "expected": other}));
    assert_eq!((&done["outcome"], &done["reason"]), (&json!("refused"), &json!("target-set-changed")));
    assert!(!stranger.ended());
    let shown = json!([{"pid": process["pid"], "startTime": process["startTime"]}]);
    let done = scene.daemon.post(&path, json!({"unsafeAnyOwner": true, "expected": shown}));
    assert_eq!(done["outcome"], "terminated");
    assert!(stranger.ended());
}
