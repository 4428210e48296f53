//! What every case needs: a deadline, a port of its own, and waiting for a condition.

use std::net::Ipv6Addr;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portreeve_evidence::{Deadline, Kernel, Socket, Source};

use crate::actor::bound;

/// Long enough for a loaded machine; no case is meant to reach it.
pub(crate) fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

pub(crate) fn kernel() -> Kernel {
    Kernel::new().expect("/proc is mounted where tests run")
}

/// The listening sockets of a port.
pub(crate) fn listening_on(port: u16) -> Vec<Socket> {
    kernel().listening_on(port, &deadline()).expect("the table can be read")
}

/// Held while a process is started, and while a socket is open that must be gone afterwards: the new process
/// has copies of all our descriptors until its exec.
pub(crate) fn no_copies() -> MutexGuard<'static, ()> {
    static COPYING: Mutex<()> = Mutex::new(());
    COPYING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program and waits for it, see [`no_copies`].
pub(crate) fn output(command: &mut Command) -> std::io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let alone = no_copies();
    let child = command.spawn();
    drop(alone);
    child?.wait_with_output()
}

/// A port that nobody holds and that the kernel gives to nobody by itself.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let _alone = no_copies();
    // The run as root and the one as another user go on beside each other.
    let base = if is_root() { 20_000 } else { 26_000 };
    let start = std::process::id() % 75 * 80;
    for _ in 0..2000 {
        let offset = (start + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % 6_000;
        let port = base + u16::try_from(offset).expect("below 6,000");
        if bound(Ipv6Addr::UNSPECIFIED.into(), port, &[]).is_ok() {
            return port;
        }
    }
    panic!("no free port between 20000 and 32000");
}

/// Waits until it holds; fails after a time that no working machine needs.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "never came true: {what}");
        std::thread::yield_now();
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether to go on; says so if not.
pub(crate) fn needs_root(name: &str) -> bool {
    if !is_root() {
        println!("not run (needs root): {name}");
    }
    is_root()
}
