//! Free or not: the table of `bind` and holders, and what else makes a port not free.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use portreeve_evidence::{Probe, Source, is_bad_port};

use crate::actor::bound;
use crate::isolation::{in_own_network, in_thread, refuse_sockets, run};
use crate::support::{deadline, free_port, is_root, kernel, listening_on, no_copies, until};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn probe(port: u16) -> Probe {
    kernel().probe(port, &deadline())
}

/// A listener on this address: the probe says held, the table shows it, and whether simpler binds would have
/// been fooled is as the table in the design says.
fn check(address: &str, options: &[&str], fooled: [bool; 3]) {
    let port = free_port();
    assert_eq!(probe(port), Probe::Free, "before");
    let address: IpAddr = address.parse().expect("literal");
    let listener = bound(address, port, options).expect("a free port");
    rustix::net::listen(&listener, 1).expect("bound");
    let [v4, any, v6] = fooled;
    for (simple, fooled) in [("127.0.0.1", v4), ("0.0.0.0", any), ("::1", v6)] {
        let simple: IpAddr = simple.parse().expect("literal");
        assert_eq!(bound(simple, port, &[]).is_ok(), fooled, "a bind of {simple} beside {address}");
    }
    assert_eq!(probe(port), Probe::Held);
    let rows = listening_on(port);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((rows[0].address, rows[0].port), (address, port));
    assert_eq!(rows[0].v6only, options.contains(&"v6only"));
    assert_eq!(rows[0].uid, rustix::process::geteuid().as_raw());
    assert!(rows[0].inode != 0 && rows[0].cookie != 0);
    let whole = kernel().listening(&deadline()).expect("the table can be read");
    assert!(whole.contains(&rows[0]), "the whole table shows it too");
    drop(listener);
    until("free afterwards", || probe(port) == Probe::Free);
}

#[test]
fn held_on_v6_loopback() {
    check("::1", &["v6only"], [true, true, false]);
}

#[test]
fn held_on_v6_any_v6only() {
    check("::", &["v6only"], [true, true, false]);
}

#[test]
fn held_on_v6_any_dual_stack() {
    check("::", &[], [false, false, false]);
}

#[test]
fn held_on_v4_any() {
    check("0.0.0.0", &[], [false, false, true]);
}

#[test]
fn held_on_v4_loopback() {
    check("127.0.0.1", &[], [false, false, true]);
}

#[test]
fn held_on_another_v4_loopback() {
    check("127.0.0.2", &[], [true, false, true]);
}

#[test]
fn bound_but_not_listening_is_held_without_a_row() {
    let port = free_port();
    let socket = bound(V4, port, &[]).expect("a free port");
    assert!(listening_on(port).is_empty());
    assert_eq!(probe(port), Probe::Held);
    let shown = kernel().bound_on(port, &deadline()).expect("the table can be read");
    if shown.is_empty() {
        println!("not shown by this kernel: sockets that are bound only");
    } else {
        assert_eq!((shown[0].address, shown[0].port, shown.len()), (V4, port, 1));
    }
    drop(socket);
}

#[test]
fn bound_with_reuseaddr_and_not_listening_is_held() {
    // A bind with SO_REUSEADDR works beside this one; only the strict bind and the table tell.
    for address in ["127.0.0.1", "::1", "::"] {
        let port = free_port();
        let socket = bound(address.parse().expect("literal"), port, &["reuse"]).expect("a free port");
        assert_eq!(probe(port), Probe::Held, "{address}");
        drop(socket);
    }
}

#[test]
fn the_source_port_of_a_connection_is_held() {
    let listener = TcpListener::bind((V4, 0)).expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    let client = TcpStream::connect((V4, port)).expect("somebody listens");
    let source = client.local_addr().expect("connected").port();
    assert_eq!(probe(source), Probe::Held);
    assert!(listening_on(source).is_empty());
}

/// A connection to a listener of the given options, closed by the server first and by the client then.
fn closed_connection(port: u16, options: &[&str]) -> (OwnedFd, TcpStream) {
    let listener = bound(V4, port, options).expect("a free port");
    rustix::net::listen(&listener, 4).expect("bound");
    let mut client = TcpStream::connect((V4, port)).expect("somebody listens");
    let served = rustix::net::accept(&listener).expect("somebody connected");
    rustix::net::shutdown(&served, rustix::net::Shutdown::Write).expect("connected");
    assert_eq!(client.read(&mut [0; 1]).expect("the end"), 0);
    drop(listener);
    (served, client)
}

#[test]
fn time_wait_is_settling() {
    let port = free_port();
    let (served, client) = closed_connection(port, &["reuse"]);
    assert_eq!(probe(port), Probe::Held, "a process has the connection open");
    drop(served);
    drop(client);
    until("TIME_WAIT is settling", || probe(port) == Probe::Settling);
    assert!(bound(V4, port, &[]).is_err(), "a strict bind fails");
    assert!(bound(V4, port, &["reuse"]).is_ok(), "a server that sets SO_REUSEADDR can have it");
}

#[test]
fn time_wait_of_a_server_without_reuseaddr_is_held() {
    let port = free_port();
    let (served, client) = closed_connection(port, &[]);
    drop(served);
    drop(client);
    assert!(bound(V4, port, &["reuse"]).is_err(), "nobody can have it yet");
    assert_eq!(probe(port), Probe::Held);
}

#[test]
fn a_listener_beside_time_wait_is_held() {
    let port = free_port();
    let (served, client) = closed_connection(port, &["reuse"]);
    drop(served);
    drop(client);
    until("TIME_WAIT is settling", || probe(port) == Probe::Settling);
    let listener = TcpListener::bind((V4, port)).expect("std sets SO_REUSEADDR");
    assert_eq!(probe(port), Probe::Held);
    drop(listener);
}

#[test]
fn a_probe_leaves_nothing_behind() {
    let port = free_port();
    let _alone = no_copies();
    for _ in 0..50 {
        assert_eq!(probe(port), Probe::Free);
    }
    assert!(bound(V4, port, &[]).is_ok());
}

#[test]
fn port_zero_and_a_passed_deadline_are_unknown() {
    assert!(matches!(probe(0), Probe::Unknown(_)));
    let late = portreeve_evidence::Deadline::after(std::time::Duration::ZERO);
    assert!(matches!(kernel().probe(free_port(), &late), Probe::Unknown(_)));
    assert!(kernel().listening(&late).is_err());
    assert!(kernel().answers(free_port(), &late).is_err());
}

#[test]
fn a_privileged_port_is_told_to_an_unprivileged_user() {
    let start = kernel().facts().expect("readable").unprivileged_start;
    if start <= 1 {
        println!("not run (no privileged ports here): a_privileged_port_is_told_to_an_unprivileged_user");
        return;
    }
    let got = probe(start - 1);
    if is_root() { assert_ne!(got, Probe::Privileged) } else { assert_eq!(got, Probe::Privileged) }
}

#[test]
fn the_settings_are_those_of_the_kernel() {
    let facts = kernel().facts().expect("readable");
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("readable");
    let numbers: Vec<u16> = range.split_whitespace().map(|number| number.parse().expect("a port")).collect();
    assert_eq!([*facts.ephemeral.start(), *facts.ephemeral.end()], numbers[..]);
    // A port that the kernel chose is out of that range.
    let listener = TcpListener::bind((V4, 0)).expect("loopback");
    assert!(facts.ephemeral.contains(&listener.local_addr().expect("bound").port()));
}

#[test]
fn the_settings_are_read_when_asked() {
    in_own_network("the_settings_are_read_when_asked", || {
        let kernel = kernel();
        let set = |name: &str, value: &str| {
            std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("root, own network");
        };
        set("ip_local_port_range", "40000 40999");
        set("ip_local_reserved_ports", "40100,40200-40210");
        set("ip_unprivileged_port_start", "80");
        let facts = kernel.facts().expect("readable");
        assert_eq!(facts.ephemeral, 40000..=40999);
        assert_eq!(facts.reserved, [40100..=40100, 40200..=40210]);
        assert_eq!(facts.unprivileged_start, 80);
    });
}

#[test]
fn bad_ports_are_out_of_the_fetch_standard() {
    assert!(is_bad_port(6000) && is_bad_port(6667) && is_bad_port(10080) && !is_bad_port(3000));
}

#[test]
fn a_listener_answers_on_its_own_family_only() {
    for (address, options, expected) in [
        ("127.0.0.1", [].as_slice(), vec![V4]),
        ("::1", &["v6only"], vec![V6]),
        ("::", &["v6only"], vec![V6]),
        ("::", &[], vec![V4, V6]),
        ("0.0.0.0", &[], vec![V4]),
    ] {
        let port = free_port();
        let listener = bound(address.parse().expect("literal"), port, options).expect("a free port");
        assert_eq!(kernel().answers(port, &deadline()), Ok(vec![]), "{address}: bound only");
        rustix::net::listen(&listener, 4).expect("bound");
        assert_eq!(kernel().answers(port, &deadline()), Ok(expected.clone()), "{address} {options:?}");
        let rows = listening_on(port);
        for loopback in [V4, V6] {
            assert_eq!(rows[0].accepts(loopback), expected.contains(&loopback), "{address} {options:?}");
        }
    }
}

#[test]
fn asking_whether_somebody_answers_does_not_hold_the_port() {
    let port = free_port();
    let listener = bound(V4, port, &["reuse"]).expect("a free port");
    rustix::net::listen(&listener, 4).expect("bound");
    assert_eq!(kernel().answers(port, &deadline()), Ok(vec![V4]));
    drop(listener);
    until("free again at once", || probe(port) == Probe::Free);
}

#[test]
fn asking_whether_somebody_answers_leaves_no_time_wait() {
    let port = free_port();
    let listener = TcpListener::bind((V4, port)).expect("a free port");
    assert_eq!(kernel().answers(port, &deadline()), Ok(vec![V4]));
    drop(listener.accept());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("readable");
    let peer = format!("0100007F:{port:04X}");
    let left = table.lines().filter(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(2) == Some(&peer.as_str()) && fields.get(3) == Some(&"06")
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_port_in_the_ephemeral_range_never_answers_itself() {
    in_own_network("a_port_in_the_ephemeral_range_never_answers_itself", || {
        // The only source port there is: a connect to it meets itself.
        std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40001 40001").expect("root, own network");
        assert!(kernel().answers(40001, &deadline()).unwrap_or_default().is_empty());
    });
}

#[test]
fn forwarded_by_nat_answers_without_a_listener() {
    let name = "forwarded_by_nat_answers_without_a_listener";
    in_own_network(name, || {
        let rule = "add table ip nat; add chain ip nat output { type nat hook output priority -100; }; \
                    add rule ip nat output ip daddr 127.0.0.1 tcp dport 8080 redirect to :9090";
        let legacy = [
            "-t",
            "nat",
            "-A",
            "OUTPUT",
            "-p",
            "tcp",
            "-d",
            "127.0.0.1",
            "--dport",
            "8080",
            "-j",
            "REDIRECT",
            "--to-ports",
            "9090",
        ];
        let done = [("nft", [rule].as_slice()), ("iptables", &legacy)]
            .into_iter()
            .any(|(program, arguments)| run(program, arguments));
        if !done {
            println!("not run (needs nft or iptables, and NAT in the kernel): {name}");
            return;
        }
        let listener = TcpListener::bind((V4, 9090)).expect("own network");
        assert!(listening_on(8080).is_empty());
        assert_eq!(probe(8080), Probe::Free, "a bind is fooled");
        assert_eq!(kernel().answers(8080, &deadline()), Ok(vec![V4]));
        drop(listener);
        until("nobody answers", || kernel().answers(8080, &deadline()) == Ok(vec![]));
    });
}

#[test]
fn without_ipv6_sockets_the_v4_bind_and_the_table_decide() {
    let ports = [free_port(), free_port(), free_port()];
    in_thread(|| {
        refuse_sockets(u32::try_from(libc::AF_INET6).expect("small"));
        assert!(!kernel().facts().expect("readable").ipv6);
        for (port, address) in ports.into_iter().zip(["127.0.0.1", "0.0.0.0", "127.0.0.2"]) {
            until("free at first", || probe(port) == Probe::Free);
            let listener = bound(address.parse().expect("literal"), port, &[]).expect("a free port");
            assert_eq!(probe(port), Probe::Held, "{address}, bound only");
            rustix::net::listen(&listener, 1).expect("bound");
            assert_eq!(probe(port), Probe::Held, "{address}");
            assert_eq!(listening_on(port).len(), 1);
            drop(listener);
            until("free afterwards", || probe(port) == Probe::Free);
            assert_eq!(kernel().answers(port, &deadline()), Ok(vec![]));
        }
    });
}

#[test]
fn without_ipv6_sockets_of_our_own_a_v6_holder_is_still_seen() {
    let port = free_port();
    let listener = bound(V6, port, &["v6only"]).expect("a free port");
    rustix::net::listen(&listener, 1).expect("bound");
    in_thread(|| {
        refuse_sockets(u32::try_from(libc::AF_INET6).expect("small"));
        assert_eq!(probe(port), Probe::Held);
    });
}

#[test]
fn with_ipv6_disabled_by_setting_the_probe_still_works() {
    in_own_network("with_ipv6_disabled_by_setting_the_probe_still_works", || {
        std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("root, own network");
        assert!(bound(V6, 8080, &[]).is_err(), "there is no ::1");
        assert_eq!(probe(8080), Probe::Free);
        for (port, address) in [(8081, "127.0.0.1"), (8082, "0.0.0.0"), (8083, "127.0.0.2")] {
            let listener = bound(address.parse().expect("literal"), port, &[]).expect("own network");
            rustix::net::listen(&listener, 1).expect("bound");
            assert_eq!(probe(port), Probe::Held, "{address}");
            assert_eq!(kernel().answers(port, &deadline()).map(|answers| answers.contains(&V6)), Ok(false));
        }
    });
}

#[test]
fn a_probe_and_a_server_on_many_ports_agree() {
    // A whole run of ports, each held in another way, in one table reading.
    let mut held = Vec::new();
    for address in ["::1", "::", "0.0.0.0", "127.0.0.1", "127.0.0.2"] {
        let port = free_port();
        let listener = TcpListener::bind(SocketAddr::new(address.parse().expect("literal"), port));
        held.push((port, listener.expect("a free port")));
    }
    let table = kernel().listening(&deadline()).expect("readable");
    assert!(table.windows(2).all(|pair| pair[0].port <= pair[1].port), "ascending by port");
    for (port, _) in &held {
        assert!(table.iter().any(|socket| socket.port == *port));
        assert_eq!(probe(*port), Probe::Held);
    }
}

#[test]
fn a_table_of_many_pieces_is_read_whole() {
    // More than the kernel puts into one answer.
    let listeners: Vec<TcpListener> =
        (0..600).map(|_| TcpListener::bind((V4, 0)).expect("loopback")).collect();
    let table = kernel().listening(&deadline()).expect("readable");
    for listener in &listeners {
        let port = listener.local_addr().expect("bound").port();
        let rows = table.iter().filter(|socket| socket.port == port && socket.address == V4);
        assert_eq!(rows.count(), 1, "{port}");
    }
}

#[test]
fn sockets_that_come_and_go_never_spoil_a_reading() {
    let port = free_port();
    let _listener = TcpListener::bind((V4, port)).expect("a free port");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let ordering = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(ordering) {
                drop(TcpListener::bind((V4, 0)));
            }
        });
        let whole =
            |_| kernel().listening(&deadline()).expect("readable").iter().any(|socket| socket.port == port);
        let all = (0..200).all(whole);
        stop.store(true, ordering);
        assert!(all);
    });
}
