//! Custody: tokens go in, handles come out.

use serde_json::{Value, json};

use crate::daemon::{Daemon, Fault};
use crate::host::Host;

fn acquire(host: &mut Host, component: &str) -> Value {
    let arguments = json!({"project": "shop", "workspaceRoot": "/home/dev/shop", "component": component});
    call(host, "leases_acquire", arguments)
}

pub(crate) fn call(host: &mut Host, tool: &str, arguments: Value) -> Value {
    host.request(7, "tools/call", json!({"name": tool, "arguments": arguments}));
    let result = host.answer()["result"].clone();
    match result.get("structuredContent") {
        Some(content) => content.clone(),
        None => result["_meta"]["portreeve/error"].clone(),
    }
}

fn handle(acquired: &Value) -> &str {
    acquired["credentialHandle"].as_str().unwrap_or_else(|| panic!("no handle: {acquired}"))
}

fn confirm(host: &mut Host, handle: &str, pid: u32) -> Value {
    call(host, "leases_confirm", json!({"credentialHandle": handle, "rootPid": pid}))
}

#[test]
fn a_handle_stands_for_the_token_until_it_is_settled() {
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    let acquired = acquire(&mut host, "web");
    assert_eq!(acquired["changed"], true);
    let handle = handle(&acquired).to_owned();
    let asked = daemon.asked("POST /v1/leases/acquire");
    assert_eq!(asked.body["answerRunning"], true);
    assert_eq!(asked.body["allocation"]["replacementPolicy"], "never");

    let confirmed = confirm(&mut host, &handle, 42);
    assert_eq!(confirmed["changed"], true);
    let sent = daemon.asked("POST /v1/leases/0198c0de-0000-7000-8000-000000003000/confirm");
    assert_eq!(sent.body["leaseToken"], asked.body["leaseToken"]);
    assert_eq!(sent.body["rootPid"], 42);

    let again = confirm(&mut host, &handle, 42);
    assert_eq!(again["changed"], false);
    assert_eq!(again["runId"], confirmed["runId"]);
    let other =
        call(&mut host, "leases_abandon", json!({"credentialHandle": handle, "reason": "startup-error"}));
    assert_eq!(other["class"], "custody.handle_settled");
    assert!(other["message"].as_str().unwrap().contains("leases_confirm"), "{other}");
    assert_eq!(daemon.all("POST /v1/leases/0198").len(), 1, "the daemon is asked once");
    assert_eq!(call(&mut host, "diagnostics_get", json!({}))["bridge"]["credentialsHeld"], 0);
}

#[test]
fn no_token_ever_leaves_the_bridge() {
    let daemon = Daemon::with(1_000, |_| None);
    let mut host = daemon.bridge();
    let mut said = Vec::new();
    for component in ["web", "api", "db"] {
        said.push(acquire(&mut host, component));
    }
    let first = handle(&said[0]).to_owned();
    said.push(confirm(&mut host, &first, 42));
    said.push(confirm(&mut host, &first, 43));
    said.push(call(
        &mut host,
        "leases_confirm",
        json!({"credentialHandle": daemon.tokens()[0], "rootPid": 1}),
    ));
    said.push(call(&mut host, "diagnostics_get", json!({})));
    daemon.asked("POST /v1/leases/0198c0de-0000-7000-8000-000000003001/renew");
    host.hang_up();
    said.extend(host.remaining_answers());
    host.exits();
    let tokens = daemon.tokens();
    assert_eq!(tokens.len(), 3);
    let said = format!("{said:?}{:?}", host.everything_heard());
    for token in tokens {
        // The one that the test itself sent comes back in no answer either.
        assert!(!said.contains(&token), "a token was said");
    }
}

#[test]
fn the_same_claim_keeps_its_token_and_its_handle() {
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    let first = acquire(&mut host, "web");
    let second = acquire(&mut host, "web");
    assert_eq!(first["credentialHandle"], second["credentialHandle"]);
    assert_eq!(second["changed"], false);
    let other = acquire(&mut host, "api");
    assert_ne!(first["credentialHandle"], other["credentialHandle"]);
    assert_eq!(daemon.tokens().len(), 2);

    let settled = handle(&first).to_owned();
    confirm(&mut host, &settled, 42);
    let anew = acquire(&mut host, "web");
    assert_ne!(anew["credentialHandle"], first["credentialHandle"]);
    assert_eq!(daemon.tokens().len(), 3, "a settled lease's token is not used again");
}

#[test]
fn a_lost_reply_costs_nothing() {
    let lost = std::sync::atomic::AtomicBool::new(false);
    let daemon = Daemon::breaking(move |asked| {
        let first = asked.what.ends_with("/acquire") && !lost.swap(true, std::sync::atomic::Ordering::SeqCst);
        first.then_some(Fault::LoseReply)
    });
    let mut host = daemon.bridge();
    let failed = acquire(&mut host, "web");
    assert_eq!((&failed["class"], &failed["outcome"]), (&json!("socket.lost_after_send"), &json!("unknown")));
    let acquired = acquire(&mut host, "web");
    assert_eq!(acquired["changed"], false, "the first one did it");
    assert_eq!(daemon.tokens().len(), 1);
}

#[test]
fn a_lost_confirm_can_be_repeated() {
    let lost = std::sync::atomic::AtomicBool::new(false);
    let daemon = Daemon::breaking(move |asked| {
        let first = asked.what.ends_with("/confirm") && !lost.swap(true, std::sync::atomic::Ordering::SeqCst);
        first.then_some(Fault::LoseReply)
    });
    let mut host = daemon.bridge();
    let acquired = acquire(&mut host, "web");
    let handle = handle(&acquired).to_owned();
    assert_eq!(confirm(&mut host, &handle, 42)["class"], "socket.lost_after_send");
    assert_eq!(confirm(&mut host, &handle, 42)["port"], 3000);
}

#[test]
fn a_confirm_that_fails_keeps_handle_and_lease() {
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let daemon = Daemon::breaking(move |asked| {
        let failing =
            asked.what.ends_with("/confirm") && tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        let error = json!({"code": "conflict", "message": "nobody listens on 3000", "retryable": true,
            "details": {"port": 3000}});
        failing.then_some(Fault::Error(409, error))
    });
    let mut host = daemon.bridge();
    let acquired = acquire(&mut host, "web");
    let handle = handle(&acquired).to_owned();
    let failed = confirm(&mut host, &handle, 42);
    assert_eq!((&failed["class"], &failed["details"]["port"]), (&json!("resolve.conflict"), &json!(3000)));
    assert_eq!(confirm(&mut host, &handle, 42)["changed"], true);
}

#[test]
fn a_handle_means_nothing_elsewhere() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (daemon.bridge(), daemon.bridge());
    let acquired = acquire(&mut one, "web");
    let failed = confirm(&mut other, handle(&acquired), 42);
    assert_eq!(failed["class"], "custody.handle_unknown");
    assert!(daemon.all("POST /v1/leases/0198").is_empty());
}

#[test]
fn what_is_held_is_renewed_on_a_connection_of_its_own() {
    let daemon = Daemon::with(900, |_| None);
    let mut host = daemon.bridge();
    let acquired = acquire(&mut host, "web");
    let renewals = daemon.wait("three renewals", |journal| {
        let renewals: Vec<_> =
            journal.iter().filter(|asked| asked.what.ends_with("/renew")).cloned().collect();
        (renewals.len() >= 3).then_some(renewals)
    });
    let taken = daemon.asked("POST /v1/leases/acquire");
    for renewal in &renewals {
        assert_eq!(renewal.body["leaseToken"], taken.body["leaseToken"]);
        assert_ne!(renewal.connection, taken.connection);
    }
    assert_eq!(confirm(&mut host, handle(&acquired), 42)["changed"], true);
}

#[test]
fn a_lease_that_is_gone_says_why() {
    let daemon = Daemon::with(300, |asked| {
        let error = json!({"code": "lease_expired", "message": "the lease has expired", "retryable": false,
            "details": {}});
        asked.what.ends_with("/renew").then_some(Fault::Error(409, error))
    });
    let mut host = daemon.bridge();
    let acquired = acquire(&mut host, "web");
    daemon.asked("POST /v1/leases/0198c0de-0000-7000-8000-000000003000/renew");
    let failed = loop {
        let told = call(&mut host, "diagnostics_get", json!({}));
        if told["bridge"]["credentialsHeld"] == 0 {
            break confirm(&mut host, handle(&acquired), 42);
        }
    };
    assert_eq!(failed["class"], "custody.renewal_failed");
    assert_eq!(failed["details"]["cause"], "lease.expired");
    let told = call(&mut host, "diagnostics_get", json!({}));
    assert_eq!(told["recentFailures"][1]["class"], "custody.renewal_failed");
}

#[test]
fn custody_can_be_extended_within_its_bounds() {
    let daemon = Daemon::start();
    let mut host = daemon.bridge();
    let acquired = acquire(&mut host, "web");
    let extend = |host: &mut Host, minutes: u32| {
        let arguments = json!({"credentialHandle": handle(&acquired), "custodyMinutes": minutes});
        call(host, "leases_custody_extend", arguments)
    };
    let extended = extend(&mut host, 60);
    assert_eq!(extended["changed"], true);
    assert!(extended["custodyEndsAt"].as_str().unwrap() > acquired["custodyEndsAt"].as_str().unwrap());
    let shorter = extend(&mut host, 10);
    assert_eq!(shorter["changed"], false);
    assert_eq!(extend(&mut host, 61)["class"], "bridge.invalid_arguments");
    assert_eq!(extend(&mut host, 9)["class"], "bridge.invalid_arguments");
}
