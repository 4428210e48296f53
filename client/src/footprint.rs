//! Memory that a process which stays needs no more once it has started.
//!
//! Parsing a command line, making schemas or checking a store takes code and heap that are hardly touched again,
//! and the kernel maps code in large pieces around each page that is used. A bridge runs for each agent and a
//! daemon for days, so both give that back; what is used again comes back by itself.
//! Linux with glibc; elsewhere this does nothing.

/// Gives back to the system what only starting needed: freed heap, and mapped pages of the program's code and
/// constants.
///
/// Costs some ten microseconds, and about as much again when code is touched the next time.
/// Code stays in the page cache; whatever a debugger wrote into it (a breakpoint) is lost.
pub fn shrink() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::shrink();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::path::Path;

    pub(super) fn shrink() {
        #[expect(unsafe_code, reason = "malloc_trim(3) has no safe binding; it takes no pointer")]
        // SAFETY: it may be called at any time and from any thread (malloc_trim(3), "MT-Safe").
        unsafe {
            libc::malloc_trim(0);
        }
        let own = std::env::current_exe().ok();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        for (start, length) in maps.lines().filter_map(|line| fixed(line, own.as_deref()?)) {
            #[expect(
                unsafe_code,
                reason = "madvise(2) of a mapping that is our code, which nobody writes to"
            )]
            // SAFETY: the mapping is private, of a file, and was never writable, so each page of it is the file's
            // and is mapped again as it was when it is touched (madvise(2), MADV_DONTNEED).
            unsafe {
                libc::madvise(std::ptr::with_exposed_provenance_mut(start), length, libc::MADV_DONTNEED);
            }
        }
    }

    /// Start and length of a mapping of this program's code or constants (proc_pid_maps(5)).
    ///
    /// Constants are what is read-only at the file's beginning. What else is read-only was writable until the
    /// loader had filled it in, and must stay.
    fn fixed(line: &str, own: &Path) -> Option<(usize, usize)> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let fixed = match (fields.next()?, fields.next()?) {
            ("r-xp", _) => true,
            ("r--p", offset) => offset == "00000000",
            _ => false,
        };
        let path = Path::new(fields.nth(2)?.trim_start());
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        (fixed && path == own).then(|| (start, end.saturating_sub(start)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_what_was_never_written_is_given_back() {
            let own = Path::new("/usr/bin/portreeve");
            let line =
                "55d0c0e00000-55d0c0e56000 r-xp 00200000 08:01 42                         /usr/bin/portreeve";
            assert_eq!(fixed(line, own), Some((0x55d0_c0e0_0000, 0x56000)));
            let constants = line.replace("r-xp 00200000", "r--p 00000000");
            assert_eq!(fixed(&constants, own), Some((0x55d0_c0e0_0000, 0x56000)));
            for other in [
                line.replace("r-xp", "r--p"),
                line.replace("r-xp", "rwxp"),
                line.replace("/usr/bin/portreeve", "/usr/lib/libc.so.6"),
                "7ffd5a5f2000-7ffd5a5f4000 r-xp 00000000 00:00 0                          [vdso]".to_owned(),
                "7f0000000000-7f0000001000 rw-p 00000000 00:00 0".to_owned(),
                String::new(),
            ] {
                assert_eq!(fixed(&other, own), None, "{other}");
            }
        }

        #[test]
        fn what_was_given_back_works_on() {
            shrink();
            assert_eq!("works".to_uppercase(), "WORKS");
        }
    }
}
