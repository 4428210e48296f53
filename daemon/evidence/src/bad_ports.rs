//! The ports that browsers refuse to fetch from. Whether to warn or to pass over is the caller's to decide.

/// The fetch standard's "bad ports" from 1024 up, ascending.
///
/// Source: WHATWG Fetch, "Port blocking" (<https://fetch.spec.whatwg.org/#port-blocking>). The ones below 1024
/// are left out: they are privileged anyway.
const BAD_PORTS: [u16; 19] = [
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679,
    6697, 10080,
];

/// The fetch standard's bad ports from 1024 up, ascending.
pub fn bad_ports() -> &'static [u16] {
    &BAD_PORTS
}

/// Whether browsers refuse this port. Ports below 1024 are not looked at.
pub fn is_bad_port(port: u16) -> bool {
    BAD_PORTS.binary_search(&port).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_ports_are_sorted_unique_and_unprivileged() {
        assert!(BAD_PORTS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(BAD_PORTS[0] >= 1024);
    }

    #[test]
    fn bad_ports_are_known_and_others_are_not() {
        for port in [6000, 6665, 6669, 6679, 6697, 10080] {
            assert!(is_bad_port(port), "{port}");
        }
        for port in [3000, 5173, 6001, 6664, 6670, 8080, 10081] {
            assert!(!is_bad_port(port), "{port}");
        }
    }
}
