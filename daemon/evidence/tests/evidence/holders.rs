//! Who holds a port: all of them, and why not, if not.

use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;

use portreeve_evidence::{
    Holding, Kernel, Liveness, ProcessId, Reading, Search, Source, Unknown, Visibility, Why,
};

use crate::actor::{Actor, bound};
use crate::isolation::{in_own_network, run, with_own_mounts};
use crate::support::{deadline, free_port, is_root, kernel, listening_on, needs_root, output, until};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NOBODY: u32 = 65534;

fn holdings(kernel: &Kernel, port: u16, search: Search) -> Vec<Holding> {
    kernel.holdings(&listening_on(port), search, &deadline())
}

fn pids(holding: &Holding) -> Vec<u32> {
    holding.holders.iter().map(|holder| holder.process.pid).collect()
}

fn sorted<const N: usize>(mut pids: [u32; N]) -> [u32; N] {
    pids.sort_unstable();
    pids
}

#[test]
fn the_holder_of_each_address_is_found() {
    for (address, options) in [
        ("::1", ["v6only"].as_slice()),
        ("::", &["v6only"]),
        ("::", &[]),
        ("0.0.0.0", &[]),
        ("127.0.0.1", &[]),
        ("127.0.0.2", &[]),
    ] {
        let port = free_port();
        let mut actor = Actor::start();
        actor.ask(&format!("listen {address} {port} {}", options.join(" ")));
        for search in [Search::Every, Search::Known] {
            let found = holdings(&kernel(), port, search);
            assert_eq!(found.len(), 1);
            assert_eq!(pids(&found[0]), [actor.pid()], "{address} {search:?}");
            assert_eq!(found[0].visibility, Visibility::Visible);
            assert_eq!(found[0].complete, search == Search::Every);
        }
    }
}

#[test]
fn the_holder_is_named_with_start_and_descriptor() {
    let port = free_port();
    let listener = TcpListener::bind((V4, port)).expect("a free port");
    let found = holdings(&kernel(), port, Search::Every);
    let own = kernel().kin(std::process::id()).expect("readable").expect("lives").id;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&listener).unsigned_abs();
    // Another thread may just be starting an actor, which for an instant has our descriptors.
    assert!(found[0].holders.iter().any(|holder| holder.process == own && holder.fd == fd), "{found:?}");
}

#[test]
fn two_sockets_share_a_port_by_reuseport() {
    let port = free_port();
    let (mut one, mut two) = (Actor::start(), Actor::start());
    one.ask(&format!("listen 127.0.0.1 {port} reuseport"));
    two.ask(&format!("listen 127.0.0.1 {port} reuseport"));
    let found = holdings(&kernel(), port, Search::Every);
    assert_eq!(found.len(), 2);
    let mut both: Vec<u32> = found.iter().flat_map(pids).collect();
    both.sort_unstable();
    assert_eq!(both, sorted([one.pid(), two.pid()]));
    assert_ne!(found[0].socket.inode, found[1].socket.inode);
}

#[test]
fn v4_and_v6_of_one_port_may_be_two_owners() {
    let port = free_port();
    let (mut four, mut six) = (Actor::start(), Actor::start());
    four.ask(&format!("listen 127.0.0.1 {port}"));
    six.ask(&format!("listen ::1 {port} v6only"));
    let found = holdings(&kernel(), port, Search::Every);
    assert_eq!(found.len(), 2);
    for holding in &found {
        let expected = if holding.socket.address.is_ipv4() { four.pid() } else { six.pid() };
        assert_eq!(pids(holding), [expected]);
    }
}

#[test]
fn an_inherited_descriptor_has_two_holders() {
    let port = free_port();
    let mut parent = Actor::start();
    parent.ask(&format!("listen 127.0.0.1 {port}"));
    let child = parent.number("child");
    let kernel = kernel();
    let found = holdings(&kernel, port, Search::Every);
    assert_eq!(found.len(), 1, "one socket");
    assert_eq!(pids(&found[0]), sorted([parent.pid(), child]));
    assert!(found[0].complete);
    // Remembered, and both checked again.
    assert_eq!(pids(&holdings(&kernel, port, Search::Known)[0]), sorted([parent.pid(), child]));
    // The parent closes its copy: the child alone holds the port now.
    parent.ask("close");
    for search in [Search::Known, Search::Every] {
        assert_eq!(pids(&holdings(&kernel, port, search)[0]), [child], "{search:?}");
    }
}

#[test]
fn relatives_of_a_tree_are_all_who_can_have_inherited_its_socket() {
    let port = free_port();
    let mut parent = Actor::start();
    parent.ask(&format!("listen 127.0.0.1 {port}"));
    let child = parent.number("child");
    let kernel = kernel();
    let root = |pid: u32| kernel.kin(pid).expect("readable").expect("lives").id;
    // Those below and those above, whichever of them is the root.
    for pid in [parent.pid(), child] {
        let found = holdings(&kernel, port, Search::Related(root(pid)));
        assert_eq!(pids(&found[0]), sorted([parent.pid(), child]));
        assert_eq!(found[0].visibility, Visibility::Visible);
    }
    // An elder sibling of the group, once the parent has closed its own.
    let younger = parent.number("child");
    parent.ask("close");
    let found = holdings(&kernel, port, Search::Related(root(younger)));
    assert_eq!(pids(&found[0]), sorted([child, younger]));
}

#[test]
fn an_elder_stranger_is_no_relative_and_a_younger_process_is_looked_into() {
    let port = free_port();
    let kernel = kernel();
    let own_session = || Actor::in_shell("exec setsid --wait \"$@\"");
    let mut elder = own_session();
    elder.ask(&format!("listen 127.0.0.1 {port} reuseport"));
    let holder_of = |found: &[Holding]| found.iter().flat_map(|h| h.holders.clone()).next_back();
    let stranger = holder_of(&holdings(&kernel, port, Search::Every)).expect("it listens").process;
    // Starts are told apart by clock ticks.
    let (mut younger, root) = loop {
        let mut actor = own_session();
        let elsewhere = free_port();
        actor.ask(&format!("listen 127.0.0.1 {elsewhere}"));
        let root = holder_of(&holdings(&kernel, elsewhere, Search::Every)).expect("it listens").process;
        if root.start_ticks > stranger.start_ticks {
            break (actor, root);
        }
    };
    younger.ask(&format!("listen 127.0.0.1 {port} reuseport"));
    let found = holdings(&kernel, port, Search::Related(root));
    assert_eq!(found.len(), 2);
    let seen: Vec<u32> = found.iter().flat_map(pids).collect();
    assert_eq!(seen, [root.pid], "the elder one's socket is left open");
    let mut both: Vec<u32> =
        holdings(&kernel, port, Search::Related(stranger)).iter().flat_map(pids).collect();
    both.sort_unstable();
    assert_eq!(both, sorted([stranger.pid, root.pid]));
}

#[test]
fn a_survey_goes_on_with_what_has_changed() {
    let port = free_port();
    let mut parent = Actor::start();
    parent.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    assert_eq!(pids(&holdings(&kernel, port, Search::Since)[0]), [parent.pid()]);
    // A process that inherited the socket after the survey.
    let child = parent.number("child");
    assert_eq!(pids(&holdings(&kernel, port, Search::Since)[0]), sorted([parent.pid(), child]));
    assert_eq!(pids(&holdings(&kernel, port, Search::Since)[0]), sorted([parent.pid(), child]));
    // One of them closes it.
    parent.ask("close");
    assert_eq!(pids(&holdings(&kernel, port, Search::Since)[0]), [child]);
    // A process that the survey knows makes another socket, under the descriptor it had closed.
    let other = free_port();
    parent.ask(&format!("listen 127.0.0.1 {other}"));
    assert_eq!(pids(&holdings(&kernel, other, Search::Since)[0]), [parent.pid()]);
    assert_eq!(pids(&holdings(&kernel, port, Search::Since)[0]), [child]);
    // And both sockets at once, asked for in one go.
    let mut both = kernel.listening(&deadline()).expect("readable");
    both.retain(|socket| socket.port == port || socket.port == other);
    let found = kernel.holdings(&both, Search::Since, &deadline());
    for holding in &found {
        assert_eq!(pids(holding), [if holding.socket.port == port { child } else { parent.pid() }]);
    }
    assert_eq!(found.len(), 2);
    let mut late = Actor::start();
    late.ask(&format!("listen ::1 {port}"));
    let found = holdings(&kernel, port, Search::Since);
    assert_eq!(found.len(), 2);
    assert!(
        found
            .iter()
            .all(|holding| pids(holding)
                == [if holding.socket.address.is_ipv4() { child } else { late.pid() }])
    );
    late.kill();
    until("its socket is closed", || listening_on(port).len() == 1);
    assert_eq!(pids(&holdings(&kernel, port, Search::Since)[0]), [child]);
}

#[test]
fn an_outline_is_the_process_without_the_rest() {
    let kernel = kernel();
    let own = std::process::id();
    let full = kernel.process(own).expect("readable").expect("there");
    let outline = kernel.outline(own).expect("readable").expect("there");
    assert_eq!(
        (&outline.executable, &outline.working_directory),
        (&full.executable, &full.working_directory)
    );
    assert_eq!((outline.id, outline.parent, outline.uid), (full.id, full.parent, full.uid));
    assert_eq!((outline.started_at_unix_ms, &outline.command), (full.started_at_unix_ms, &full.name));
    assert_eq!(kernel.outline(4_194_305), Ok(None));
}

#[test]
fn a_client_of_the_port_is_no_holder() {
    let port = free_port();
    let (mut server, mut client) = (Actor::start(), Actor::start());
    server.ask(&format!("listen 127.0.0.1 {port}"));
    client.ask(&format!("connect {port}"));
    let found = holdings(&kernel(), port, Search::Every);
    assert_eq!(found.len(), 1);
    assert_eq!(pids(&found[0]), [server.pid()]);
}

#[test]
fn what_is_remembered_is_checked_again() {
    let port = free_port();
    let mut one = Actor::start();
    one.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    assert_eq!(pids(&holdings(&kernel, port, Search::Known)[0]), [one.pid()]);
    let before = listening_on(port);
    one.ask("close");
    assert!(listening_on(port).is_empty());
    // The same descriptor number is another socket now.
    let other = free_port();
    one.ask(&format!("listen 127.0.0.1 {other}"));
    let found = kernel.holdings(&before, Search::Known, &deadline());
    assert!(found[0].holders.is_empty(), "{found:?}");
    let mut two = Actor::start();
    two.ask(&format!("listen 127.0.0.1 {port}"));
    assert_eq!(pids(&holdings(&kernel, port, Search::Known)[0]), [two.pid()]);
}

#[test]
fn a_holder_that_ended_is_no_holder() {
    let port = free_port();
    let mut parent = Actor::start();
    parent.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    let before = listening_on(port);
    assert_eq!(pids(&kernel.holdings(&before, Search::Known, &deadline())[0]), [parent.pid()]);
    parent.kill();
    until("its socket is closed", || listening_on(port).is_empty());
    assert!(kernel.holdings(&before, Search::Known, &deadline())[0].holders.is_empty());
}

#[test]
fn a_passed_deadline_leaves_holders_unknown() {
    let port = free_port();
    let _listener = TcpListener::bind((V4, port)).expect("a free port");
    let late = portreeve_evidence::Deadline::after(std::time::Duration::ZERO);
    let found = kernel().holdings(&listening_on(port), Search::Every, &late);
    assert!(matches!(found[0].visibility, Visibility::Unknown(unknown) if unknown.why == Why::Deadline));
    assert!(!found[0].complete);
}

#[test]
fn a_socket_bound_only_has_a_holder_where_the_kernel_shows_it() {
    let port = free_port();
    let mut actor = Actor::start();
    actor.ask(&format!("bind 127.0.0.1 {port}"));
    let kernel = kernel();
    let shown = kernel.bound_on(port, &deadline()).expect("readable");
    if shown.is_empty() {
        println!("not shown by this kernel: sockets that are bound only");
        return;
    }
    assert_eq!(pids(&kernel.holdings(&shown, Search::Every, &deadline())[0]), [actor.pid()]);
}

#[test]
fn the_listeners_of_given_processes_are_told() {
    let (asked, slid) = (free_port(), free_port());
    let mut server = Actor::start();
    server.ask(&format!("listen 127.0.0.1 {slid}"));
    let mut other = Actor::start();
    other.ask(&format!("listen 127.0.0.1 {asked}"));
    let gone = u32::MAX;
    let found = kernel().listeners_of(&[server.pid(), gone], &deadline()).expect("readable");
    let ports: Vec<u16> = found.iter().map(|holding| holding.socket.port).collect();
    assert_eq!(ports, [slid]);
    assert_eq!(pids(&found[0]), [server.pid()]);
}

#[test]
fn another_users_holder_is_seen_by_root() {
    if !needs_root("another_users_holder_is_seen_by_root") {
        return;
    }
    let port = free_port();
    let mut actor = Actor::start_as(NOBODY);
    actor.ask(&format!("listen 127.0.0.1 {port}"));
    let found = holdings(&kernel(), port, Search::Every);
    assert_eq!(found[0].socket.uid, NOBODY);
    assert_eq!(pids(&found[0]), [actor.pid()]);
}

#[test]
fn a_socket_without_a_visible_holder_is_found_once_a_young_process_has_it() {
    if is_root() {
        println!(
            "run as an unprivileged user: a_socket_without_a_visible_holder_is_found_once_a_young_process_has_it"
        );
        return;
    }
    let port = free_port();
    let mut parent = Actor::start();
    parent.ask(&format!("listen 127.0.0.1 {port}"));
    parent.ask("undumpable");
    let kernel = kernel();
    for _ in 0..3 {
        let found = holdings(&kernel, port, Search::Known);
        assert!(matches!(found[0].visibility, Visibility::NotObservable { reason: Why::NotDumpable(_) }));
    }
    // An exec makes it readable again; its child has the socket too.
    let child = parent.number("child");
    let found = holdings(&kernel, port, Search::Known);
    assert_eq!((pids(&found[0]), found[0].visibility), (vec![child], Visibility::Visible));
}

/// Root's listener as an ordinary user sees it. Under root a thread can't give up its user alone (all of its
/// readings would have to), so the case is this binary's own run as an unprivileged user.
#[test]
fn another_users_holder_is_not_observable() {
    if is_root() {
        println!("run as an unprivileged user: another_users_holder_is_not_observable");
        return;
    }
    // Who runs this as root leaves a listener here (see `restricted`).
    let Some(port) = std::env::var("PORTREEVE_EVIDENCE_ROOTS_PORT").ok().and_then(|port| port.parse().ok())
    else {
        println!("not run (needs root): another_users_holder_is_not_observable");
        return;
    };
    for search in [Search::Every, Search::Known] {
        let found = holdings(&kernel(), port, search);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].visibility, Visibility::NotObservable { reason: Why::OtherUser(0) });
        assert!(!found[0].complete && found[0].holders.is_empty());
    }
    assert_eq!(kernel().probe(port, &deadline()), portreeve_evidence::Probe::Held);
}

#[test]
fn an_undumpable_holder_is_not_observable() {
    let port = free_port();
    let mut actor = Actor::start();
    actor.ask(&format!("listen 127.0.0.1 {port}"));
    actor.ask("undumpable");
    let found = holdings(&kernel(), port, Search::Every);
    if is_root() {
        assert_eq!(pids(&found[0]), [actor.pid()], "root may look into any process");
        return;
    }
    // (Another case's undumpable process of ours may be named in its place.)
    let Visibility::NotObservable { reason: Why::NotDumpable(_) } = found[0].visibility else {
        panic!("{found:?}");
    };
    // Its place among the others is known all the same.
    let kin = kernel().kin(actor.pid()).expect("readable").expect("lives");
    assert_eq!(kin.parent, std::process::id());
    let process = kernel().process(actor.pid()).expect("readable").expect("lives");
    assert_eq!(process.uid, rustix::process::geteuid().as_raw());
    assert_eq!((process.executable, process.working_directory, process.net_ns_same), (None, None, None));
}

/// A holder, and a related process that can't be looked into: so there may be more holders than are seen.
fn check_related(start: impl FnOnce(&mut Actor) -> (u32, Option<Actor>), has_it: bool) {
    let port = free_port();
    let mut parent = Actor::start();
    parent.ask(&format!("listen 127.0.0.1 {port}"));
    assert!(holdings(&kernel(), port, Search::Every)[0].complete);
    let (related, _kept) = start(&mut parent);
    let found = holdings(&kernel(), port, Search::Every);
    if is_root() && has_it {
        assert_eq!(pids(&found[0]), sorted([parent.pid(), related]));
    } else {
        assert_eq!(pids(&found[0]), [parent.pid()]);
    }
    assert_eq!(found[0].complete, is_root());
}

#[test]
fn an_undumpable_child_makes_the_holders_incomplete() {
    check_related(|parent| (parent.number("child undumpable own-group"), None), true);
}

#[test]
fn an_undumpable_process_of_the_group_makes_the_holders_incomplete() {
    let start = |parent: &mut Actor| {
        let group = i32::try_from(parent.pid()).expect("a pid");
        let mut other = Actor::from(Actor::command("/proc/self/exe").process_group(group));
        other.ask("undumpable");
        (other.pid(), Some(other))
    };
    check_related(start, false);
}

#[test]
fn an_unrelated_undumpable_process_leaves_the_holders_complete() {
    let port = free_port();
    let (mut server, mut other) = (Actor::start(), Actor::start());
    server.ask(&format!("listen 127.0.0.1 {port}"));
    other.ask("undumpable");
    assert!(holdings(&kernel(), port, Search::Every)[0].complete);
}

#[test]
fn a_process_in_another_network_is_not_on_our_port() {
    let port = free_port();
    let mut ours = Actor::start();
    ours.ask(&format!("listen 127.0.0.1 {port}"));
    in_own_network("a_process_in_another_network_is_not_on_our_port", || {
        let mut theirs = Actor::start();
        theirs.ask(&format!("listen 127.0.0.1 {port}"));
        // Seen from within: theirs only.
        assert_eq!(pids(&holdings(&kernel(), port, Search::Every)[0]), [theirs.pid()]);
        let pid = theirs.pid();
        let (inside, outside) = (kernel().process(pid), kernel().process(ours.pid()));
        assert_eq!(inside.expect("readable").expect("lives").net_ns_same, Some(true));
        assert_eq!(outside.expect("readable").expect("lives").net_ns_same, Some(false));
        // Seen from ours, while theirs listens: ours only.
        std::thread::scope(|scope| {
            let look = scope.spawn(|| {
                rustix::thread::move_into_link_name_space(
                    std::os::fd::AsFd::as_fd(&std::fs::File::open("/proc/self/ns/net").expect("readable")),
                    Some(rustix::thread::LinkNameSpaceType::Network),
                )
                .expect("root may go back");
                let found = holdings(&kernel(), port, Search::Every);
                assert_eq!(found.len(), 1);
                assert_eq!(pids(&found[0]), [ours.pid()]);
                let process = kernel().process(pid).expect("readable").expect("lives");
                assert_eq!(process.net_ns_same, Some(false));
                assert!(kernel().listeners_of(&[pid], &deadline()).expect("readable").is_empty());
            });
            look.join().expect("seen from ours");
        });
    });
}

#[test]
fn under_hidepid_another_users_holder_is_not_observable() {
    let name = "under_hidepid_another_users_holder_is_not_observable";
    let port = free_port();
    let mut roots = Actor::start();
    roots.ask(&format!("listen 127.0.0.1 {port}"));
    with_own_mounts(name, || {
        // The inner case, in this mount namespace, as an unprivileged user.
        assert!(run("mount", &["-t", "proc", "-o", "hidepid=2", "proc", "/proc"]));
        let mut command = std::process::Command::new("/proc/self/exe");
        command
            .args(["--exact", "holders::inside_hidepid", "--nocapture"])
            .env("PORTREEVE_EVIDENCE_HIDDEN_PORT", port.to_string())
            .env("PORTREEVE_EVIDENCE_HIDDEN_PID", roots.pid().to_string());
        // The group too: members of group 0 are exempt from hidepid.
        command.uid(NOBODY).gid(NOBODY);
        let output = output(&mut command).expect("this binary can be run");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    });
}

/// No case of its own: see above.
#[test]
fn inside_hidepid() {
    let Some(port) = std::env::var("PORTREEVE_EVIDENCE_HIDDEN_PORT").ok().and_then(|port| port.parse().ok())
    else {
        return;
    };
    let kernel = kernel();
    // Processes of others are hidden, and not taken for dead.
    assert!(!std::path::Path::new("/proc/1").exists());
    let roots: u32 = std::env::var("PORTREEVE_EVIDENCE_HIDDEN_PID").expect("told").parse().expect("a pid");
    for pid in [1, roots] {
        let hidden = Unknown::new(Reading::Process(pid), Why::Hidden);
        assert_eq!(kernel.kin(pid), Err(hidden));
        assert_eq!(kernel.process(pid), Err(hidden));
        assert_eq!(kernel.alive(ProcessId { pid, start_ticks: 1 }), Liveness::Unknown(hidden));
    }
    assert_eq!(kernel.kin(i32::MAX.unsigned_abs()), Ok(None), "this one is not there at all");
    let lineage = kernel.lineage(std::process::id(), Some(1)).expect("as far as it goes");
    assert!(!lineage.chain.is_empty() && !lineage.reached);
    let found = holdings(&kernel, port, Search::Every);
    assert_eq!(found.len(), 1, "the table shows it");
    assert_eq!(found[0].visibility, Visibility::NotObservable { reason: Why::Hidden });
    // Our own are seen as ever.
    let own = free_port();
    let _listener = bound(V4, own, &[]).and_then(|socket| {
        rustix::net::listen(&socket, 1)?;
        Ok(socket)
    });
    assert_eq!(pids(&holdings(&kernel, own, Search::Every)[0]), [std::process::id()]);
}

#[test]
fn readings_from_many_threads_agree() {
    let port = free_port();
    let mut actor = Actor::start();
    actor.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(pids(&holdings(&kernel, port, Search::Known)[0]), [actor.pid()]);
                }
            });
        }
    });
    drop(TcpStream::connect((V4, port)));
}
