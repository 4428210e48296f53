//! Whether worktrees' folders are still there: looked at on threads that may be lost.
//!
//! A look at a dead mount never comes back. Its thread is given up, and nothing else on that mount is looked at,
//! so one dead mount costs one thread and one wait, however many worktrees are on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long one folder may take to answer.
const ONE: Duration = Duration::from_secs(2);
/// How long all of them may take.
const ALL: Duration = Duration::from_secs(15);
/// How many threads may be lost.
const LOST: usize = 4;

/// What became of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// Something is there.
    There,
    /// Nothing is, and the system says so.
    Missing,
    /// That can't be told: no permission, a dead mount.
    Unreachable,
}

/// Looks at each folder once.
pub(super) fn look(roots: BTreeSet<String>) -> BTreeMap<String, Folder> {
    look_with(roots, mounts(), ONE, |path| fs::metadata(path).map(drop))
}

fn look_with(
    roots: BTreeSet<String>,
    mounts: Vec<PathBuf>,
    one: Duration,
    stat: fn(&Path) -> io::Result<()>,
) -> BTreeMap<String, Folder> {
    let end = Instant::now() + ALL;
    let mut found = BTreeMap::new();
    let mut rest: Vec<String> = roots.into_iter().collect();
    let mut lost = 0;
    while !rest.is_empty() && lost < LOST && Instant::now() < end {
        let (sender, answers) = mpsc::channel();
        let work = rest.clone();
        let thread = std::thread::Builder::new().name("folders".into()).spawn(move || {
            for root in work {
                let folder = judge(stat(Path::new(&root)));
                if sender.send((root, folder)).is_err() {
                    return;
                }
            }
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "no thread to look at folders");
            break;
        }
        let before = found.len();
        for _ in 0..rest.len() {
            match answers.recv_timeout(one.min(end.saturating_duration_since(Instant::now()))) {
                Ok((root, folder)) => {
                    found.insert(root, folder);
                }
                Err(_) => break,
            }
        }
        // They answer in order: the first one without an answer is the one that hangs.
        let answered = found.len() - before;
        let hangs = rest.get(answered).cloned();
        rest.drain(..answered);
        if let Some(hangs) = hangs {
            lost += 1;
            let dead = mount_of(&mounts, &hangs);
            rest.retain(|root| {
                let here = *root == hangs || (dead.is_some() && mount_of(&mounts, root) == dead);
                if here {
                    found.insert(root.clone(), Folder::Unreachable);
                }
                !here
            });
        }
    }
    found.extend(rest.into_iter().map(|root| (root, Folder::Unreachable)));
    found
}

fn judge(looked: io::Result<()>) -> Folder {
    match looked.map_err(|error| error.kind()) {
        Ok(()) => Folder::There,
        Err(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Folder::Missing,
        Err(_) => Folder::Unreachable,
    }
}

/// The mount that a path is on, `/` apart: that one answers, or nothing does.
fn mount_of<'a>(mounts: &'a [PathBuf], root: &str) -> Option<&'a PathBuf> {
    mounts
        .iter()
        .filter(|mount| Path::new(root).starts_with(mount) && mount.as_os_str() != "/")
        .max_by_key(|mount| mount.as_os_str().len())
}

/// The mount points, as the kernel lists them (proc_pid_mountinfo(5)): the fifth field, blanks escaped.
fn mounts() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').nth(4)).map(|field| unescape(field).into()).collect()
}

fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_mount_costs_one_thread_and_hides_nothing_else() {
        fn stat(path: &Path) -> io::Result<()> {
            if path.starts_with("/dead") {
                // A look that never comes back; the thread is lost with the test.
                loop {
                    std::thread::park();
                }
            }
            match path.to_str() {
                Some("/gone") => Err(io::ErrorKind::NotFound.into()),
                Some("/locked") => Err(io::ErrorKind::PermissionDenied.into()),
                _ => Ok(()),
            }
        }
        let mut roots: BTreeSet<String> = (0..1000).map(|n| format!("/dead/{n}")).collect();
        roots.extend(["/a", "/gone", "/locked", "/z"].map(str::to_owned));
        let found = look_with(roots, vec!["/".into(), "/dead".into()], Duration::from_millis(100), stat);
        assert_eq!(found["/a"], Folder::There);
        assert_eq!(found["/gone"], Folder::Missing);
        assert_eq!(found["/locked"], Folder::Unreachable);
        assert_eq!(found["/z"], Folder::There);
        assert_eq!(found.values().filter(|f| **f == Folder::Unreachable).count(), 1001);
    }

    #[test]
    fn mount_points_with_blanks_are_read() {
        assert_eq!(unescape("/media/my\\040disk"), "/media/my disk");
        assert!(!mounts().is_empty());
    }
}
