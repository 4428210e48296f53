//! Real process trees, ended leaf first, and only what is proved.

use crate::support::{Run, Scene, Temper, listens, lives};
use portreeve_test_harness::machine::until;
use serde_json::{Value, json};

/// Previews, executes and gives the result.
fn reclaimed(scene: &Scene, run: &Run, policy: &str) -> Value {
    let what = format!("ports/{}/reclaim", run.port);
    let receipt = scene.preview(&what, json!({"policy": policy}));
    assert_eq!(receipt["observed"]["outcome"], "would-terminate", "{receipt}");
    scene.execute(&what, &receipt)["result"].clone()
}

fn targets(result: &Value) -> Vec<u32> {
    let pid = |t: &Value| u32::try_from(t["pid"].as_u64().expect("a pid")).expect("a pid");
    result["targets"].as_array().expect("targets").iter().map(pid).collect()
}

fn signalled(result: &Value) -> Vec<u32> {
    let pid = |s: &Value| u32::try_from(s["pid"].as_u64().expect("a pid")).expect("a pid");
    result["signals"].as_array().expect("signals").iter().map(pid).collect()
}

/// The whole tree is gone, the port is free, and the run is over.
#[track_caller]
fn is_gone(scene: &Scene, run: &Run, result: &Value) {
    assert_eq!((&result["outcome"], &result["reason"]), (&json!("terminated"), &Value::Null), "{result}");
    assert!(!listens(run.port));
    for pid in targets(result) {
        assert!(!lives(pid), "{pid} of {result}");
    }
    let events = scene.daemon.get("/v1/history?eventType=run.released");
    assert!(events["items"].as_array().unwrap().iter().any(|e| e["entityId"] == run.run), "{events}");
}

#[test]
fn a_shell_around_its_server_goes_after_it() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Wrapped);
    let result = reclaimed(&scene, &run, "graceful");
    is_gone(&scene, &run, &result);
    let order = signalled(&result);
    assert_eq!(order.len(), 2, "{result}");
    assert_eq!(order.last(), Some(&run.server.root()), "the root goes last");
}

#[test]
fn a_prefork_server_goes_with_its_workers() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Prefork);
    let result = reclaimed(&scene, &run, "graceful");
    is_gone(&scene, &run, &result);
    assert_eq!(targets(&result).len(), 4);
    assert_eq!(signalled(&result).last(), Some(&run.server.root()));
}

#[test]
fn a_server_that_forked_twice_goes_with_its_launcher() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::DoubleFork);
    let result = reclaimed(&scene, &run, "graceful");
    is_gone(&scene, &run, &result);
    assert_eq!(targets(&result).len(), 2, "{result}");
}

#[test]
fn a_server_whose_launcher_is_gone_goes_all_the_same() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Wrapped);
    let shell = rustix::process::Pid::from_raw(i32::try_from(run.server.root()).unwrap()).unwrap();
    rustix::process::kill_process(shell, rustix::process::Signal::KILL).unwrap();
    until("the launcher is gone", || (!lives(run.server.root())).then_some(()));
    let result = reclaimed(&scene, &run, "graceful");
    is_gone(&scene, &run, &result);
    assert_eq!(targets(&result).len(), 1);
}

#[test]
fn an_orphan_that_was_confirmed_itself_goes() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Orphan);
    let result = reclaimed(&scene, &run, "graceful");
    is_gone(&scene, &run, &result);
}

#[test]
fn a_server_that_became_another_program_is_the_same_process() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Reexec);
    let what = format!("ports/{}/reclaim", run.port);
    let receipt = scene.preview(&what, json!({"policy": "graceful"}));
    let pid = rustix::process::Pid::from_raw(i32::try_from(run.server.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    until("it became another program", || {
        let line = std::fs::read_to_string(format!("/proc/{}/cmdline", run.server.pid())).ok()?;
        line.contains("Inherit").then_some(())
    });
    // Its socket is the same, and so is its start: the receipt from before is still good.
    let result = scene.execute(&what, &receipt)["result"].clone();
    is_gone(&scene, &run, &result);
}

#[test]
fn a_server_whose_program_was_rebuilt_is_the_same_process() {
    let scene = Scene::new();
    let python = scene.tree.path().join("server");
    std::fs::copy(std::fs::canonicalize("/usr/bin/python3").unwrap(), &python).unwrap();
    let port = portreeve_test_harness::machine::free_port();
    let lease = scene.daemon.acquire(scene.tree.path(), "web", json!({"exactPort": port}));
    let server = crate::support::Started::listen_by(
        python.to_str().unwrap(),
        Some("/usr"),
        port,
        Temper::Plain,
        scene.tree.path(),
    );
    let path = format!("/v1/leases/{}/confirm", lease["leaseId"].as_str().unwrap());
    let proof = json!({"leaseToken": lease["leaseToken"], "rootPid": server.root()});
    let confirmed = scene.daemon.post(&path, proof);
    std::fs::remove_file(&python).unwrap();
    let text = |name: &str| confirmed[name].as_str().unwrap().to_owned();
    let run = Run { claim: text("claimId"), run: text("runId"), port, server };
    let result = reclaimed(&scene, &run, "graceful");
    is_gone(&scene, &run, &result);
}

#[test]
fn twins_on_one_port_go_together() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Twins);
    let result = reclaimed(&scene, &run, "graceful");
    is_gone(&scene, &run, &result);
    assert_eq!(targets(&result).len(), 2);
}

#[test]
fn a_server_that_its_supervisor_starts_again_is_told_as_that() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Supervised);
    let result = reclaimed(&scene, &run, "graceful");
    assert_eq!((&result["outcome"], &result["reason"]), (&json!("timeout"), &json!("respawned")), "{result}");
    assert!(!lives(run.server.root()), "the one that was proved ended");
    until("its successor listens", || listens(run.port).then_some(()));
    let events = scene.daemon.get("/v1/history?eventType=run.released");
    assert!(events["items"].as_array().unwrap().iter().any(|e| e["entityId"] == run.run), "the run is over");
}

#[test]
fn a_co_operative_server_is_gone_at_once() {
    let scene = Scene::new();
    let run = scene.serve("web", Temper::Plain);
    let what = format!("ports/{}/reclaim", run.port);
    let receipt = scene.preview(&what, json!({"policy": "graceful"}));
    let (done, took) = crate::support::timed(|| scene.execute(&what, &receipt));
    assert_eq!(done["result"]["outcome"], "terminated");
    // A wide margin: the grace isn't waited for.
    assert!(took < std::time::Duration::from_secs(3), "{took:?}");
}
