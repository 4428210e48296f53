//! Who can be confirmed: the server itself, what descends from the root, and what outlives it.

use crate::actor::Actor;
use crate::isolation::pids_of_its_own;
use crate::support::{given, has, has_ipv6, house, is_root, of, port, token, with};
use portreeve_test_harness::machine::{as_user, python, until};
use serde_json::json;

#[test]
fn the_server_itself() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let server = Actor::serve(house.worktree.path(), port(&lease));
    let run = house.confirm(&lease, server.pid());
    assert_eq!(run["port"], lease["port"]);
    assert_eq!(run["addresses"], json!([format!("127.0.0.1:{}", port(&lease))]));
    let entry = house.port(port(&lease));
    assert_eq!(entry["classification"], "verified");
    assert_eq!(entry["listeners"][0]["ownership"]["lineage"], json!([server.pid()]));
    assert_eq!(entry["run"]["rootPid"], server.pid());
}

#[test]
fn what_descends_from_a_shell() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    let server = Actor::in_shell(house.worktree.path(), r#"sh -c '"$@"; true' sh "$@"; true"#, &[&listen]);
    assert_ne!(server.pid(), server.server);
    house.confirm(&lease, server.pid());
    let entry = house.port(port(&lease));
    let lineage = entry["listeners"][0]["ownership"]["lineage"].as_array().cloned().unwrap_or_default();
    assert_eq!((lineage.len(), &lineage[0], &lineage[2]), (3, &json!(server.server), &json!(server.pid())));
}

#[test]
fn what_a_shell_with_a_session_of_its_own_put_into_the_background() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    // The inner shell leads a session; the server's parent, a subshell, is gone at once.
    let script = r#"exec setsid sh -c '("$@" &) ; read line' sh "$@""#;
    let server = Actor::in_shell(house.worktree.path(), script, &[&listen]);
    until("the server was taken over", || {
        (crate::death::parent(server.server) != server.pid()).then_some(())
    });
    house.confirm(&lease, server.pid());
    assert_eq!(house.port(port(&lease))["classification"], "verified");
}

#[test]
fn what_was_put_into_the_background_of_a_shared_group_is_named_and_confirmed_itself() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    let server = Actor::in_shell(house.worktree.path(), r#"("$@" &) ; read line"#, &[&listen]);
    until("the server was taken over", || {
        (crate::death::parent(server.server) != server.pid()).then_some(())
    });
    let error = house.not_confirmed(&lease, server.pid());
    assert_eq!(error["details"]["listeners"][0]["pid"], server.server, "{error}");
    house.confirm(&lease, server.server);
    assert_eq!(house.port(port(&lease))["classification"], "verified");
}

#[test]
fn a_launcher_that_exits_after_the_confirmation() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    let mut server = Actor::in_shell(house.worktree.path(), r#""$@"; true"#, &[&listen]);
    let run = house.confirm(&lease, server.pid());
    server.kill();
    until("the launcher's child was taken over", || {
        (crate::death::parent(server.server) != server.pid()).then_some(())
    });
    let entry = house.port(port(&lease));
    assert_eq!((&entry["classification"], &entry["run"]["id"]), (&json!("verified"), &run["runId"]));
    assert_eq!(house.ask_running("web", json!({}))["listening"], true);
}

#[test]
fn a_worker_that_shares_its_parents_socket() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let mut server = Actor::serve(house.worktree.path(), port(&lease));
    let worker = server.child("");
    house.confirm(&lease, server.pid());
    let entry = house.port(port(&lease));
    assert_eq!(entry["classification"], "verified");
    assert_eq!(
        crate::support::pids(&entry["listeners"], "pid"),
        [u64::from(server.pid()), u64::from(worker)]
    );
}

#[test]
fn a_listener_on_the_other_loopback_family_only() {
    const NAME: &str = "a_listener_on_the_other_loopback_family_only";
    if !given(NAME, "needs IPv6", has_ipv6()) {
        return;
    }
    let house = house();
    let lease = house.lease("web", json!({}));
    let server = Actor::start(house.worktree.path(), &[&format!("listen=::1,{}", port(&lease))]);
    let run = house.confirm(&lease, server.pid());
    assert_eq!(run["addresses"], json!([format!("[::1]:{}", port(&lease))]));
    let entry = house.port(port(&lease));
    assert_eq!(entry["classification"], "verified");
    assert_eq!(entry["evidence"], json!({"complete": true, "notes": ["other-family"]}));
    assert_eq!(house.ask_running("web", json!({}))["listening"], true);
}

#[test]
fn a_process_confirms_itself() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let body = json!({
        "client": {"softwareVersion": "0", "protocol": {"minimum": 1, "maximum": 1}},
        "leaseToken": lease["leaseToken"],
    });
    // A server that asks the daemon with its own pid as root.
    let script = "import json,os,socket,sys
body,sock,path,port=json.loads(sys.argv[1]),sys.argv[2],sys.argv[3],int(sys.argv[4])
s=socket.socket(); s.bind(('127.0.0.1',port)); s.listen()
body['rootPid']=os.getpid(); body=json.dumps(body).encode()
c=socket.socket(socket.AF_UNIX); c.connect(sock)
c.sendall(f'POST {path} HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n'.encode()+body)
print(b''.join(iter(lambda: c.recv(65536),b'')).decode())";
    let mut command = as_user(python());
    command.args(["-c", script, &body.to_string()]).arg(house.socket()).arg(of(&lease, "confirm"));
    let output = command.arg(port(&lease).to_string()).output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("HTTP/1.1 200"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_repeat_is_answered_with_what_it_became() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let server = Actor::serve(house.worktree.path(), port(&lease));
    let body = with(&lease, json!({"rootPid": server.pid(), "answerSettled": true}));
    let first = house.post(&of(&lease, "confirm"), body.clone());
    assert_eq!(first["changed"], true);
    let mut again = house.post(&of(&lease, "confirm"), body.clone());
    assert_eq!(again["changed"], false);
    again["changed"] = true.into();
    assert_eq!(again, first);
    assert_eq!(house.events("lease.confirmed").len(), 1);
    // Without asking for it, and with another token, it is what it always was.
    let plain = with(&lease, json!({"rootPid": server.pid()}));
    assert_eq!(house.refused("POST", &of(&lease, "confirm"), Some(plain)).1["code"], "lease_not_pending");
    let mut foreign = body;
    foreign["leaseToken"] = token().into();
    assert_ne!(house.ask("POST", &of(&lease, "confirm"), Some(foreign)).0, 200);
}

#[test]
fn repeats_at_once_confirm_once() {
    let house = house();
    let lease = house.lease("web", json!({}));
    let server = Actor::serve(house.worktree.path(), port(&lease));
    let body = with(&lease, json!({"rootPid": server.pid(), "answerSettled": true}));
    let changed = std::thread::scope(|scope| {
        let ask = || house.post(&of(&lease, "confirm"), body.clone());
        let all: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| one.join().expect("answered")["changed"] == true).collect::<Vec<_>>()
    });
    assert_eq!(changed.iter().filter(|changed| **changed).count(), 1, "{changed:?}");
    assert_eq!(house.events("lease.confirmed").len(), 1);
}

#[test]
fn a_pid_as_its_own_namespace_numbers_it() {
    const NAME: &str = "a_pid_as_its_own_namespace_numbers_it";
    if !given(NAME, "needs root and unshare", is_root() && has("unshare")) {
        return;
    }
    let house = house();
    let lease = house.lease("web", json!({}));
    let listen = format!("listen=127.0.0.1,{}", port(&lease));
    let Some(server) = pids_of_its_own(house.worktree.path(), &[&listen]) else {
        given(NAME, "needs pid namespaces", false);
        return;
    };
    // Within, the server is told a small number, which is another process' out here.
    let run = house.confirm(&lease, server.server);
    let entry = house.port(port(&lease));
    assert_eq!(
        (&entry["classification"], &entry["run"]["id"]),
        (&json!("verified"), &run["runId"]),
        "{entry}"
    );
    let outer = entry["run"]["rootPid"].as_u64().expect("a pid");
    assert_ne!(outer, u64::from(server.server));
    let status = std::fs::read_to_string(format!("/proc/{outer}/status")).expect("it lives");
    assert!(
        status
            .lines()
            .any(|line| line.starts_with("NSpid:") && line.ends_with(&format!("\t{}", server.server)))
    );
}
