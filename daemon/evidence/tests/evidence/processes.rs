//! Processes: their identity, odd names, lineage, and their end.

use std::os::unix::process::ExitStatusExt;

use portreeve_evidence::{Kernel, Liveness, NoPidfd, ProcessId, Search, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::actor::Actor;
use crate::support::{deadline, free_port, is_root, kernel, listening_on, needs_root, no_copies, until};

fn identity(kernel: &Kernel, pid: u32) -> ProcessId {
    kernel.kin(pid).expect("readable").expect("lives").id
}

#[test]
fn our_own_process_is_as_we_know_it() {
    let kernel = kernel();
    let process = kernel.process(std::process::id()).expect("readable").expect("lives");
    assert_eq!(process.uid, rustix::process::geteuid().as_raw());
    assert_eq!(
        process.parent,
        rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
    );
    assert_eq!(process.executable.as_deref(), std::env::current_exe().expect("known").to_str());
    assert_eq!(process.working_directory.as_deref(), std::env::current_dir().expect("known").to_str());
    assert_eq!(process.command, std::env::args().collect::<Vec<_>>().join(" "));
    assert_eq!(process.ns_pids.first(), Some(&process.id.pid));
    assert_eq!(process.net_ns_same, Some(true));
    assert!(!process.zombie && process.answers_to(process.id.pid));
    assert_eq!(Some(process.kin()), kernel.kin(process.id.pid).expect("readable"));
}

#[test]
fn the_start_is_shown_on_the_wall_clock() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec * 1000;
    let mut actor = Actor::start();
    let kernel = kernel();
    let started = kernel.process(actor.pid()).expect("readable").expect("lives").started_at_unix_ms;
    assert!((now - 1000..now + 60_000).contains(&started), "{started} around {now}");
    for _ in 0..50 {
        let again = kernel.process(actor.pid()).expect("readable").expect("lives").started_at_unix_ms;
        assert_eq!(again, started);
    }
    actor.ask("pid");
}

#[test]
fn nobody_has_an_impossible_pid() {
    let kernel = kernel();
    for pid in [0, u32::MAX, i32::MAX.unsigned_abs()] {
        assert_eq!(kernel.process(pid), Ok(None));
        assert_eq!(kernel.kin(pid), Ok(None));
        assert_eq!(kernel.alive(ProcessId { pid, start_ticks: 1 }), Liveness::Gone);
        assert!(matches!(kernel.pidfd(ProcessId { pid, start_ticks: 1 }), Err(NoPidfd::Gone)));
        assert!(kernel.lineage(pid, Some(1)).expect("readable").chain.is_empty());
    }
}

#[test]
fn odd_names_never_spoil_a_reading() {
    let port = free_port();
    let mut server = Actor::start();
    server.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    let id = identity(&kernel, server.pid());
    let names: [&[u8]; 8] =
        [b"a b", b"(", b")", b") R 1 1 1 (", b"x\ny", b"\xff\xfe\x01", b"][", b"sd-pam) S 1"];
    for name in names {
        let numbers: Vec<String> = name.iter().map(u8::to_string).collect();
        server.ask(&format!("name {}", numbers.join(",")));
        let process = kernel.process(server.pid()).expect("readable").expect("lives");
        assert_eq!(process.name, String::from_utf8_lossy(name));
        assert_eq!(process.id, id, "a name is no part of the identity");
        let found = kernel.holdings(&listening_on(port), Search::Every, &deadline());
        assert_eq!(found[0].holders[0].process, id, "{}", name.escape_ascii());
    }
    server.ask("nameless");
    let process = kernel.process(server.pid()).expect("readable").expect("lives");
    assert_eq!((process.name.as_str(), process.id), ("", id));
    let found =
        kernel.holdings(&kernel.listening(&deadline()).expect("readable"), Search::Every, &deadline());
    assert!(found.iter().any(|holding| holding.holders.iter().any(|holder| holder.process == id)));
    assert!(kernel.lineage(server.pid(), Some(std::process::id())).expect("readable").reached);
}

#[test]
fn a_deleted_executable_changes_nothing_but_its_path() {
    let directory = tempfile::tempdir().expect("a place for temporary files");
    let program = directory.path().join("server");
    // A copy of the descriptor that writes it would make it busy.
    let alone = no_copies();
    std::fs::copy("/proc/self/exe", &program).expect("copied");
    drop(alone);
    let path = program.to_str().expect("text");
    let mut actor = Actor::from(&mut Actor::command(path));
    let port = free_port();
    actor.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    let before = kernel.process(actor.pid()).expect("readable").expect("lives");
    assert_eq!(before.executable.as_deref(), Some(path));
    std::fs::remove_file(&program).expect("removed");
    let after = kernel.process(actor.pid()).expect("readable").expect("lives");
    assert_eq!(after.executable, Some(format!("{path} (deleted)")));
    assert_eq!(after.id, before.id);
    assert_eq!(kernel.alive(before.id), Liveness::Alive);
    let found = kernel.holdings(&listening_on(port), Search::Every, &deadline());
    assert_eq!(found[0].holders[0].process, before.id);
}

#[test]
fn a_re_exec_keeps_identity_and_port() {
    let port = free_port();
    let mut actor = Actor::start();
    actor.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    let id = identity(&kernel, actor.pid());
    let before = kernel.holdings(&listening_on(port), Search::Known, &deadline());
    assert_eq!(actor.ask("exec"), "ready");
    assert_eq!(identity(&kernel, actor.pid()), id);
    assert_eq!(kernel.alive(id), Liveness::Alive);
    let after = kernel.holdings(&listening_on(port), Search::Known, &deadline());
    assert_eq!(after[0].holders, before[0].holders);
}

#[test]
fn a_zombie_is_dead() {
    let port = free_port();
    let mut actor = Actor::start();
    actor.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    let id = identity(&kernel, actor.pid());
    let pidfd = kernel.pidfd(id).expect("lives");
    actor.kill();
    // The pidfd says so without a question.
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).expect("polled");
    assert!(fds[0].revents().contains(PollFlags::IN));
    let kin = kernel.kin(id.pid).expect("readable").expect("not reaped");
    assert!(kin.zombie && kin.id == id);
    assert_eq!(kernel.alive(id), Liveness::Gone);
    assert!(matches!(kernel.pidfd(id), Err(NoPidfd::Gone)));
    let own = identity(&kernel, std::process::id());
    let below = kernel.descendants(own, &deadline()).expect("readable");
    assert!(below.iter().all(|kin| kin.id != id));
}

#[test]
fn another_start_is_another_process() {
    let actor = Actor::start();
    let kernel = kernel();
    let id = identity(&kernel, actor.pid());
    let other = ProcessId { start_ticks: id.start_ticks + 1, ..id };
    assert_eq!(kernel.alive(id), Liveness::Alive);
    assert_eq!(kernel.alive(other), Liveness::Gone);
    assert!(kernel.pidfd(id).is_ok());
    assert!(matches!(kernel.pidfd(other), Err(NoPidfd::Gone)));
    assert!(kernel.descendants(other, &deadline()).expect("readable").is_empty());
}

#[test]
fn a_pid_used_again_is_another_process() {
    let name = "a_pid_used_again_is_another_process";
    if !needs_root(name) {
        return;
    }
    let kernel = kernel();
    for _ in 0..50 {
        let first = Actor::start();
        let id = identity(&kernel, first.pid());
        drop(first);
        // The next process gets the pid behind this one, unless another comes in between.
        if std::fs::write("/proc/sys/kernel/ns_last_pid", (id.pid - 1).to_string()).is_err() {
            println!("not run (needs /proc/sys/kernel/ns_last_pid): {name}");
            return;
        }
        let second = Actor::start();
        if second.pid() == id.pid {
            // (The start is in ticks of 10 ms; starting and ending an actor takes longer on most machines.)
            if identity(&kernel, second.pid()) == id {
                continue;
            }
            assert_eq!(kernel.alive(id), Liveness::Gone);
            assert!(matches!(kernel.pidfd(id), Err(NoPidfd::Gone)));
            return;
        }
    }
    println!("not run (the pid was never given out again): {name}");
}

#[test]
fn a_listener_below_a_shell_has_the_shell_in_its_lineage() {
    let port = free_port();
    let mut shell = Actor::in_shell("\"$@\"; exit 0");
    shell.ask(&format!("listen 127.0.0.1 {port}"));
    let kernel = kernel();
    let found = kernel.holdings(&listening_on(port), Search::Every, &deadline());
    let listener = found[0].holders[0].process;
    assert_ne!(listener.pid, shell.pid());
    let lineage = kernel.lineage(listener.pid, Some(shell.pid())).expect("readable");
    assert!(lineage.reached);
    let chain: Vec<u32> = lineage.chain.iter().map(|kin| kin.id.pid).collect();
    assert_eq!(chain, [listener.pid, shell.pid()]);
    let root = identity(&kernel, shell.pid());
    assert!(lineage.contains(root));
    let below = kernel.descendants(root, &deadline()).expect("readable");
    assert_eq!(below.iter().map(|kin| kin.id).collect::<Vec<_>>(), [listener]);
    let of_tree = kernel.listeners_of(&[listener.pid, shell.pid()], &deadline()).expect("readable");
    assert_eq!(of_tree[0].socket.port, port);
}

#[test]
fn descendants_are_the_whole_tree_parents_first() {
    let mut root = Actor::start();
    let (one, two) = (root.number("child"), root.number("child own-group"));
    let kernel = kernel();
    let id = identity(&kernel, root.pid());
    let mut below: Vec<u32> =
        kernel.descendants(id, &deadline()).expect("readable").iter().map(|kin| kin.id.pid).collect();
    below.sort_unstable();
    let mut expected = [one, two];
    expected.sort_unstable();
    assert_eq!(below, expected);
}

#[test]
fn a_re_parented_listener_keeps_session_and_group() {
    let port = free_port();
    // The shell ends; its background child goes to whoever reaps here, and keeps the pipes.
    let mut shell = Actor::in_shell("exec 3<&0; (\"$@\" <&3 &) ; exit 0");
    let root = shell.pid();
    let kernel = kernel();
    let pid = shell.number("pid");
    shell.ask(&format!("listen 127.0.0.1 {port}"));
    until("the shell has ended", || !matches!(kernel.kin(root), Ok(Some(kin)) if !kin.zombie));
    until("the listener is re-parented", || {
        kernel.kin(pid).ok().flatten().is_some_and(|kin| kin.parent != root)
    });
    let found = kernel.holdings(&listening_on(port), Search::Every, &deadline());
    assert_eq!(found[0].holders[0].process.pid, pid);
    let lineage = kernel.lineage(pid, Some(root)).expect("readable");
    assert!(!lineage.reached, "by its parents it is nobody's");
    let own = kernel.kin(std::process::id()).expect("readable").expect("lives");
    let kin = lineage.chain[0];
    assert_eq!((kin.session, kin.group), (own.session, root), "the shell led a group of its own");
}

#[test]
fn a_process_group_of_its_own_is_told() {
    let mut root = Actor::start();
    let child = root.number("child own-group");
    let kin = kernel().kin(child).expect("readable").expect("lives");
    assert_eq!((kin.group, kin.parent), (child, root.pid()));
}

#[test]
fn a_pidfd_signals_that_very_process() {
    let kernel = kernel();
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "read line"]).stdin(std::process::Stdio::piped());
    let alone = no_copies();
    let mut child = command.spawn().expect("a shell");
    drop(alone);
    let id = identity(&kernel, child.id());
    let pidfd = kernel.pidfd(id).expect("lives");
    rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::TERM).expect("ours");
    assert_eq!(child.wait().expect("ended").signal(), Some(15));
    assert_eq!(kernel.alive(id), Liveness::Gone);
    let after = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::TERM);
    assert_eq!(after, Err(rustix::io::Errno::SRCH));
}

#[test]
fn a_pid_inside_a_container_finds_its_process() {
    if !needs_root("a_pid_inside_a_container_finds_its_process") {
        return;
    }
    let program = std::env::current_exe().expect("known");
    let mut command = std::process::Command::new("unshare");
    let role = Actor::command("");
    command.args(["--pid", "--fork", "--kill-child", "--"]).arg(program).args(role.get_args());
    command.envs(role.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut actor = Actor::from(&mut command);
    assert_eq!(actor.ask("pid"), "1", "it takes itself for pid 1");
    let kernel = kernel();
    let inside = kernel
        .resolve_ns_pid(1, &deadline())
        .expect("readable")
        .into_iter()
        .find(|process| process.parent == actor.pid())
        .expect("found by the pid that it has inside");
    assert!(inside.answers_to(1) && inside.id.pid != 1);
    assert_eq!(inside.ns_pids, [inside.id.pid, 1]);
    let ours = kernel.resolve_ns_pid(std::process::id(), &deadline()).expect("readable");
    assert!(ours.iter().all(|process| process.id.pid != std::process::id()), "our own pid is no inner one");
}

#[test]
fn the_boot_id_is_the_kernels_and_kept() {
    let kernel = kernel();
    let expected = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("readable");
    assert_eq!(kernel.boot_id().as_deref(), Ok(expected.trim()));
    assert_eq!(kernel.boot_id(), kernel.boot_id());
}

#[test]
fn another_users_process_is_shown_as_far_as_it_may_be() {
    if is_root() {
        return;
    }
    // Pid 1 is root's wherever this runs as somebody else.
    let kernel = kernel();
    let first = kernel.process(1).expect("readable").expect("lives");
    if first.uid == 0 {
        assert_eq!((first.executable, first.working_directory), (None, None));
    }
    assert!(kernel.lineage(std::process::id(), Some(1)).is_ok());
}
