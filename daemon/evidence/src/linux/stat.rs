//! `/proc/PID/stat`: one line that is readable of every user's processes.

/// `PF_KTHREAD` of the kernel's `include/linux/sched.h`: a thread of the kernel, without descriptors.
const PF_KTHREAD: u64 = 0x0020_0000;

/// What is taken from the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat<'line> {
    pub(super) name: &'line [u8],
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) start_ticks: u64,
    pub(super) zombie: bool,
    pub(super) kernel_thread: bool,
}

/// Reads the line. The name stands between the first `(` and the last `)`, may be empty and may hold any byte,
/// both parentheses and newlines too; behind it are numbers only (proc_pid_stat(5)). The line may be cut
/// anywhere behind field 22.
pub(super) fn parse(line: &[u8]) -> Option<Stat<'_>> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let name = line.get(open + 1..close)?;
    let mut fields = line.get(close + 1..)?.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    // Field 3 is next.
    let state = *fields.next()?.first()?;
    let parent = number(fields.next()?)?;
    let group = number(fields.next()?)?;
    let session = number(fields.next()?)?;
    let flags = unsigned(fields.nth(2)?)?; // 9
    let threads = unsigned(fields.nth(10)?)?; // 20
    let start_ticks = unsigned(fields.nth(1)?)?; // 22
    Some(Stat {
        name,
        parent,
        group,
        session,
        start_ticks,
        // A main thread that ended before the others reads as a zombie too, but the process lives.
        zombie: matches!(state, b'Z' | b'X' | b'x') && threads <= 1,
        kernel_thread: flags & PF_KTHREAD != 0,
    })
}

/// A pid. Below zero (the kernel prints -1 for a group or session that is just going) it is none.
fn number(field: &[u8]) -> Option<u32> {
    let number: i64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    Some(u32::try_from(number).unwrap_or(0))
}

fn unsigned(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REST: &str =
        " S 7 8 9 34816 10 4194304 1 2 3 4 5 6 7 8 20 0 4 0 77777 1000 5 18446744073709551615 1 1";

    fn line(name: &[u8]) -> Vec<u8> {
        [b"42 (".as_slice(), name, b")", REST.as_bytes()].concat()
    }

    #[test]
    fn any_name_is_read() {
        for name in [
            b"".as_slice(),
            b"a b",
            b"(",
            b")",
            b") R 1 1 1 (",
            b"x\ny",
            b"\xff\xfe",
            b"))((",
            b"sd-pam) S 1",
        ] {
            let line = line(name);
            let stat = parse(&line).unwrap_or_else(|| panic!("{:?}", name.escape_ascii().to_string()));
            assert_eq!(stat.name, name);
            assert_eq!((stat.parent, stat.group, stat.session, stat.start_ticks), (7, 8, 9, 77777));
            assert!(!stat.zombie && !stat.kernel_thread);
        }
    }

    #[test]
    fn a_zombie_is_one_only_when_no_thread_is_left() {
        let text = |state: &str, threads: u32| {
            format!("1 (x) {state} 0 -1 -1 0 -1 2097152 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0")
        };
        let (one, four) = (text("Z", 1), text("Z", 4));
        let alone = parse(one.as_bytes()).expect("well formed");
        assert!(alone.zombie && alone.kernel_thread);
        assert_eq!((alone.group, alone.session), (0, 0));
        assert!(!parse(four.as_bytes()).expect("well formed").zombie);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }

        #[test]
        fn any_name_is_given_back(name in prop::collection::vec(1u8.., 0..16), cut in 0usize..30) {
            let mut line = line(&name);
            line.truncate(line.len() - cut);
            prop_assert_eq!(parse(&line).map(|stat| stat.name.to_vec()), Some(name));
        }

        #[test]
        fn a_cut_line_never_panics(cut in 0usize..120) {
            let line = line(b"a ) b");
            parse(&line[..cut.min(line.len())]);
        }
    }
}
