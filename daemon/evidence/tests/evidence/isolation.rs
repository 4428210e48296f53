//! Threads that see another machine than the rest of this process: other network, other mounts, fewer system
//! calls. All of these belong to a thread on Linux, and go with it.

use std::process::Command;

use rustix::thread::UnshareFlags;

use crate::support::{needs_root, output};

/// Runs in a thread, and hands on its panic.
pub(crate) fn in_thread(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(body).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs in a network of its own, with a loopback interface and nothing else (root only).
pub(crate) fn in_own_network(name: &str, body: impl FnOnce() + Send) {
    if !needs_root(name) {
        return;
    }
    in_thread(|| {
        if unshare(UnshareFlags::NEWNET) && run("ip", &["link", "set", "lo", "up"]) {
            body();
        } else {
            println!("not run (needs CAP_SYS_ADMIN and ip): {name}");
        }
    });
}

/// Runs with mounts of its own (root only).
pub(crate) fn with_own_mounts(name: &str, body: impl FnOnce() + Send) {
    if !needs_root(name) {
        return;
    }
    in_thread(|| {
        if unshare(UnshareFlags::NEWNS) && run("mount", &["--make-rprivate", "/"]) {
            body();
        } else {
            println!("not run (needs CAP_SYS_ADMIN and mount): {name}");
        }
    });
}

/// Runs a program in this thread's surroundings; whether it is there and succeeded.
pub(crate) fn run(program: &str, arguments: &[&str]) -> bool {
    output(Command::new(program).args(arguments)).is_ok_and(|output| output.status.success())
}

/// Root in a container may lack the capability.
#[expect(unsafe_code, reason = "unshare is unsafe in rustix for CLONE_FILES, which is not used")]
fn unshare(flags: UnshareFlags) -> bool {
    // SAFETY: only namespaces are unshared; no descriptor becomes invalid.
    unsafe { rustix::thread::unshare_unsafe(flags) }.is_ok()
}

/// From here on this thread gets EAFNOSUPPORT for sockets of this address family.
#[expect(unsafe_code, reason = "a seccomp filter has no safe interface")]
pub(crate) fn refuse_sockets(family: u32) {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let socket = u32::try_from(libc::SYS_socket).expect("a small number");
    let refused = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EAFNOSUPPORT).expect("a small number");
    // Offsets into struct seccomp_data: 0 the call's number, 16 its first argument (low half first).
    let first = if cfg!(target_endian = "little") { 16 } else { 20 };
    let mut filter = [
        step(LOAD, 0, 0, 0),
        step(EQUAL, 0, 3, socket),
        step(LOAD, 0, 0, first),
        step(EQUAL, 0, 1, family),
        step(RETURN, 0, 0, refused),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program =
        libc::sock_fprog { len: u16::try_from(filter.len()).expect("a few"), filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which is alive and of the length told, before it returns.
    let outcome = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}
