//! Names of domains and tools, checked while compiling.

use std::fmt;

/// A domain crate's name tag.
///
/// Handing it to [`crate::Registry::load`] is what links the crate: rustc drops a dependency that no source
/// file names, and with it every tool that the crate registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain {
    name: &'static str,
}

impl Domain {
    /// Made by [`crate::domain!`] alone, which also enters the domain's marker.
    #[doc(hidden)]
    pub const fn __new(name: &'static str) -> Domain {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= 16, "a domain's name is 1 to 16 bytes");
        let mut i = 0;
        while i < bytes.len() {
            assert!(bytes[i].is_ascii_lowercase(), "a domain's name is lower-case letters");
            i += 1;
        }
        Domain { name }
    }

    /// The name that every tool of the domain starts with.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// The marker that a linked domain leaves behind, so that one without tools is known, not missing.
#[doc(hidden)]
pub struct DomainMarker(pub Domain);
inventory::collect!(DomainMarker);

/// Declares `DOMAIN`, this crate's name tag.
#[macro_export]
macro_rules! domain {
    ($name:literal) => {
        /// This domain's name tag.
        pub const DOMAIN: $crate::Domain = $crate::Domain::__new($name);
        $crate::__inventory::submit! { $crate::__DomainMarker(DOMAIN) }
    };
}

/// The name of a tool: `<domain>_<noun or verb…>`, of `[a-z0-9_]`, at most 40 bytes.
///
/// Hosts prefix it (`mcp__portreeve__`) and cut at 60 or 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(&'static str);

impl Name {
    /// Checks `name` while compiling; a bad one is a compile error.
    pub const fn new(name: &'static str, domain: Domain) -> Name {
        let bytes = name.as_bytes();
        let prefix = domain.name().as_bytes();
        assert!(bytes.len() <= 40, "a tool's name is at most 40 bytes");
        assert!(bytes.len() > prefix.len() + 1, "a tool's name goes on after its domain");
        let mut i = 0;
        while i < bytes.len() {
            assert!(
                bytes[i].is_ascii_lowercase() || bytes[i].is_ascii_digit() || bytes[i] == b'_',
                "a tool's name is of a-z, 0-9 and _"
            );
            if i < prefix.len() {
                assert!(bytes[i] == prefix[i], "a tool's name starts with its domain");
            }
            i += 1;
        }
        assert!(bytes[prefix.len()] == b'_', "a tool's name starts with its domain and an underscore");
        assert!(
            !ends_with(bytes, b"_preview") && !ends_with(bytes, b"_execute"),
            "_preview and _execute are added to the name of a change, and to no other"
        );
        Name(name)
    }

    /// Leaves room for what the two faces of a change add.
    pub(crate) const fn pair(self) -> Name {
        assert!(self.0.len() <= 32, "a change's name is at most 32 bytes: _preview and _execute are added");
        self
    }

    /// The name as text.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// Whether `text` ends in `end`, while compiling.
pub(crate) const fn ends_with(text: &[u8], end: &[u8]) -> bool {
    match text.split_at_checked(text.len().saturating_sub(end.len())) {
        Some((_, tail)) => equal(tail, end),
        None => false,
    }
}

/// Whether two texts are one, while compiling.
pub(crate) const fn equal(one: &[u8], other: &[u8]) -> bool {
    let mut i = 0;
    while i < one.len() && i < other.len() && one[i] == other[i] {
        i += 1;
    }
    i == one.len() && i == other.len()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
