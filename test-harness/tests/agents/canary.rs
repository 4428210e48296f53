//! No credential is in any byte that the bridge prints: a proxy before the daemon sees every token, and each is
//! looked for in stdout and stderr as text, as raw bytes and as hex.

use crate::support::{abandon, confirm, house_with, port};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use portreeve_test_harness::host::Host;
use portreeve_test_harness::machine::{Server, until};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A socket before the daemon's, and everything that crossed it.
struct Proxy {
    socket: PathBuf,
    crossed: Arc<Mutex<Vec<u8>>>,
    _directory: tempfile::TempDir,
}

impl Proxy {
    fn before(daemon: &Path) -> Proxy {
        let directory = tempfile::Builder::new().prefix("portreeve-proxy-").tempdir().expect("a directory");
        let socket = directory.path().join("portreeve.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let crossed = Arc::new(Mutex::new(Vec::new()));
        let (daemon, all) = (daemon.to_owned(), crossed.clone());
        std::thread::spawn(move || {
            for bridge in listener.incoming() {
                let Ok(bridge) = bridge else { return };
                let Ok(daemon) = UnixStream::connect(&daemon) else { return };
                for (from, to) in [(&bridge, &daemon), (&daemon, &bridge)] {
                    let (from, to) = (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
                    let all = all.clone();
                    std::thread::spawn(move || pass(from, to, &all));
                }
            }
        });
        Proxy { socket, crossed, _directory: directory }
    }

    /// Every token that crossed so far.
    fn tokens(&self) -> BTreeSet<String> {
        let crossed = self.crossed.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&crossed);
        let found = text.split("\"leaseToken\":\"").skip(1);
        found.filter_map(|rest| rest.split('"').next().map(str::to_owned)).collect()
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, all: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        all.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..count]);
        if to.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Write));
}

/// The forms in which a token could be seen.
fn forms(token: &str) -> [Vec<u8>; 4] {
    let raw = BASE64_URL_SAFE_NO_PAD.decode(token).expect("a token is base64url");
    let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    [token.as_bytes().to_vec(), raw, hex.to_uppercase().into_bytes(), hex.into_bytes()]
}

fn has(bytes: &[u8], form: &[u8]) -> bool {
    bytes.windows(form.len()).any(|window| window == form)
}

#[test]
fn no_byte_that_the_bridge_prints_holds_a_credential() {
    let house = house_with(json!({"leaseTtlMilliseconds": 1000}));
    let proxy = Proxy::before(house.socket());
    let mut host = Host::start(&proxy.socket);
    let served = house.serve(&mut host, "web");
    let given = host.done("leases_acquire", house.claim("given"));
    host.done("leases_abandon", abandon(&given, "address-in-use"));
    let held = host.done("leases_acquire", house.claim("held"));
    host.done("leases_acquire", house.claim("held"));
    until("it was renewed", || {
        let entry = house.get(&format!("/v1/ports/{}", held["port"]));
        (entry["lease"]["expiresAt"] != held["expiresAt"]).then_some(())
    });
    drop(host.call("leases_confirm", confirm(&held, std::process::id())).expect_err("nobody listens"));
    drop(host.call("leases_confirm", confirm(&served.lease, 1)).expect_err("it is settled"));
    // A token where a handle, a name, an id or a field belongs comes back from no refusal.
    let token = proxy.tokens().into_iter().next().expect("tokens crossed");
    for (tool, arguments) in [
        ("leases_confirm", json!({"credentialHandle": token, "rootPid": 1})),
        ("leases_confirm", json!({"credentialHandle": served.lease["credentialHandle"], "rootPid": token})),
        ("leases_release", json!({"runId": token})),
        ("claims_get", json!({"claimId": [token]})),
        ("ports_get", json!({"port": token})),
        ("history_list", json!({"afterCursor": token})),
        ("leases_acquire", json!({"project": "p", "workspaceRoot": token, "component": "c"})),
        ("leases_acquire", json!({"project": "p", "workspaceRoot": "/", "component": "c", "mode": token})),
    ] {
        host.call(tool, arguments.clone()).expect_err(&format!("{tool} {arguments}"));
    }
    for (tool, arguments) in
        [("diagnostics_get", json!({})), ("history_list", json!({"limit": 200})), ("claims_list", json!({}))]
    {
        host.done(tool, arguments);
    }
    let server = Server::listen("127.0.0.1", port(&held), house.worktree.path());
    host.done("leases_confirm", confirm(&held, server.pid()));
    host.done("leases_acquire", house.claim("at-the-end"));
    host.hang_up();
    host.rest();
    assert_eq!(host.exits().code(), Some(0));
    let tokens = proxy.tokens();
    assert!(tokens.len() >= 4, "only {} tokens crossed", tokens.len());
    let printed = host.printed();
    for token in &tokens {
        for form in forms(token) {
            assert!(!has(&printed, &form), "a token was printed: {}", host.printed_text());
        }
    }
    // The search itself finds what is there.
    assert!(has(&printed, served.lease["credentialHandle"].as_str().expect("text").as_bytes()));
    let crossed = proxy.crossed.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(tokens.iter().all(|token| has(&crossed, token.as_bytes())));
}
