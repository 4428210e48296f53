//! The kernel's settings about ports, of the caller's network namespace (ip(7), kernel ip-sysctl.rst).

use std::ops::RangeInclusive;

use super::probe::has_ipv6;
use super::procfs::{Procfs, absent};
use crate::{PortFacts, Reading, Table, Unknown, Why};

/// See [`crate::Source::facts`].
pub(super) fn read(procfs: &Procfs, table: Table) -> Result<PortFacts, Unknown> {
    let os = |error| Unknown::os(Reading::PortFacts, error);
    let malformed = || Unknown::new(Reading::PortFacts, Why::Malformed);
    let mut buffer = [0; 128];
    let range = procfs.file(c"sys/net/ipv4/ip_local_port_range", &mut buffer).map_err(os)?;
    let ephemeral = parse_pair(range).ok_or_else(malformed)?;
    // One line that may be long; a list that doesn't fit is cut behind a whole entry.
    let mut buffer = vec![0; 64 * 1024];
    // A kernel without the setting reserves nothing.
    let reserved = absent(procfs.file(c"sys/net/ipv4/ip_local_reserved_ports", &mut buffer)).map_err(os)?;
    Ok(PortFacts {
        ephemeral,
        reserved: parse_list(reserved.unwrap_or_default()),
        unprivileged_start: unprivileged_start(procfs),
        ipv6: has_ipv6(),
        table,
    })
}

/// The first port that an ordinary user may bind; 1024 where the kernel has no such setting (before 4.11).
pub(super) fn unprivileged_start(procfs: &Procfs) -> u16 {
    let mut buffer = [0; 16];
    let text = procfs.file(c"sys/net/ipv4/ip_unprivileged_port_start", &mut buffer).ok();
    text.and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok()).unwrap_or(1024)
}

fn parse_pair(text: &[u8]) -> Option<RangeInclusive<u16>> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    Some(numbers.next()?.parse().ok()?..=numbers.next()?.parse().ok()?)
}

fn parse_list(text: &[u8]) -> Vec<RangeInclusive<u16>> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let range = |entry: &str| {
        let (start, end) = entry.split_once('-').unwrap_or((entry, entry));
        Some(start.parse().ok()?..=end.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_pair(b"32768\t60999\n"), Some(32768..=60999));
        assert_eq!(parse_pair(b"32768"), None);
        assert_eq!(parse_list(b"8080,9148-9150\n"), [8080..=8080, 9148..=9150]);
        assert_eq!(parse_list(b"\n"), []);
    }
}
