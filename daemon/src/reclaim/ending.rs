//! Ending processes: a signal through each pidfd, the grace by the clock, and a look at the port afterwards.
//!
//! It returns within the grace and one second.

use super::facts::{Ask, Verdict, View};
use super::guard;
use crate::Daemon;
use crate::inventory;
use portreeve_evidence::{Deadline, Kin, ProcessId};
use portreeve_ports::{ReclaimOutcome, ReclaimPolicy, SentSignal, SignalName};
use portreeve_records::{Pid, PortNumber};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long killed processes may take to end.
const KILLED: Duration = Duration::from_millis(500);
/// How long a server that was started again may take to listen.
const RESTART: Duration = Duration::from_millis(400);
/// How long a parent may take to start it again.
const NOTICE: Duration = Duration::from_millis(20);

/// What was done, and what came of it.
pub(super) struct Ended {
    pub(super) signals: Vec<SentSignal>,
    pub(super) verdict: Verdict,
}

/// Ends the targets.
pub(super) fn end(daemon: &Daemon, ask: &Ask, view: &View) -> Ended {
    let grace = Duration::from_millis(daemon.settings().graceful_shutdown_milliseconds);
    let begun = Instant::now();
    let mut signals = Vec::new();
    let mut failed = None;
    for (id, pidfd) in &view.pidfds {
        send(daemon, *id, pidfd, SignalName::Term, &mut signals, &mut failed);
    }
    if let (true, Some(code)) = (signals.is_empty(), failed.as_ref()) {
        return Ended { signals, verdict: Verdict::refused(&format!("signal-failed:{code}")) };
    }
    let mut left = wait(&view.pidfds, begun + grace);
    let mut reason = "grace-period-expired";
    if !left.is_empty() && ask.policy == ReclaimPolicy::ForceAfterGrace {
        // What the survivors started since is as much theirs as what they had started before.
        let since = started_since(daemon, view, &left);
        let all: Vec<&(ProcessId, OwnedFd)> = since.iter().chain(left).collect();
        for (id, pidfd) in &all {
            send(daemon, *id, pidfd, SignalName::Kill, &mut signals, &mut failed);
        }
        let survivors = wait(all, Instant::now() + KILLED).len();
        reason = "forced-termination-timeout";
        left = if survivors == 0 { Vec::new() } else { wait(&view.pidfds, Instant::now()) };
    }
    let verdict = if !left.is_empty() {
        let reason = failed.map_or(reason.to_owned(), |code| format!("signal-failed:{code}"));
        Verdict { outcome: ReclaimOutcome::Timeout, reason: Some(reason) }
    } else {
        afterwards(daemon, ask.port, view)
    };
    Ended { signals, verdict }
}

/// Sends one signal; a process that has ended already needs none.
fn send(
    daemon: &Daemon,
    id: ProcessId,
    pidfd: &OwnedFd,
    signal: SignalName,
    signals: &mut Vec<SentSignal>,
    failed: &mut Option<String>,
) {
    match through(id, pidfd, signal) {
        Ok(()) => {
            if let Some(pid) = Pid::new(id.pid) {
                signals.push(SentSignal { pid, signal, at: daemon.clock().now().stamp() });
            }
        }
        Err(Errno::SRCH) => {}
        Err(error) => {
            let code = match error {
                Errno::PERM => "EPERM".to_owned(),
                other => other.raw_os_error().to_string(),
            };
            tracing::warn!(pid = id.pid, code, "a signal could not be sent");
            *failed = Some(code);
        }
    }
}

#[cfg(target_os = "linux")]
fn through(_: ProcessId, pidfd: &OwnedFd, signal: SignalName) -> Result<(), Errno> {
    rustix::process::pidfd_send_signal(pidfd, number(signal))
}

/// There are no pidfds here: the descriptor was taken for that very process, and proves that it lived then.
#[cfg(not(target_os = "linux"))]
fn through(id: ProcessId, pidfd: &OwnedFd, signal: SignalName) -> Result<(), Errno> {
    let ended = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&ended))? > 0 {
        return Err(Errno::SRCH);
    }
    let pid = i32::try_from(id.pid).ok().and_then(rustix::process::Pid::from_raw).ok_or(Errno::SRCH)?;
    rustix::process::kill_process(pid, number(signal))
}

fn number(signal: SignalName) -> rustix::process::Signal {
    match signal {
        SignalName::Term => rustix::process::Signal::TERM,
        SignalName::Kill => rustix::process::Signal::KILL,
    }
}

/// Waits until all of them have ended or the time is over; those that are left.
fn wait<'a>(
    pidfds: impl IntoIterator<Item = &'a (ProcessId, OwnedFd)>,
    until: Instant,
) -> Vec<&'a (ProcessId, OwnedFd)> {
    let mut left: Vec<&(ProcessId, OwnedFd)> = pidfds.into_iter().collect();
    loop {
        let mut fds: Vec<PollFd<'_>> =
            left.iter().map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)).collect();
        let time = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "processes can't be waited for");
                return left;
            }
        }
        let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ended = ended.into_iter();
        left.retain(|_| ended.next() != Some(true));
        if left.is_empty() || time.is_zero() {
            return left;
        }
    }
}

/// The processes that living targets started after the plan was made, leaf first.
fn started_since(daemon: &Daemon, view: &View, left: &[&(ProcessId, OwnedFd)]) -> Vec<(ProcessId, OwnedFd)> {
    let source = daemon.evidence();
    let deadline = Deadline::after(Duration::from_millis(100));
    let mut found: Vec<ProcessId> = Vec::new();
    for (id, _) in left {
        for Kin { id, .. } in source.descendants(*id, &deadline).unwrap_or_default() {
            if !view.order.contains(&id) && !found.contains(&id) {
                found.push(id);
            }
        }
    }
    found.reverse();
    found.retain(|id| guard::above_us(daemon, *id) == Some(false));
    found.into_iter().filter_map(|id| Some((id, source.pidfd(id).ok()?))).collect()
}

/// Looks at the port once more: whoever listens now came after the targets had ended.
fn afterwards(daemon: &Daemon, port: PortNumber, view: &View) -> Verdict {
    let respawned = || Verdict { outcome: ReclaimOutcome::Timeout, reason: Some("respawned".to_owned()) };
    let noticed = Instant::now() + NOTICE;
    let end = Instant::now() + RESTART;
    loop {
        let deadline = Deadline::after(inventory::ONE.min(Duration::from_millis(200)));
        match daemon.evidence().listening_on(port.get(), &deadline) {
            Ok(sockets) if sockets.is_empty() => {}
            Ok(_) => return respawned(),
            Err(unknown) => {
                let reason = Some(format!("port-unobservable: {unknown}"));
                return Verdict { outcome: ReclaimOutcome::Timeout, reason };
            }
        }
        let now = Instant::now();
        let may_come = match restarted(daemon, view) {
            true => now < end,
            false => now < noticed && !view.supervisors.is_empty(),
        };
        if !may_come {
            return Verdict::of(ReclaimOutcome::Terminated);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a parent of the tree has started it again: a younger child with the command of a target.
fn restarted(daemon: &Daemon, view: &View) -> bool {
    let source = daemon.evidence();
    let youngest = view.order.iter().map(|id| id.start_ticks).max().unwrap_or_default();
    let deadline = Deadline::after(Duration::from_millis(100));
    view.supervisors.iter().any(|parent| {
        source.descendants(*parent, &deadline).unwrap_or_default().iter().any(|kin| {
            kin.id.start_ticks >= youngest
                && !view.order.contains(&kin.id)
                && source
                    .process(kin.id.pid)
                    .ok()
                    .flatten()
                    .is_some_and(|process| process.id == kin.id && view.commands.contains(&process.command))
        })
    })
}
