//! The verdict's order of reasons, over simulated sockets: what no machine here can show end to end.

use super::*;
use portreeve_evidence::simulated::Simulated;
use portreeve_evidence::{Socket, Why};
use portreeve_records::{
    Classification, DockerContainer, DockerEvidence, EvidenceState, HolderView, Ownership, ProcessView,
    RunState, RunView, Transport,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn port() -> PortNumber {
    PortNumber::new(3000).expect("3000 is a port")
}

fn ask(policy: ReclaimPolicy, kind: ReclaimKind) -> Ask {
    Ask { port: port(), policy, workspace: None, kind, expected: None }
}

fn graceful() -> Ask {
    ask(ReclaimPolicy::Graceful, ReclaimKind::Reclaim)
}

fn process(pid: u32) -> ProcessView {
    ProcessView {
        pid: Pid::new(pid).expect("a pid"),
        parent_pid: 1,
        uid: 1000,
        start_time: format!("2026-01-01T00:00:00.{pid:03}Z"),
        executable: String::new(),
        command: "server".into(),
        working_directory: "/".into(),
    }
}

fn listener(pid: u32, reason: OwnershipReason) -> Listener {
    let verified = reason == OwnershipReason::Verified;
    Listener {
        pid: Pid::new(pid).expect("a pid"),
        port: port(),
        command: None,
        names: vec!["127.0.0.1:3000".into()],
        process: Some(process(pid)),
        ownership: Ownership { verified, reason, lineage: Vec::new() },
    }
}

fn run(binding_kind: BindingKind) -> RunView {
    RunView {
        id: Id::fresh(),
        claim_id: Id::fresh(),
        lease_id: Id::fresh(),
        port: port(),
        state: RunState::Confirmed,
        binding_kind,
        root_pid: None,
        root_fingerprint: None,
        container_id: None,
        provider_evidence: None,
        confirmed_at: String::new(),
        released_at: None,
        confirmed_listener_fingerprints: Vec::new(),
    }
}

fn entry(run: Option<RunView>, listeners: Vec<Listener>) -> InventoryEntry {
    InventoryEntry {
        port: port(),
        transport: Transport::Tcp,
        classification: Classification::Verified,
        claim: None,
        lease: None,
        run,
        docker: None,
        listeners,
        evidence: EvidenceState { complete: true, notes: Vec::new() },
        holders: Vec::new(),
    }
}

/// A machine on which these processes hold one socket.
fn holdings(pids: &[u32]) -> (Simulated, Vec<Holding>) {
    let machine = Simulated::new();
    let mut socket: Option<Socket> = None;
    for pid in pids {
        machine.start(*pid, 1);
        match &socket {
            None => socket = Some(machine.listen(*pid, HOST, 3000)),
            Some(socket) => machine.inherit(socket, *pid),
        }
    }
    let deadline = Deadline::after(Duration::from_secs(1));
    let sockets = machine.listening_on(3000, &deadline).expect("it can be read");
    let held = machine.holdings(&sockets, Search::Every, &deadline);
    (machine, held)
}

fn reason(ask: &Ask, entry: &InventoryEntry, held: &[Holding]) -> (ReclaimOutcome, String) {
    let action = launcher_action(containers(entry).as_ref());
    let verdict = judge(ask, entry, held, action.is_some());
    (verdict.outcome, verdict.reason.unwrap_or_default())
}

#[test]
fn reasons_come_in_their_order() {
    use OwnershipReason::{NotInRunLineage, ProcessUnobservable, Verified};
    let refused = |reason: &str| (ReclaimOutcome::Refused, reason.to_owned());
    let (_, held) = holdings(&[10, 11]);
    let own = || Some(run(BindingKind::Process));
    let free = entry(own(), Vec::new());
    assert_eq!(reason(&graceful(), &free, &[]), (ReclaimOutcome::AlreadyFree, String::new()));
    let mut forwarded = free;
    forwarded.evidence.notes.push(EvidenceNote::Forwarded);
    assert_eq!(reason(&graceful(), &forwarded, &[]), refused("forwarded"));

    let both = |one, other| entry(own(), vec![listener(10, one), listener(11, other)]);
    let never = ask(ReclaimPolicy::Never, ReclaimKind::Reclaim);
    assert_eq!(reason(&graceful(), &both(Verified, Verified), &held).0, ReclaimOutcome::WouldTerminate);
    assert_eq!(reason(&never, &both(Verified, Verified), &held), refused("replacement-policy-never"));
    assert_eq!(reason(&never, &both(Verified, NotInRunLineage), &held), refused("ownership-mixed"));
    assert_eq!(
        reason(&never, &both(NotInRunLineage, NotInRunLineage), &held),
        refused("ownership-unverified")
    );
    assert_eq!(reason(&never, &both(Verified, ProcessUnobservable), &held), refused("process-unobservable"));
    let strangers = entry(None, vec![listener(10, Verified), listener(11, Verified)]);
    assert_eq!(reason(&graceful(), &strangers, &held), refused("ownership-unverified"));
    let evict = ask(ReclaimPolicy::Graceful, ReclaimKind::UnsafeEviction);
    assert_eq!(reason(&evict, &both(NotInRunLineage, Verified), &held).0, ReclaimOutcome::WouldTerminate);
}

#[test]
fn a_holder_that_cant_be_seen_refuses_reclaim_and_eviction_alike() {
    let machine = Simulated::new();
    let hidden = Visibility::NotObservable { reason: Why::OtherUser(0) };
    machine.listen_unseen(0, HOST, 3000, hidden);
    let deadline = Deadline::after(Duration::from_secs(1));
    let sockets = machine.listening_on(3000, &deadline).unwrap();
    let held = machine.holdings(&sockets, Search::Every, &deadline);
    let mut seen = entry(Some(run(BindingKind::Process)), Vec::new());
    let name = "127.0.0.1:3000".to_owned();
    seen.holders.push(HolderView { name, uid: 0, note: EvidenceNote::HolderNotObservable });
    for kind in [ReclaimKind::Reclaim, ReclaimKind::UnsafeEviction] {
        let (outcome, why) = reason(&ask(ReclaimPolicy::ForceAfterGrace, kind), &seen, &held);
        assert_eq!((outcome, why.as_str()), (ReclaimOutcome::Refused, "process-unobservable"));
    }
}

#[test]
fn a_containers_port_is_its_launchers_to_free() {
    let (_, held) = holdings(&[10]);
    let mut seen = entry(Some(run(BindingKind::Docker)), vec![listener(10, OwnershipReason::Verified)]);
    let without_engine = reason(&graceful(), &seen, &held);
    assert_eq!(without_engine, (ReclaimOutcome::Refused, "docker-evidence-unavailable".to_owned()));
    let container = |id: &str| DockerContainer {
        id: id.to_owned(),
        running: true,
        labels: BTreeMap::new(),
        ports: Vec::new(),
    };
    let found = vec![container("b"), container("a")];
    seen.docker = Some(DockerEvidence { available: true, reason: None, containers: found });
    let (outcome, why) = reason(&graceful(), &seen, &held);
    assert_eq!(outcome, ReclaimOutcome::LauncherActionRequired);
    assert_eq!(why, "docker-managed-listener");
    let action = launcher_action(containers(&seen).as_ref()).unwrap();
    assert_eq!((action.kind.as_str(), action.action.as_str()), ("docker", "stop-container"));
    assert_eq!(action.container_ids, ["a", "b"]);
}

#[test]
fn only_those_who_were_shown_are_evicted() {
    let seen = entry(None, vec![listener(10, OwnershipReason::NoConfirmedRunEvidence)]);
    let expecting = |pid: u32| {
        let shown = process(pid);
        let expected = vec![ExpectedProcess { pid: shown.pid, start_time: shown.start_time }];
        Ask { expected: Some(expected), ..ask(ReclaimPolicy::Graceful, ReclaimKind::UnsafeEviction) }
    };
    assert!(as_expected(&expecting(10), &seen));
    assert!(!as_expected(&expecting(11), &seen));
    assert!(as_expected(&ask(ReclaimPolicy::Graceful, ReclaimKind::UnsafeEviction), &seen));
}

#[test]
fn the_holders_of_a_plan_are_told_apart_by_their_start() {
    let (machine, before) = holdings(&[10, 11]);
    let plan = |holdings: &[Holding]| -> serde_json::Value {
        holdings
            .iter()
            .map(|h| (h.socket.inode.to_string(), serde_json::to_value(held(h)).unwrap()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let look = || {
        let deadline = Deadline::after(Duration::from_secs(1));
        let sockets = machine.listening_on(3000, &deadline).unwrap();
        machine.holdings(&sockets, Search::Every, &deadline)
    };
    // Another process elsewhere is no part of it.
    machine.start(50, 1);
    assert_eq!(plan(&look()), plan(&before));
    // A worker ends, and another one under its very pid takes over the socket.
    machine.end(11);
    let without = plan(&look());
    assert_ne!(without, plan(&before));
    machine.start(11, 10);
    machine.inherit(&before[0].socket, 11);
    assert_ne!(plan(&look()), without);
    assert_ne!(plan(&look()), plan(&before));
}
