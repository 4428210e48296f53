//! Reading the kernel's answers to a SOCK_DIAG dump. No input, whatever it is, makes this panic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use super::netlink::{AF_INET, AF_INET6};
use crate::Socket;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The table changed while it was dumped (netlink(7)).
const NLM_F_DUMP_INTR: u16 = 0x10;
const HEADER: usize = 16;
/// `struct inet_diag_msg`, before its attributes.
const MESSAGE: usize = 72;
const INET_DIAG_SKV6ONLY: u16 = 11;

/// One socket of the table, with its state (`TCP_*` of the kernel's `tcp_states.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) socket: Socket,
    pub(super) state: u8,
}

/// What a datagram brought, beside rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More { interrupted: bool },
    Done { interrupted: bool },
    Refused(Errno),
    Malformed,
}

/// Reads one datagram of messages; those of another question are passed over.
pub(super) fn parse(mut datagram: &[u8], sequence: u32, rows: &mut Vec<Row>) -> Progress {
    let mut interrupted = false;
    while !datagram.is_empty() {
        let (Some(length), Some(kind), Some(flags), Some(number)) =
            (u32_at(datagram, 0), u16_at(datagram, 4), u16_at(datagram, 6), u32_at(datagram, 8))
        else {
            return Progress::Malformed;
        };
        let Ok(length) = usize::try_from(length) else {
            return Progress::Malformed;
        };
        let Some(body) = datagram.get(HEADER..length) else {
            return Progress::Malformed;
        };
        if number == sequence {
            interrupted |= flags & NLM_F_DUMP_INTR != 0;
            match kind {
                // A dump that failed half-way says so in its last message.
                NLMSG_DONE => {
                    return match i32_at(body, 0) {
                        Some(code) if code < 0 => Progress::Refused(errno(code)),
                        _ => Progress::Done { interrupted },
                    };
                }
                NLMSG_ERROR => {
                    return match i32_at(body, 0) {
                        Some(0) => Progress::Done { interrupted },
                        Some(code) => Progress::Refused(errno(code)),
                        None => Progress::Malformed,
                    };
                }
                SOCK_DIAG_BY_FAMILY => match row(body) {
                    Some(row) => rows.extend(row),
                    None => return Progress::Malformed,
                },
                _ => {}
            }
        }
        datagram = datagram.get(aligned(length)..).unwrap_or_default();
    }
    Progress::More { interrupted }
}

/// `None` if it is too short, `Some(None)` if it is of a family that we don't know.
fn row(body: &[u8]) -> Option<Option<Row>> {
    let message = body.get(..MESSAGE)?;
    let (family, state) = (message[0], message[1]);
    let port = u16::from_be_bytes([message[4], message[5]]);
    let source: [u8; 16] = message.get(8..24)?.try_into().ok()?;
    let address = match family {
        AF_INET => IpAddr::V4(Ipv4Addr::new(source[0], source[1], source[2], source[3])),
        AF_INET6 => IpAddr::V6(Ipv6Addr::from(source)),
        _ => return Some(None),
    };
    let cookie = u64::from(u32_at(message, 44)?) | u64::from(u32_at(message, 48)?) << 32;
    let uid = u32_at(message, 64)?;
    let inode = u64::from(u32_at(message, 68)?);
    let v6only = family == AF_INET6 && v6only(body.get(MESSAGE..)?);
    Some(Some(Row { socket: Socket { address, port, v6only, uid, inode, cookie }, state }))
}

/// Looks through the attributes; what is cut or odd ends the look.
fn v6only(mut attributes: &[u8]) -> bool {
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let Some(value) = attributes.get(4..length) else {
            return false;
        };
        if kind == INET_DIAG_SKV6ONLY {
            return value.first().is_some_and(|flag| *flag != 0);
        }
        attributes = attributes.get(aligned(length)..).unwrap_or_default();
    }
    false
}

fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn errno(code: i32) -> Errno {
    // The kernel's numbers are negative and below 4096; anything else is not one.
    match code.checked_neg() {
        Some(number @ 1..=4095) => Errno::from_raw_os_error(number),
        _ => Errno::PROTO,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEQUENCE: u32 = 7;

    fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(u32::try_from(HEADER + body.len()).expect("short").to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(body);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn socket(family: u8, v6only: Option<u8>) -> Vec<u8> {
        let mut body = vec![family, 10, 0, 0];
        body.extend(3000u16.to_be_bytes());
        body.extend([0, 0]);
        body.extend([127, 0, 0, 1]);
        body.extend([0; 12 + 16 + 4]);
        body.extend(0x1111_2222u32.to_ne_bytes());
        body.extend(0x3333_4444u32.to_ne_bytes());
        body.extend([0; 12]);
        body.extend(1000u32.to_ne_bytes());
        body.extend(4242u32.to_ne_bytes());
        assert_eq!(body.len(), MESSAGE);
        // Another attribute in front, of an odd length.
        body.extend(5u16.to_ne_bytes());
        body.extend(8u16.to_ne_bytes());
        body.extend([1, 0, 0, 0]);
        if let Some(flag) = v6only {
            body.extend(5u16.to_ne_bytes());
            body.extend(INET_DIAG_SKV6ONLY.to_ne_bytes());
            body.extend([flag, 0, 0, 0]);
        }
        message(SOCK_DIAG_BY_FAMILY, 2, SEQUENCE, &body)
    }

    fn done(flags: u16) -> Vec<u8> {
        message(NLMSG_DONE, flags, SEQUENCE, &0i32.to_ne_bytes())
    }

    #[test]
    fn rows_and_the_end_are_read() {
        let mut rows = Vec::new();
        let datagram = [socket(AF_INET, None), socket(AF_INET6, Some(1)), socket(AF_INET6, Some(0)), done(2)];
        assert_eq!(parse(&datagram.concat(), SEQUENCE, &mut rows), Progress::Done { interrupted: false });
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let first = Socket {
            address,
            port: 3000,
            v6only: false,
            uid: 1000,
            inode: 4242,
            cookie: 0x3333_4444_1111_2222,
        };
        assert_eq!(rows[0], Row { socket: first, state: 10 });
        assert!(rows[1].socket.v6only && !rows[2].socket.v6only);
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn an_interrupted_dump_is_told() {
        let mut rows = Vec::new();
        assert_eq!(parse(&done(NLM_F_DUMP_INTR), SEQUENCE, &mut rows), Progress::Done { interrupted: true });
        let mut early = socket(AF_INET, None);
        early[6..8].copy_from_slice(&NLM_F_DUMP_INTR.to_ne_bytes());
        assert_eq!(parse(&early, SEQUENCE, &mut rows), Progress::More { interrupted: true });
    }

    #[test]
    fn a_refusal_is_an_error_also_at_the_end() {
        for kind in [NLMSG_ERROR, NLMSG_DONE] {
            let refused = message(kind, 0, SEQUENCE, &(-1i32).to_ne_bytes());
            assert_eq!(parse(&refused, SEQUENCE, &mut Vec::new()), Progress::Refused(Errno::PERM));
        }
        let absurd = message(NLMSG_ERROR, 0, SEQUENCE, &i32::MIN.to_ne_bytes());
        assert_eq!(parse(&absurd, SEQUENCE, &mut Vec::new()), Progress::Refused(Errno::PROTO));
    }

    #[test]
    fn an_answer_to_another_question_is_passed_over() {
        let mut rows = Vec::new();
        assert_eq!(
            parse(&socket(AF_INET, None), SEQUENCE + 1, &mut rows),
            Progress::More { interrupted: false }
        );
        assert!(rows.is_empty());
    }

    #[test]
    fn a_family_unknown_to_us_is_passed_over() {
        let mut rows = Vec::new();
        assert_eq!(parse(&socket(99, None), SEQUENCE, &mut rows), Progress::More { interrupted: false });
        assert!(rows.is_empty());
    }

    #[test]
    fn a_cut_answer_is_malformed_or_partial_but_never_done() {
        let whole = [socket(AF_INET, None), socket(AF_INET6, Some(1)), done(0)].concat();
        for length in 0..whole.len() {
            let progress = parse(&whole[..length], SEQUENCE, &mut Vec::new());
            assert!(!matches!(progress, Progress::Done { .. }), "{length}: {progress:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes, SEQUENCE, &mut Vec::new());
        }

        #[test]
        fn a_flipped_byte_never_panics(at in 0usize..250, value: u8) {
            let mut bytes = [socket(AF_INET6, Some(1)), socket(AF_INET, None), done(0)].concat();
            let at = at % bytes.len();
            bytes[at] = value;
            parse(&bytes, SEQUENCE, &mut Vec::new());
        }
    }
}
