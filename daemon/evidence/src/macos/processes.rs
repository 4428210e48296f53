//! Processes on macOS, by sysctl (any user's, zombies too) and libproc (one's own).

use libproc::libproc::bsd_info::BSDInfo;
use libproc::libproc::kinfo::KinfoProc;
use libproc::libproc::proc_pid::{kproc_info_raw, pidinfo, pidpath};
use libproc::processes::{ProcFilter, pids_by_type};
use rustix::io::Errno;

use crate::{Kin, Process, ProcessId, Reading, Unknown, Why};

/// `SZOMB` of `sys/proc.h`.
const SZOMB: i8 = 5;

/// The pids that one's own user may look into: all for root.
pub(super) fn own(what: Reading) -> Result<Vec<u32>, Unknown> {
    let uid = rustix::process::geteuid();
    if uid.is_root() { all(what) } else { list(ProcFilter::ByUID { uid: uid.as_raw() }, what) }
}

/// All pids.
pub(super) fn all(what: Reading) -> Result<Vec<u32>, Unknown> {
    list(ProcFilter::All, what)
}

fn list(filter: ProcFilter, what: Reading) -> Result<Vec<u32>, Unknown> {
    let mut pids = pids_by_type(filter).map_err(|error| match error.raw_os_error() {
        Some(number) => Unknown::os(what, Errno::from_raw_os_error(number)),
        None => Unknown::new(what, Why::Malformed),
    })?;
    // The list comes with zeroes behind it.
    pids.retain(|pid| *pid != 0);
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// One process as the kernel has it.
pub(super) struct Read {
    pid: u32,
    info: KinfoProc,
}

/// Reads a process; `None` if nobody has the pid. libproc tells errors as text, and the sysctl has no other
/// error for a pid than that nobody has it.
pub(super) fn read(pid: u32) -> Result<Option<Read>, Unknown> {
    let Ok(raw) = i32::try_from(pid) else { return Ok(None) };
    if raw == 0 {
        return Ok(None);
    }
    match kproc_info_raw(raw) {
        Ok(info) if info.kp_proc.p_pid == raw => Ok(Some(Read { pid, info })),
        Ok(_) | Err(_) => Ok(None),
    }
}

impl Read {
    /// Microseconds since the epoch: what this platform has for an identity beside the pid.
    fn started(&self) -> u64 {
        let start = &self.info.kp_proc.p_un;
        let seconds = u64::try_from(start.tv_sec).unwrap_or(0);
        seconds.saturating_mul(1_000_000).saturating_add(u64::try_from(start.tv_usec).unwrap_or(0))
    }

    pub(super) fn kin(&self) -> Kin {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid).unwrap_or(0));
        let session = rustix::process::getsid(pid).map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        Kin {
            id: ProcessId { pid: self.pid, start_ticks: self.started() },
            parent: u32::try_from(self.info.kp_eproc.e_ppid).unwrap_or(0),
            session,
            group: u32::try_from(self.info.kp_eproc.e_pgid).unwrap_or(0),
            zombie: self.info.kp_proc.p_stat == SZOMB,
        }
    }

    pub(super) fn shown(self) -> Process {
        let kin = self.kin();
        let name = text(&self.info.kp_proc.p_comm);
        let raw = i32::try_from(self.pid).unwrap_or(0);
        let executable = pidpath(raw).ok();
        Process {
            id: kin.id,
            parent: kin.parent,
            uid: self.info.kp_eproc.e_ucred.cr_uid,
            session: kin.session,
            group: kin.group,
            command: executable.clone().unwrap_or_else(|| name.clone()),
            name,
            executable,
            working_directory: None,
            started_at_unix_ms: i64::try_from(self.started() / 1000).unwrap_or(i64::MAX),
            zombie: kin.zombie,
            ns_pids: vec![self.pid],
            net_ns_same: Some(true),
        }
    }
}

/// How many descriptors one of our own processes has; `None` if it is gone or may not be looked into.
pub(super) fn descriptors(pid: u32) -> Option<usize> {
    let info = pidinfo::<BSDInfo>(i32::try_from(pid).ok()?, 0).ok()?;
    usize::try_from(info.pbi_nfiles).ok()
}

fn text(name: &[i8]) -> String {
    let bytes: Vec<u8> =
        name.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_le_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
