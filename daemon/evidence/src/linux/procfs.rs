//! `/proc`, opened once: its processes and their small files.
//!
//! A descriptor of `/proc/PID` belongs to that process and to no later one with the same pid: reads through
//! it fail once the process is gone. So a process that is read in several steps is read through one.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat_raw};
use rustix::io::{Errno, read, retry_on_intr};

use super::path::Path;
use super::stat;
use crate::{Deadline, Kin, ProcessId, Reading, Unknown, Why};

/// The kept descriptor of `/proc`.
#[derive(Debug)]
pub(super) struct Procfs {
    root: OwnedFd,
}

/// One process' line, without its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) kin: Kin,
    pub(super) kernel_thread: bool,
}

impl Procfs {
    /// Opens `/proc`, and makes sure that it shows this process under the pid that the kernel knows it by.
    pub(super) fn open() -> Result<Self, Unknown> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, c"/proc", flags, Mode::empty())
            .map_err(|error| Unknown::os(Reading::Processes, error))?;
        let procfs = Self { root };
        let mut buffer = [0; 16];
        let own =
            procfs.link(c"self", &mut buffer).map_err(|error| Unknown::os(Reading::Processes, error))?;
        if parse_number(own) != Some(rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()) {
            return Err(Unknown::new(Reading::Processes, Why::Hidden));
        }
        Ok(procfs)
    }

    /// `/proc` itself, for paths relative to it.
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// A directory below `/proc`, opened for listing it.
    pub(super) fn directory(&self, path: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
        openat(&self.root, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// `/proc/PID`, as a handle to that very process. `None` if nobody has the pid.
    pub(super) fn handle(&self, pid: u32) -> Result<Option<OwnedFd>, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        absent(openat(&self.root, Path::pid(pid).as_c_str(), flags, Mode::empty()))
    }

    /// A file below `/proc` into the buffer, as far as it fits.
    pub(super) fn file<'b>(&self, path: &std::ffi::CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        file_at(self.root.as_fd(), path, buffer)
    }

    /// A link's target into the buffer, as far as it fits.
    pub(super) fn link<'b>(&self, path: &std::ffi::CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        link_at(self.root.as_fd(), path, buffer)
    }

    /// A process' place; `None` if nobody has the pid.
    pub(super) fn place(&self, pid: u32) -> Result<Option<Place>, Errno> {
        place_at(self.root.as_fd(), Path::pid(pid).name("/stat").as_c_str(), pid)
    }

    /// All pids, ascending.
    pub(super) fn pids(&self, deadline: &Deadline) -> Result<Vec<u32>, Unknown> {
        let os = |error| Unknown::os(Reading::Processes, error);
        let directory = self.directory(c".").map_err(os)?;
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut entries = RawDir::new(directory, &mut buffer);
        let mut pids = Vec::with_capacity(512);
        while let Some(entry) = entries.next() {
            if let Some(pid) = parse_number(entry.map_err(os)?.file_name().to_bytes()) {
                pids.push(pid);
            }
        }
        deadline.check(Reading::Processes)?;
        pids.sort_unstable();
        Ok(pids)
    }
}

/// A file relative to a directory, as far as it fits. Files of `/proc` may come in pieces.
pub(super) fn file_at<'b>(
    directory: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], Errno> {
    let file = openat(directory, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut length = 0;
    while length < buffer.len() {
        match retry_on_intr(|| read(&file, &mut buffer[length..]))? {
            0 => break,
            more => length += more,
        }
    }
    Ok(&buffer[..length])
}

/// A link's target relative to a directory, as far as it fits.
pub(super) fn link_at<'b>(
    directory: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], Errno> {
    let length = readlinkat_raw(directory, path, &mut *buffer)?;
    Ok(&buffer[..length])
}

/// The place told by a `stat` file; `None` if the process is gone.
pub(super) fn place_at(
    directory: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    pid: u32,
) -> Result<Option<Place>, Errno> {
    let mut buffer = [0; 1024];
    let Some(line) = absent(one_read(directory, path, &mut buffer))? else {
        return Ok(None);
    };
    let stat = stat::parse(line).ok_or(Errno::ILSEQ)?;
    Ok(Some(Place { kin: kin(pid, &stat), kernel_thread: stat.kernel_thread }))
}

/// The line of a `stat` file, which comes whole in one read; saves the second one that finds the end.
pub(super) fn one_read<'b>(
    directory: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], Errno> {
    let file = openat(directory, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = retry_on_intr(|| read(&file, &mut *buffer))?;
    Ok(&buffer[..length])
}

/// The kin told by a parsed line.
pub(super) fn kin(pid: u32, stat: &stat::Stat<'_>) -> Kin {
    Kin {
        id: ProcessId { pid, start_ticks: stat.start_ticks },
        parent: stat.parent,
        session: stat.session,
        group: stat.group,
        zombie: stat.zombie,
    }
}

/// A process that is gone is no error. Under `hidepid` it can't be told from a hidden one.
pub(super) fn absent<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A decimal number and nothing else.
pub(super) fn parse_number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 10 {
        return None;
    }
    text.iter().try_fold(0u32, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u32::from(digit)) }
    })
}

/// The inode in a descriptor's link, `socket:[N]`.
pub(super) fn socket_inode(link: &[u8]) -> Option<u64> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_have_inodes() {
        assert_eq!(socket_inode(b"socket:[4242]"), Some(4242));
        for link in [b"pipe:[42]".as_slice(), b"socket:[]", b"socket:[4x]", b"socket:[42", b"/dev/null", b""]
        {
            assert_eq!(socket_inode(link), None);
        }
        assert_eq!(socket_inode(b"socket:[99999999999999999999]"), None);
    }

    #[test]
    fn only_numbers_are_pids() {
        assert_eq!(parse_number(b"4294967295"), Some(u32::MAX));
        for name in [b"".as_slice(), b".", b"self", b"4294967296", b"-1", b"1 ", b"99999999999"] {
            assert_eq!(parse_number(name), None);
        }
    }
}
