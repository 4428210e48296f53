//! The same again with less: as an unprivileged user, and without netlink.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::Command;

use portreeve_evidence::{Probe, Search, Source, Table};

use crate::actor::{Actor, bound};
use crate::isolation::{in_thread, refuse_sockets};
use crate::support::{deadline, free_port, kernel, needs_root, output, until};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NOBODY: u32 = 65534;
const INNER: &str = "PORTREEVE_EVIDENCE_ROOTS_PORT";

#[test]
fn everything_again_as_an_unprivileged_user() {
    if std::env::var_os(INNER).is_some() || !needs_root("everything_again_as_an_unprivileged_user") {
        return;
    }
    let listener = TcpListener::bind((V4, 0)).expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    let mut command = Command::new("/proc/self/exe");
    command.args(["--test-threads", "2", "--nocapture"]).env(INNER, port.to_string());
    command.env("TMPDIR", "/tmp").current_dir("/").uid(NOBODY).gid(NOBODY);
    let output = output(&mut command).expect("this binary can be run");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for line in out.lines().filter(|line| line.contains("not run")) {
        println!("as an unprivileged user: {}", line.trim());
    }
}

#[test]
fn without_netlink_the_tables_in_proc_are_read() {
    let (four, six, only) = (free_port(), free_port(), free_port());
    let mut actor = Actor::start();
    actor.ask(&format!("listen 127.0.0.2 {four}"));
    actor.ask(&format!("listen ::1 {six}"));
    let full = kernel().listening_on(four, &deadline()).expect("readable");
    in_thread(|| {
        refuse_sockets(u32::try_from(libc::AF_NETLINK).expect("small"));
        let kernel = kernel();
        let rows = kernel.listening_on(four, &deadline()).expect("readable");
        assert_eq!(kernel.facts().expect("readable").table, Table::Proc);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0], portreeve_evidence::Socket { cookie: 0, ..full[0] });
        let rows = kernel.listening_on(six, &deadline()).expect("readable");
        assert_eq!(rows[0].address, IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
        let whole = kernel.listening(&deadline()).expect("readable");
        assert!(whole.contains(&rows[0]));
        let found = kernel.holdings(&rows, Search::Every, &deadline());
        assert_eq!(found[0].holders[0].process.pid, actor.pid());
        // The probe without netlink: held by rows, by bound sockets, settling by TIME_WAIT.
        assert_eq!(kernel.probe(four, &deadline()), Probe::Held);
        let socket = bound(V4, only, &["reuse"]).expect("a free port");
        assert_eq!(kernel.probe(only, &deadline()), Probe::Held);
        assert_eq!(kernel.bound_on(only, &deadline()), Ok(vec![]), "nothing is shown, nothing is claimed");
        drop(socket);
        until("free afterwards", || kernel.probe(only, &deadline()) == Probe::Free);
    });
}

#[test]
fn without_netlink_time_wait_is_settling() {
    let port = free_port();
    let listener = TcpListener::bind((V4, port)).expect("a free port");
    let client = std::net::TcpStream::connect((V4, port)).expect("somebody listens");
    let (served, _) = listener.accept().expect("somebody connected");
    drop(listener);
    drop(served);
    drop(client);
    in_thread(|| {
        refuse_sockets(u32::try_from(libc::AF_NETLINK).expect("small"));
        let kernel = kernel();
        until("TIME_WAIT is settling", || kernel.probe(port, &deadline()) == Probe::Settling);
    });
}
