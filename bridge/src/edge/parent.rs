//! The process that started the bridge, and its end.
//!
//! A host that dies leaves stdin open when another process holds the other end of the pipe, so the end of stdin
//! is not enough. On Linux a pidfd tells (not `PR_SET_PDEATHSIG`, which follows the parent's *thread*);
//! elsewhere, and where the kernel refuses a pidfd, the parent's id is asked for once a second.

use std::time::Duration;

use rustix::process::{Pid, getppid};

/// How often the parent's id is asked for where there is no pidfd.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The parent at the time of [`Parent::take`].
#[derive(Debug)]
pub struct Parent {
    pid: Option<Pid>,
    #[cfg(target_os = "linux")]
    pidfd: Option<std::os::fd::OwnedFd>,
}

impl Parent {
    /// Takes hold of the parent. Do this first: a parent that dies before can't be told from init.
    pub fn take() -> Self {
        let pid = getppid();
        Self {
            pid,
            #[cfg(target_os = "linux")]
            pidfd: pid
                .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()),
        }
    }

    /// Waits until the parent is gone. Never ends when there is none in our pid namespace.
    pub(super) async fn ended(self) {
        let Some(pid) = self.pid else { return std::future::pending().await };
        #[cfg(target_os = "linux")]
        if let Some(pidfd) = self.pidfd
            && let Ok(pidfd) = super::watched::watched(pidfd, tokio::io::Interest::READABLE)
        {
            // Another parent by now: the pid may have been somebody else's when the pidfd was opened.
            if getppid() != Some(pid) {
                return;
            }
            if pidfd.readable().await.is_ok() {
                return;
            }
        }
        while getppid() == Some(pid) {
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}
