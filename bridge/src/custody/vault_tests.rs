//! The rules of custody, without a clock or a daemon.

use portreeve_registry::{CredentialKind, Secret};
use serde_json::json;

use super::super::entry::WINDOW_MS;

use super::*;

const TOOL: &str = "leases_confirm";

fn credential(subject: &str) -> Credential {
    Credential { kind: CredentialKind::Lease, subject: subject.into(), group: None, secret: Secret::random() }
}

fn sibling(subject: &str) -> Credential {
    Credential { kind: CredentialKind::ActivationLease, group: Some("a".into()), ..credential(subject) }
}

fn arguments(pid: u32) -> Map<String, Value> {
    serde_json::from_value(json!({"rootPid": pid})).expect("an object")
}

fn answer() -> Answer {
    let content = serde_json::from_value(json!({"summary": "proved", "changed": true})).expect("an object");
    Answer { summary: "proved".into(), content }
}

/// Time passes with everything renewed in it.
fn pass(vault: &mut Vault, from: i64, to: i64) {
    for now in (from..=to).step_by(5_000) {
        for due in vault.due(now) {
            vault.renewed(&due.handle, Some(15_000), now);
        }
    }
}

fn refused(result: Result<Lent, Failure>) -> FailureClass {
    result.expect_err("refused").class
}

#[test]
fn the_same_subject_keeps_its_handle_and_its_window() {
    let mut vault = Vault::default();
    let (first, ends) = vault.hold(credential("one"), Some(15_000), 1_000);
    assert_eq!(ends, 1_000 + WINDOW_MS);
    let (again, still) = vault.hold(credential("one"), Some(15_000), 5_000);
    assert_eq!((&again, still), (&first, ends));
    let (other, _) = vault.hold(credential("two"), Some(15_000), 5_000);
    assert_ne!(other, first);
    assert_eq!(vault.held(), 2);
}

#[test]
fn renewal_comes_within_a_third_of_the_time_and_ten_seconds() {
    for (lease, expected) in
        [(Some(15_000), 5_000), (Some(120_000), 10_000), (Some(1_000), 333), (None, 1_000)]
    {
        let mut vault = Vault::default();
        let (handle, _) = vault.hold(credential("one"), lease, 0);
        assert_eq!(vault.next_look(0), Some(expected));
        assert!(vault.due(expected - 1).is_empty());
        assert_eq!(vault.due(expected)[0].handle, handle);
        vault.renewed(&handle, lease, expected);
        assert!(vault.due(expected).is_empty());
    }
    assert_eq!(Vault::default().next_look(0), None);
}

#[test]
fn a_settled_handle_replays_its_own_transition_and_refuses_others() {
    let mut vault = Vault::default();
    let (handle, _) = vault.hold(credential("one"), None, 0);
    assert!(matches!(vault.lend(&handle, "leases", TOOL, &arguments(7), 0), Ok(Lent::Held(_))));
    vault.settle(&handle, TOOL, arguments(7), answer());
    assert_eq!(vault.held(), 0);
    let Ok(Lent::Settled(again)) = vault.lend(&handle, "leases", TOOL, &arguments(7), 0) else {
        panic!("not replayed");
    };
    assert_eq!(again.content["changed"], false);
    let other = [("leases_abandon", 7), (TOOL, 8)];
    for (tool, pid) in other {
        let failure = vault.lend(&handle, "leases", tool, &arguments(pid), 0).expect_err("settled");
        assert_eq!(failure.class, FailureClass::CustodySettled);
        assert!(failure.message.contains("leases_confirm: proved"), "{}", failure.message);
    }
}

#[test]
fn a_handle_of_another_domain_or_bridge_is_refused() {
    let mut vault = Vault::default();
    let (handle, _) = vault.hold(sibling("one"), None, 0);
    let wrong = vault.lend(&handle, "leases", TOOL, &arguments(7), 0);
    assert_eq!(refused(wrong), FailureClass::BridgeInvalidArguments);
    let foreign = vault.lend(&CredentialHandle::random(), "leases", TOOL, &arguments(7), 0);
    assert_eq!(refused(foreign), FailureClass::CustodyHandleUnknown);
}

#[test]
fn what_a_reply_no_longer_shows_as_pending_is_wiped() {
    let mut vault = Vault::default();
    let (kept, _) = vault.hold(sibling("kept"), None, 0);
    let (gone, _) = vault.hold(sibling("gone"), None, 0);
    let (alone, _) = vault.hold(credential("alone"), None, 0);
    vault.settle_siblings("a", &["kept".to_owned()], "activations_abandon");
    assert_eq!(vault.held(), 2);
    assert!(vault.lend(&kept, "activations", "x", &Map::new(), 0).is_ok());
    assert!(vault.lend(&alone, "leases", "x", &Map::new(), 0).is_ok());
    assert_eq!(refused(vault.lend(&gone, "activations", "x", &Map::new(), 0)), FailureClass::CustodySettled);
}

#[test]
fn the_window_ends_and_can_be_extended_before() {
    let mut vault = Vault::default();
    let (short, _) = vault.hold(credential("short"), Some(15_000), 0);
    let (long, _) = vault.hold(credential("long"), Some(15_000), 0);
    assert_eq!(vault.extend(&long, 30, 0).unwrap(), (30 * 60_000, true));
    assert_eq!(vault.extend(&long, 20, 0).unwrap(), (30 * 60_000, false));
    pass(&mut vault, 0, WINDOW_MS - 5_000);
    let over = vault.lend(&short, "leases", TOOL, &arguments(7), WINDOW_MS);
    assert_eq!(refused(over), FailureClass::CustodyWindowEnded);
    assert_eq!(vault.extend(&short, 60, WINDOW_MS).unwrap_err().class, FailureClass::CustodyWindowEnded);
    assert!(vault.lend(&long, "leases", TOOL, &arguments(7), WINDOW_MS).is_ok());
}

#[test]
fn a_credential_in_use_outlives_its_window() {
    let mut vault = Vault::default();
    let (handle, _) = vault.hold(credential("one"), None, 0);
    pass(&mut vault, 0, WINDOW_MS - 5_000);
    assert!(vault.lend(&handle, "leases", TOOL, &arguments(7), WINDOW_MS - 1).is_ok());
    pass(&mut vault, WINDOW_MS, WINDOW_MS + 10_000);
    assert_eq!(vault.held(), 1);
    vault.give_back(&handle, false);
    vault.due(WINDOW_MS + 10_001);
    assert_eq!(vault.held(), 0);
}

#[test]
fn after_a_sleep_the_same_handle_still_works() {
    let mut vault = Vault::default();
    let (handle, _) = vault.hold(credential("one"), Some(15_000), 0);
    let woke = 8 * 3_600_000;
    assert_eq!(vault.due(woke)[0].handle, handle, "it is renewed at once");
    vault.renewed(&handle, Some(15_000), woke);
    assert!(vault.lend(&handle, "leases", TOOL, &arguments(7), woke + 14_000).is_ok());
    vault.give_back(&handle, false);
    vault.due(woke + 15_000);
    assert_eq!(vault.held(), 0, "one more lease time, and no longer");
}

#[test]
fn a_renewal_without_an_answer_is_tried_again_and_its_cause_told() {
    let mut vault = Vault::default();
    let (handle, _) = vault.hold(credential("one"), Some(15_000), 0);
    let absent = Failure::new(FailureClass::DaemonSocketAbsent, "no socket");
    assert!(!vault.renewal_failed(&handle, &absent, 5_000));
    assert_eq!(vault.next_look(5_000), Some(6_000));
    let expired = Failure::new(FailureClass::LeaseExpired, "the lease has expired");
    assert!(vault.renewal_failed(&handle, &expired, 20_000));
    let failure = vault.lend(&handle, "leases", TOOL, &arguments(7), 20_000).expect_err("lost");
    assert_eq!(failure.class, FailureClass::CustodyRenewalFailed);
    assert_eq!(failure.details["cause"], "daemon.socket_absent");
}

#[test]
fn a_doubtful_transition_keeps_its_credential_for_the_repeat() {
    let mut vault = Vault::default();
    let (handle, _) = vault.hold(credential("one"), Some(15_000), 0);
    vault.lend(&handle, "leases", TOOL, &arguments(7), 0).expect("held");
    vault.give_back(&handle, true);
    let settled = Failure::new(FailureClass::LeaseNotPending, "the lease is not pending");
    assert!(!vault.renewal_failed(&handle, &settled, 5_000));
    assert!(matches!(vault.lend(&handle, "leases", TOOL, &arguments(7), 6_000), Ok(Lent::Held(_))));
    assert!(vault.due(9_000).is_empty(), "it is not renewed any more");
}

#[test]
fn the_daemons_word_that_it_is_gone_buries_a_handle() {
    let mut vault = Vault::default();
    let (handle, _) = vault.hold(credential("one"), Some(15_000), 0);
    let conflict = Failure::new(FailureClass::Conflict, "nothing listens");
    assert_eq!(vault.gone(&handle, conflict).class, FailureClass::Conflict);
    assert_eq!(vault.held(), 1, "a failed confirm keeps handle and lease");
    let expired = Failure::new(FailureClass::LeaseExpired, "the lease has expired");
    assert_eq!(vault.gone(&handle, expired).class, FailureClass::LeaseExpired);
    assert_eq!(vault.held(), 0);
}

#[test]
fn tombstones_and_credentials_are_bounded() {
    let mut vault = Vault::default();
    for number in 0..MOST_HELD {
        vault.hold(credential(&number.to_string()), None, 0);
    }
    assert_eq!(vault.room().unwrap_err().class, FailureClass::PolicyRefused);
    for due in vault.idle() {
        vault.settle(&due.handle, TOOL, Map::new(), answer());
    }
    assert_eq!(vault.places.len(), MOST_TOMBSTONES);
    assert!(vault.room().is_ok());
}
