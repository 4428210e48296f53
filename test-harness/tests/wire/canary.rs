//! No token is found anywhere but in the reply that brings it to its owner.
//!
//! Looked for as its text, as the raw bytes it stands for and as those in hex, in every other reply, in the files
//! of the home and in what the daemon printed.

use crate::support::{acquire_with, exchange, terminate, token};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use portreeve_test_harness::machine::{Daemon, Server, acquire, client, free_port, worktree};
use serde_json::{Value, json};
use std::fs;
use std::io::Read as _;
use std::path::Path;

/// One daemon's traffic: every token that crossed the socket, and every reply with the tokens it may hold.
struct Traffic {
    daemon: Daemon,
    tokens: Vec<String>,
    replies: Vec<(Vec<u8>, Option<String>)>,
}

impl Traffic {
    /// Asks and keeps the reply. A token in its `leaseToken` is its owner's.
    fn ask(&mut self, method: &str, target: &str, body: Option<Value>) -> Value {
        let body = body.map(|mut body| {
            body["client"] = client();
            body.to_string()
        });
        let body = body.unwrap_or_default();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let all = exchange(self.daemon.socket(), head.as_bytes()).expect("the daemon answers");
        let start = all.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        let reply: Value = serde_json::from_slice(&all[start..]).expect("JSON");
        let owned = reply["data"]["leaseToken"].as_str().map(str::to_owned);
        self.tokens.extend(owned.clone());
        self.replies.push((all, owned));
        reply
    }

    fn lease(&mut self, body: Value) -> (String, String, Value) {
        let reply = self.ask("POST", "/v1/leases/acquire", Some(body));
        let data = &reply["data"];
        let text = |field: &str| data[field].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned();
        (text("leaseId"), text("leaseToken"), data["port"].clone())
    }

    fn settle(&mut self, id: &str, verb: &str, body: Value) -> Value {
        self.ask("POST", &format!("/v1/leases/{id}/{verb}"), Some(body))
    }
}

/// The three forms in which a token could be seen.
fn forms(token: &str) -> [Vec<u8>; 3] {
    let raw = BASE64_URL_SAFE_NO_PAD.decode(token).expect("a token is base64url");
    let hex: String = raw.iter().map(|b| format!("{b:02x}")).collect();
    [token.as_bytes().to_vec(), raw, hex.into_bytes()]
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).expect("a home can be read").map(|e| e.expect("an entry")) {
        if entry.file_type().expect("a type").is_file() {
            let bytes = fs::read(entry.path()).expect("a file can be read");
            all.push((entry.path().display().to_string(), bytes));
        }
    }
    all
}

#[test]
fn a_token_is_seen_by_its_owner_and_by_nobody_and_nothing_else() {
    let mut traffic = Traffic { daemon: Daemon::start(), tokens: Vec::new(), replies: Vec::new() };
    let workspace = worktree();
    let root = workspace.path();
    live_through(&mut traffic, root);
    for target in [
        "/v1/health",
        "/v1/config",
        "/v1/claims",
        "/v1/ports",
        "/v1/ports?claimed=true",
        "/v1/history?limit=200",
        "/v1/history?order=asc&limit=200",
        "/v1/logs?limit=10000",
        "/v1/logs?afterCursor=&limit=200",
    ] {
        let data = traffic.ask("GET", target, None);
        assert!(data["data"].is_object() || data["data"].is_array(), "{target}: {data}");
    }
    let tokens = std::mem::take(&mut traffic.tokens);
    assert!(tokens.len() >= 12, "only {} tokens crossed the socket", tokens.len());
    // While it runs the log of the store is beside it; after its end all is in the file.
    let mut places = files(traffic.daemon.home());
    assert!(places.iter().any(|(name, _)| name.ends_with("-wal")), "the store's log was not looked at");
    assert!(places.iter().any(|(name, _)| name.ends_with(".log")), "the daemon's log was not looked at");
    assert!(terminate(&mut traffic.daemon).success());
    places.extend(files(traffic.daemon.home()));
    let mut printed = Vec::new();
    traffic.daemon.process.stderr.take().expect("piped").read_to_end(&mut printed).expect("it is at its end");
    places.push(("stderr".into(), printed));
    for token in &tokens {
        let forms = forms(token);
        for (place, bytes) in &places {
            for form in &forms {
                assert!(!contains(bytes, form), "a token is in {place}");
            }
        }
        for (reply, owned) in &traffic.replies {
            let text = String::from_utf8_lossy(reply);
            let own = owned.as_ref() == Some(token);
            for (at, form) in forms.iter().enumerate() {
                assert!((own && at == 0) || !contains(reply, form), "a token is in another's reply: {text}");
            }
        }
    }
    // The search itself finds what is there.
    let (own, _) = traffic.replies.iter().find(|(_, owned)| owned.is_some()).expect("a lease was made");
    assert!(tokens.iter().any(|token| contains(own, token.as_bytes())));
    assert!(places.iter().any(|(_, bytes)| contains(bytes, root.to_str().expect("text").as_bytes())));
}

/// Everything that can happen to a token: brought, made, used, misused, put where it doesn't belong.
fn live_through(traffic: &mut Traffic, root: &Path) {
    let reason = "client-cancelled";
    for i in 0..5 {
        let brought = token();
        traffic.tokens.push(brought.clone());
        let body = acquire_with(root, &format!("brought{i}"), &brought);
        let (id, lease_token, _) = traffic.lease(body.clone());
        assert_eq!(lease_token, brought);
        // Asked again, by its owner and by another.
        traffic.lease(body.clone());
        let (strange, mut other) = (token(), body);
        traffic.tokens.push(strange.clone());
        other["leaseToken"] = strange.clone().into();
        traffic.ask("POST", "/v1/leases/acquire", Some(other));
        for (verb, field, value) in [
            ("renew", "later", json!(1)),
            ("confirm", "rootPid", json!(std::process::id())),
            ("abandon", "reason", json!(reason)),
        ] {
            let mut body = json!({"leaseToken": strange});
            body[field] = value;
            let reply = traffic.settle(&id, verb, body);
            assert!(reply["error"].is_object(), "{reply}");
        }
        traffic.settle(&id, "renew", json!({"leaseToken": brought}));
        if i % 2 == 0 {
            traffic.settle(&id, "abandon", json!({"leaseToken": brought, "reason": reason}));
            traffic.settle(&id, "abandon", json!({"leaseToken": brought, "reason": reason}));
            let body = json!({"leaseToken": brought, "reason": reason, "answerSettled": true});
            assert_eq!(traffic.settle(&id, "abandon", body)["data"]["changed"], false);
        }
    }
    let (id, made, _) = traffic.lease(acquire(root, "made", json!({})));
    traffic.settle(&id, "abandon", json!({"leaseToken": made, "reason": "address-in-use"}));

    let port = free_port();
    let body = acquire(root, "served", json!({"preferredPort": port}));
    let (id, made, _) = traffic.lease(body.clone());
    let mut server = Server::listen("127.0.0.1", port, root);
    let confirm = json!({"leaseToken": made, "rootPid": server.pid(), "answerSettled": true});
    for _ in 0..2 {
        let reply = traffic.settle(&id, "confirm", confirm.clone());
        assert_eq!(reply["data"]["port"], port, "{reply}");
    }
    let mut running = body;
    running["answerRunning"] = true.into();
    running["leaseToken"] = token().into();
    traffic.tokens.push(running["leaseToken"].as_str().expect("text").to_owned());
    assert_eq!(traffic.ask("POST", "/v1/leases/acquire", Some(running))["data"]["state"], "running");
    server.kill();

    // A token one character too long, one where an id or a reason belongs, one in a field that nobody knows.
    let stray = token();
    traffic.tokens.push(stray.clone());
    let (id, made, _) = traffic.lease(acquire(root, "stray", json!({})));
    for body in [
        json!({"leaseToken": format!("{stray}=")}),
        json!({"leaseToken": [stray]}),
        json!({"leaseToken": {(stray.clone()): 1}}),
        json!({"leaseToken": made, "reason": stray}),
        json!({"leaseToken": made, "reason": reason, "answerSettled": stray}),
        json!({"leaseToken": made, "rootPid": stray}),
        json!({(stray.clone()): made}),
    ] {
        let verb = if body["rootPid"].is_null() { "abandon" } else { "confirm" };
        let reply = traffic.settle(&id, verb, body);
        assert!(reply["error"].is_object(), "{reply}");
    }
    let mut body = acquire(root, "origin", json!({}));
    body["allocation"]["mode"] = stray.clone().into();
    traffic.ask("POST", "/v1/leases/acquire", Some(body));
    traffic.ask("GET", &format!("/v1/history?afterCursor={stray}"), None);
}
