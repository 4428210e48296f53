//! One process as it is shown, and the search for it by its pid in a container.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::path::Path;
use super::procfs::{Procfs, absent, file_at, kin, link_at, one_read, parse_number};
use super::stat;
use crate::Process;

/// Clock ticks in a second as `/proc` counts them: USER_HZ, 100 on every architecture that Rust's standard
/// library supports on Linux.
const TICKS_PER_SECOND: i64 = 100;

/// Reads a process through one handle, so that all of it is of the same process. `None` if it is gone.
pub(super) fn process(procfs: &Procfs, pid: u32) -> Result<Option<Process>, Errno> {
    let Some(handle) = procfs.handle(pid)? else {
        return Ok(None);
    };
    let handle = handle.as_fd();
    let Some(process) = read(handle, pid)? else {
        return Ok(None);
    };
    Ok(Some(Process {
        command: command(handle).unwrap_or(process.command),
        ns_pids: ns_pids(handle).unwrap_or(process.ns_pids),
        net_ns_same: net_ns_same(procfs, handle),
        ..process
    }))
}

/// The same without arguments and namespaces: those are most of the cost.
pub(super) fn outline(procfs: &Procfs, pid: u32) -> Result<Option<Process>, Errno> {
    match procfs.handle(pid)? {
        Some(handle) => read(handle.as_fd(), pid),
        None => Ok(None),
    }
}

fn read(handle: BorrowedFd<'_>, pid: u32) -> Result<Option<Process>, Errno> {
    let mut line = [0; 1024];
    let Some(line) = absent(one_read(handle, c"stat", &mut line))? else {
        return Ok(None);
    };
    let stat = stat::parse(line).ok_or(Errno::ILSEQ)?;
    let kin = kin(pid, &stat);
    let name = lossy(stat.name);
    let uid = rustix::fs::fstat(handle).map(|stat| stat.st_uid);
    let Some(uid) = absent(uid)? else { return Ok(None) };
    Ok(Some(Process {
        id: kin.id,
        parent: kin.parent,
        uid,
        session: kin.session,
        group: kin.group,
        executable: target(handle, c"exe"),
        command: name.clone(),
        name,
        working_directory: target(handle, c"cwd"),
        started_at_unix_ms: started_at(stat.start_ticks),
        zombie: kin.zombie,
        ns_pids: vec![pid],
        net_ns_same: None,
    }))
}

/// The process' pids from our namespace inwards, if it is called `pid` further in.
pub(super) fn is_inside(procfs: &Procfs, candidate: u32, pid: u32) -> bool {
    let path = Path::pid(candidate).name("/status");
    let mut buffer = [0; 4096];
    let Ok(status) = procfs.file(path.as_c_str(), &mut buffer) else {
        return false;
    };
    parse_ns_pids(status).is_some_and(|pids| pids.iter().skip(1).any(|inner| *inner == pid))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn target(handle: BorrowedFd<'_>, link: &std::ffi::CStr) -> Option<String> {
    let mut buffer = [0; 4096];
    match link_at(handle, link, &mut buffer) {
        Ok([]) | Err(_) => None,
        Ok(target) => Some(lossy(target)),
    }
}

/// Arguments end in NUL each; a program may have written over them.
fn command(handle: BorrowedFd<'_>) -> Option<String> {
    let mut buffer = [0; 4096];
    let line = file_at(handle, c"cmdline", &mut buffer).ok()?;
    let end = line.iter().rposition(|byte| *byte != 0)? + 1;
    let words: Vec<u8> = line[..end].iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect();
    Some(lossy(&words))
}

fn ns_pids(handle: BorrowedFd<'_>) -> Option<Vec<u32>> {
    let mut buffer = [0; 4096];
    parse_ns_pids(file_at(handle, c"status", &mut buffer).ok()?)
}

/// `NSpid:` of a status file (Linux 4.1). The name at its top has its newlines escaped by the kernel.
fn parse_ns_pids(status: &[u8]) -> Option<Vec<u32>> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let pids: Vec<u32> = line.split(u8::is_ascii_whitespace).filter_map(parse_number).collect();
    (!pids.is_empty()).then_some(pids)
}

fn net_ns_same(procfs: &Procfs, handle: BorrowedFd<'_>) -> Option<bool> {
    let (mut theirs, mut ours) = ([0; 64], [0; 64]);
    let theirs = link_at(handle, c"ns/net", &mut theirs).ok()?;
    let ours = procfs.link(c"thread-self/ns/net", &mut ours).ok()?;
    Some(theirs == ours)
}

/// Ticks since boot on the wall clock, as it is set now. The difference of the two clocks changes only when
/// somebody sets one; it is rounded to ticks so that two readings agree.
fn started_at(start_ticks: u64) -> i64 {
    let wall = clock_gettime(ClockId::Realtime);
    let boot = clock_gettime(ClockId::Boottime);
    let tick_ns = 1_000_000_000 / TICKS_PER_SECOND;
    let booted_ns = (wall.tv_sec - boot.tv_sec) * 1_000_000_000 + (wall.tv_nsec - boot.tv_nsec);
    let booted_ticks = (booted_ns + tick_ns / 2).div_euclid(tick_ns);
    let ticks = booted_ticks.saturating_add(i64::try_from(start_ticks).unwrap_or(i64::MAX));
    ticks.saturating_mul(1000 / TICKS_PER_SECOND)
}

/// Now, as the start of a process would be told.
pub(super) fn ticks_since_boot() -> u64 {
    let boot = clock_gettime(ClockId::Boottime);
    let ticks = boot.tv_sec * TICKS_PER_SECOND + boot.tv_nsec / (1_000_000_000 / TICKS_PER_SECOND);
    u64::try_from(ticks).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ns_pids_are_read_from_a_status() {
        let status = b"Name:\tNSpid:\nUmask:\t0022\nNSpid:\t4711\t12\t1\nNSpgid:\t9\n";
        assert_eq!(parse_ns_pids(status), Some(vec![4711, 12, 1]));
        assert_eq!(parse_ns_pids(b"Name:\tx\n"), None);
        assert_eq!(parse_ns_pids(b"NSpid:\n"), None);
    }
}
