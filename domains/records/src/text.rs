//! Ids, names, ports and roots: bounded where they enter, so that nothing behind has to ask again.

use portreeve_registry::Issue;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use uuid::Uuid;

/// An id that the daemon made: a hyphenated UUID of version 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Id(Uuid);

impl Id {
    /// A fresh one (version 7, so that ids sort by the time they were made).
    pub fn fresh() -> Id {
        Id(Uuid::now_v7())
    }

    /// Takes a hyphenated UUID.
    pub fn parse(text: &str) -> Option<Id> {
        let id = Uuid::try_parse(text).ok()?;
        (text.len() == 36 && (1..=8).contains(&id.get_version_num())).then_some(Id(id))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Id::parse(&text).ok_or_else(|| Issue::bad_format(&"a UUID such as PortReeve answers"))
    }
}

impl JsonSchema for Id {
    fn schema_name() -> Cow<'static, str> {
        "Id".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "uuid"})
    }
}

/// A TCP port, 1 to 65535. Zero ("any") is not a port that one can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct PortNumber(
    #[schemars(range(min = 1, max = 65535))]
    #[serde(deserialize_with = "port")]
    u16,
);

impl PortNumber {
    /// The port, unless it is zero.
    pub const fn new(port: u16) -> Option<PortNumber> {
        if port == 0 { None } else { Some(PortNumber(port)) }
    }
    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    bounded(deserializer, 1, 65535, "a port from 1 to 65535").map(|n| n as u16)
}

/// A process id, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Pid(
    #[schemars(range(min = 1, max = 2147483647))]
    #[serde(deserialize_with = "pid")]
    u32,
);

impl Pid {
    /// The pid, unless it is zero or more than pids can be.
    pub const fn new(pid: u32) -> Option<Pid> {
        if pid == 0 || pid > i32::MAX as u32 { None } else { Some(Pid(pid)) }
    }
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn pid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    bounded(deserializer, 1, i32::MAX as u64, "a process id from 1 to 2147483647").map(|n| n as u32)
}

/// Reads an integer between two bounds, both included.
fn bounded<'de, D: Deserializer<'de>>(
    deserializer: D,
    least: u64,
    most: u64,
    expected: &'static str,
) -> Result<u64, D::Error> {
    struct Bounded(u64, u64, &'static str);
    impl Visitor<'_> for Bounded {
        type Value = u64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.2)
        }
        fn visit_u64<E: de::Error>(self, n: u64) -> Result<u64, E> {
            if (self.0..=self.1).contains(&n) { Ok(n) } else { Err(Issue::out_of_bounds(n < self.0, &self)) }
        }
        fn visit_i64<E: de::Error>(self, n: i64) -> Result<u64, E> {
            match u64::try_from(n) {
                Ok(n) => self.visit_u64(n),
                Err(_) => Err(Issue::out_of_bounds(true, &self)),
            }
        }
        fn visit_f64<E: de::Error>(self, n: f64) -> Result<u64, E> {
            // JSON knows no integers: 3000.0 is 3000.
            if n.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&n) {
                self.visit_u64(n as u64)
            } else if n.fract() == 0.0 {
                Err(Issue::out_of_bounds(n < 0.0, &self))
            } else {
                Err(E::invalid_type(de::Unexpected::Float(n), &self))
            }
        }
    }
    deserializer.deserialize_u64(Bounded(least, most, expected))
}

/// A name of a project, component or endpoint: trimmed, 1 to 128 characters, none of them a control character.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Named(#[schemars(length(min = 1, max = 128))] String);

impl Named {
    /// Takes a name, trimmed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Named, &'static str> {
        let text = text.trim();
        if text.is_empty() || text.chars().count() > 128 {
            Err("a name of 1 to 128 characters")
        } else if text.chars().any(char::is_control) {
            Err("a name without control characters")
        } else {
            Ok(Named(text.to_owned()))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The endpoint that is meant when none is named.
    pub fn default_endpoint() -> Named {
        Named("default".into())
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Named::parse(&text).map_err(|expected| match text.trim().chars().count() {
            0 => Issue::out_of_bounds(true, &expected),
            129.. => Issue::out_of_bounds(false, &expected),
            _ => Issue::bad_format(&expected),
        })
    }
}

/// A worktree's directory: an absolute path without NUL, at most 4096 bytes.
///
/// Whether the directory is there, and what its real path is, only the daemon finds out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct WorkspaceRoot(#[schemars(length(min = 1, max = 4096))] String);

impl WorkspaceRoot {
    /// Takes an absolute path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<WorkspaceRoot, &'static str> {
        if text.is_empty() || text.len() > 4096 {
            Err("an absolute path of 1 to 4096 bytes")
        } else if !text.starts_with('/') {
            Err("an absolute path: it starts with /")
        } else if text.contains('\0') {
            Err("an absolute path without NUL")
        } else {
            Ok(WorkspaceRoot(text.to_owned()))
        }
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkspaceRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WorkspaceRoot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        WorkspaceRoot::parse(&text).map_err(|expected| match text.len() {
            0 => Issue::out_of_bounds(true, &expected),
            4097.. => Issue::out_of_bounds(false, &expected),
            _ => Issue::bad_format(&expected),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portreeve_registry::{Manner, decode};
    use serde_json::{Value, json};

    fn code<T: de::DeserializeOwned + fmt::Debug>(value: Value) -> &'static str {
        decode::<T>(value, Manner::default()).unwrap_err().code
    }

    #[test]
    fn ports_are_1_to_65535() {
        assert_eq!(decode::<PortNumber>(json!(3000), Manner::default()).unwrap().get(), 3000);
        assert_eq!(decode::<PortNumber>(json!(3000.0), Manner::default()).unwrap().get(), 3000);
        assert_eq!(code::<PortNumber>(json!(0)), "too_small");
        assert_eq!(code::<PortNumber>(json!(-1)), "too_small");
        assert_eq!(code::<PortNumber>(json!(65536)), "too_big");
        assert_eq!(code::<PortNumber>(json!(1e300)), "too_big");
        assert_eq!(code::<PortNumber>(json!(3000.5)), "invalid_type");
        assert_eq!(code::<PortNumber>(json!("3000")), "invalid_type");
        let text = Manner { strict: false, text: true };
        assert_eq!(decode::<PortNumber>(json!("3000"), text).unwrap().get(), 3000);
    }

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(decode::<Named>(json!("  web "), Manner::default()).unwrap().as_str(), "web");
        assert_eq!(code::<Named>(json!("  ")), "too_small");
        assert_eq!(code::<Named>(json!("x".repeat(10_000))), "too_big");
        assert_eq!(code::<Named>(json!("a\u{0}b")), "invalid_format");
        assert!(Named::parse(&"ü".repeat(128)).is_ok());
    }

    #[test]
    fn roots_are_absolute() {
        assert_eq!(code::<WorkspaceRoot>(json!("")), "too_small");
        assert_eq!(code::<WorkspaceRoot>(json!("src")), "invalid_format");
        assert_eq!(code::<WorkspaceRoot>(json!("/a\u{0}")), "invalid_format");
        assert_eq!(code::<WorkspaceRoot>(json!("/".repeat(5000))), "too_big");
    }

    #[test]
    fn ids_are_uuids() {
        assert_eq!(code::<Id>(json!("abc")), "invalid_format");
        assert_eq!(code::<Id>(json!("0198c0de-0000-0000-8000-000000000000")), "invalid_format");
        let id = Id::fresh();
        assert_eq!(decode::<Id>(json!(id.to_string()), Manner::default()).unwrap(), id);
    }
}
