//! Who can't be confirmed, what is said of whoever has the port, and that a refusal costs nothing.

use crate::actor::Actor;
use crate::isolation::Inside;
use crate::support::{given, has, house, house_with, is_root, of, port, real, token, two_users, with};
use portreeve_test_harness::machine::{self, python, until};
use serde_json::{Value, json};

#[test]
fn a_stranger_is_named_with_all_that_is_known_of_it() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let elsewhere = machine::worktree();
    let stranger =
        Actor::in_shell(elsewhere.path(), r#""$@"; true"#, &[&format!("listen=127.0.0.1,{}", port(&lease))]);
    let mine = Actor::start(house.worktree.path(), &[]);
    let error = house.not_confirmed(&lease, mine.pid());
    assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(true)));
    assert_eq!(
        (&error["details"]["port"], &error["details"]["rootPid"]),
        (&lease["port"], &json!(mine.pid()))
    );
    let named = &error["details"]["listeners"][0];
    assert_eq!(named["pid"], stranger.server);
    assert_eq!(named["parents"][0], stranger.pid());
    assert!(named["command"].as_str().is_some_and(|command| command.contains("listen=127.0.0.1")), "{named}");
    assert_eq!(named["workingDirectory"], real(elsewhere.path()));
    assert_eq!(named["insideWorkspace"], false);
    assert_eq!(error["details"]["ownership"][0]["reason"], "not-in-run-lineage");
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains(&stranger.server.to_string())),
        "{error}"
    );
}

#[test]
fn a_server_in_the_worktree_that_was_started_by_somebody_else_is_said_to_be_inside() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let other = Actor::serve(&house.worktree.path().join("src"), port(&lease));
    let mine = Actor::start(house.worktree.path(), &[]);
    let error = house.not_confirmed(&lease, mine.pid());
    assert_eq!(error["details"]["listeners"][0]["insideWorkspace"], true, "{error}");
    // The hint is to confirm with its pid, and that works.
    house.confirm(&lease, other.pid());
}

#[test]
fn a_server_on_another_port_than_the_one_it_was_given() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let next = house.ports.wish(0);
    let mut server = Actor::start(house.worktree.path(), &[&format!("listen=127.0.0.1,{next}")]);
    let error = house.not_confirmed(&lease, server.pid());
    assert_eq!(error["details"]["treeListensOn"], json!([format!("127.0.0.1:{next}")]), "{error}");
    assert_eq!((&error["details"]["listeners"], &error["retryable"]), (&json!([]), &json!(true)));
    // One of its children does.
    server.tell("close");
    server.child(&format!("listen=127.0.0.1,{}", next + 1));
    let error = house.not_confirmed(&lease, server.pid());
    assert_eq!(error["details"]["treeListensOn"], json!([format!("127.0.0.1:{}", next + 1)]), "{error}");
    // The handle is still good.
    server.tell(&format!("listen=127.0.0.1,{}", port(&lease)));
    house.confirm(&lease, server.pid());
}

#[test]
fn a_confirmation_before_the_server_listens_can_be_repeated() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let mut server = Actor::start(house.worktree.path(), &[]);
    let before = house.tables();
    for _ in 0..3 {
        let error = house.not_confirmed(&lease, server.pid());
        assert_eq!(
            (&error["details"]["listeners"], &error["retryable"]),
            (&json!([]), &json!(true)),
            "{error}"
        );
    }
    assert_eq!(house.tables(), before, "a refusal writes nothing");
    server.tell(&format!("listen=127.0.0.1,{}", port(&lease)));
    house.confirm(&lease, server.pid());
}

#[test]
fn a_stranger_that_shares_the_port() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{},reuseport", port(&lease));
    let server = Actor::start(house.worktree.path(), &[&listen]);
    let mut stranger = Actor::start(std::path::Path::new("/"), &[&listen]);
    let error = house.not_confirmed(&lease, server.pid());
    let pids = crate::support::pids(&error["details"]["listeners"], "pid");
    assert_eq!(pids.len(), 2, "{error}");
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains(&format!("Process {} ", stranger.pid())))
    );
    stranger.kill();
    let run = house.confirm(&lease, server.pid());
    // One that comes later makes it mixed, and never the run's.
    let _late = Actor::start(std::path::Path::new("/"), &[&listen]);
    let entry = house.port(port(&lease));
    assert_eq!((&entry["classification"], &entry["run"]["id"]), (&json!("mixed"), &run["runId"]), "{entry}");
}

#[test]
fn a_root_that_has_ended_still_tells_who_listens() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let mut launcher = Actor::start(house.worktree.path(), &[]);
    let gone = launcher.pid();
    launcher.kill();
    let error = house.not_confirmed(&lease, gone);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("There is no process")), "{error}");
    let server = Actor::serve(house.worktree.path(), port(&lease));
    let error = house.not_confirmed(&lease, gone);
    assert_eq!(error["details"]["listeners"][0]["pid"], server.pid(), "{error}");
    assert_eq!(error["details"]["ownership"][0]["reason"], "not-in-run-lineage");
}

#[test]
fn a_zombie_is_no_root() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let mut parent = Actor::start(house.worktree.path(), &[]);
    let child = parent.child("");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(child).expect("a pid")).expect("a pid"),
        rustix::process::Signal::KILL,
    )
    .expect("our own actor's child");
    until("it is a zombie", || {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).expect("not reaped");
        stat.contains(") Z ").then_some(())
    });
    let error = house.not_confirmed(&lease, child);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("There is no process")), "{error}");
}

#[test]
fn a_root_above_the_daemon_or_above_the_caller() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let _server = Actor::serve(house.worktree.path(), port(&lease));
    // This very process started the server, and the daemon, and it is the caller: it may not be the root, for the
    // daemon is below it.
    let error = house.not_confirmed(&lease, std::process::id());
    if error["code"] == "unavailable" {
        assert!(two_users(), "only another user's process can be hidden: {error}");
    } else {
        assert_eq!((&error["code"], &error["retryable"]), (&json!("conflict"), &json!(false)), "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("daemon")), "{error}");
    }
    // The daemon itself doesn't listen, so it proves nothing.
    house.not_confirmed(&lease, house.daemon.process.id());
}

#[test]
fn a_shell_that_asks_for_itself_through_a_child() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let body = json!({
        "client": {"softwareVersion": "0", "protocol": {"minimum": 1, "maximum": 1}},
        "leaseToken": lease["leaseToken"],
    });
    // The server is this script; its child asks with the parent's pid as root.
    let script = "import json,os,socket,sys
body,sock,path,port=json.loads(sys.argv[1]),sys.argv[2],sys.argv[3],int(sys.argv[4])
s=socket.socket(); s.bind(('127.0.0.1',port)); s.listen()
body['rootPid']=os.getpid(); body=json.dumps(body).encode()
if os.fork()==0:
    c=socket.socket(socket.AF_UNIX); c.connect(sock)
    c.sendall(f'POST {path} HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n'.encode()+body)
    print(b''.join(iter(lambda: c.recv(65536),b'')).decode(),flush=True); os._exit(0)
os.wait()";
    let mut command = machine::as_user(python());
    command.args(["-c", script, &body.to_string()]).arg(house.socket()).arg(of(&lease, "confirm"));
    let output = command.arg(port(&lease).to_string()).output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("HTTP/1.1 409") && said.contains("policy.refused"), "{said}");
}

#[test]
fn a_root_below_which_another_runs_listener_lives() {
    let house = house();
    // One launcher of two servers.
    let mut launcher = Actor::start(house.worktree.path(), &[]);
    let web = house.lease("web", json!({}));
    let api = house.lease("api", json!({}));
    let first = launcher.child(&format!("listen=127.0.0.1,{}", port(&web)));
    let second = launcher.child(&format!("listen=127.0.0.1,{}", port(&api)));
    let run = house.confirm(&web, first);
    let error = house.not_confirmed(&api, launcher.pid());
    assert_eq!(error["retryable"], false, "{error}");
    assert!(
        error["message"].as_str().is_some_and(|t| t.contains(run["runId"].as_str().expect("an id"))),
        "{error}"
    );
    house.confirm(&api, second);
}

#[test]
fn a_session_leader_in_whose_session_another_runs_listener_lives() {
    let house = house();
    let web = house.lease("web", json!({}));
    let api = house.lease("api", json!({}));
    // A shell with a session of its own put two servers into the background, where they lost their parents.
    let script = format!(
        r#"exec setsid sh -c '("$1" "$2" "$3" listen=127.0.0.1,{} &) ; ("$@" &) ; read line' sh "$@""#,
        port(&api)
    );
    let mut servers =
        Actor::in_shell(house.worktree.path(), &script, &[&format!("listen=127.0.0.1,{}", port(&web))]);
    servers.hear();
    let listener = |lease: &Value| {
        let pid = house.port(port(lease))["listeners"][0]["pid"].as_u64().expect("it listens");
        u32::try_from(pid).expect("a pid")
    };
    let run = house.confirm(&api, listener(&api));
    let error = house.not_confirmed(&web, servers.pid());
    assert_eq!(error["retryable"], false, "{error}");
    assert!(
        error["message"].as_str().is_some_and(|t| t.contains(run["runId"].as_str().expect("an id"))),
        "{error}"
    );
    house.confirm(&web, listener(&web));
    // Neither proves the other.
    for lease in [&web, &api] {
        assert_eq!(house.port(port(lease))["classification"], "verified");
    }
}

#[test]
fn credentials_and_states_that_do_not_fit() {
    let house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let lease = house.lease("web", json!({}));
    let server = Actor::serve(house.worktree.path(), port(&lease));
    let mut foreign = with(&lease, json!({"rootPid": server.pid()}));
    foreign["leaseToken"] = token().into();
    let (status, error) = house.refused("POST", &of(&lease, "confirm"), Some(foreign));
    assert_eq!((status, &error["code"]), (400, &json!("invalid_lease_token")));
    // Its time runs out by itself.
    house.event("lease.expired", &lease["leaseId"]);
    assert_eq!(house.not_confirmed(&lease, server.pid())["code"], "lease_expired");
    let (_, error) = house.refused("POST", &of(&lease, "renew"), Some(with(&lease, json!({}))));
    assert_eq!(error["code"], "lease_expired");
    let lease = house.lease("api", json!({}));
    house.abandon(&lease, "client-cancelled");
    let server = Actor::serve(house.worktree.path(), port(&lease));
    let error = house.not_confirmed(&lease, server.pid());
    assert_eq!((&error["code"], &error["retryable"]), (&json!("lease_not_pending"), &json!(false)));
    let body = with(&lease, json!({"reason": "client-cancelled", "answerSettled": true}));
    assert_eq!(house.post(&of(&lease, "abandon"), body)["changed"], false);
}

#[test]
fn a_listener_in_another_network_is_not_on_our_port() {
    const NAME: &str = "a_listener_in_another_network_is_not_on_our_port";
    if !given(NAME, "needs root and ip", is_root() && has("ip")) {
        return;
    }
    let Some(inside) = Inside::network("ip link set lo up") else {
        given(NAME, "needs network namespaces", false);
        return;
    };
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    let server = Actor::run(inside.command(python()), house.worktree.path(), &[&listen]);
    let error = house.not_confirmed(&lease, server.pid());
    assert_eq!(error["details"]["listeners"], json!([]), "{error}");
    let entry = house.port(port(&lease));
    assert_eq!((&entry["classification"], &entry["listeners"]), (&json!("pending"), &json!([])));
}

#[test]
fn another_users_listener_is_never_confirmed() {
    if !given("another_users_listener_is_never_confirmed", "needs PORTREEVE_TEST_UID", two_users()) {
        return;
    }
    let house = house();
    let lease = house.lease("web", json!({}));
    let foreign =
        Actor::start_as_us(std::path::Path::new("/"), &[&format!("listen=127.0.0.1,{}", port(&lease))]);
    let mine = Actor::start(house.worktree.path(), &[]);
    let error = house.not_confirmed(&lease, mine.pid());
    assert_eq!(
        (&error["details"]["unseenHolders"], &error["details"]["listeners"]),
        (&json!(1), &json!([])),
        "{error}"
    );
    house.refused("POST", &of(&lease, "confirm"), Some(with(&lease, json!({"rootPid": foreign.pid()}))));
}

#[test]
fn an_address_that_loopback_does_not_reach() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let server = Actor::start(house.worktree.path(), &[&format!("listen=127.0.0.2,{}", port(&lease))]);
    let error = house.not_confirmed(&lease, server.pid());
    assert_eq!(error["details"]["listeners"], json!([format!("127.0.0.2:{}", port(&lease))]), "{error}");
}

#[test]
fn a_run_is_released_only_once_it_has_stopped_for_those_who_ask_so() {
    let house = house();
    let mut served = house.served("web", json!({}));
    let release = format!("/v1/runs/{}/release", served.run["runId"].as_str().expect("an id"));
    let (status, error) = house.refused("POST", &release, Some(json!({"ifStopped": true})));
    assert_eq!((status, &error["details"]["listeners"]), (409, &json!([served.server.pid()])), "{error}");
    served.server.tell("close");
    assert_eq!(house.post(&release, json!({"ifStopped": true}))["changed"], true);
    assert_eq!(house.post(&release, json!({}))["changed"], false);
    // Plain protocol 1 asks for no proof.
    let served = house.served("api", json!({}));
    let release = format!("/v1/runs/{}/release", served.run["runId"].as_str().expect("an id"));
    assert_eq!(house.post(&release, json!({}))["changed"], true);
    assert_eq!(house.port(served.port())["classification"], "conflicting");
}

#[test]
fn a_lease_of_another_daemon_is_unknown() {
    let (one, other) = (house(), house());
    let lease = one.lease("web", json!({}));
    let (status, error) =
        other.refused("POST", &of(&lease, "confirm"), Some(with(&lease, json!({"rootPid": 1}))));
    assert_eq!((status, &error["code"]), (404, &json!("not_found")));
}
