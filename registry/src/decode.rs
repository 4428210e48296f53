//! Reads untrusted JSON into a type, and says what is wrong where, with a code that nobody has to parse.
//!
//! serde tells its errors apart when they are made ([`serde::de::Error::missing_field`] and so on), but
//! serde_json folds them into one text.
//! This deserializer over [`serde_json::Value`] keeps what serde said: an [`Issue`] has protocol 1's code,
//! message and path.
//! It also knows two manners of reading: [`Manner::strict`] refuses fields that a struct doesn't name, and
//! [`Manner::text`] takes numbers and booleans from text, as query parameters bring them.

mod issue;
mod reader;
#[cfg(test)]
mod tests;

pub use issue::Issue;

use reader::Reader;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// How an input is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Fields that a struct doesn't name are refused.
    pub strict: bool,
    /// Numbers and booleans may come as text.
    pub text: bool,
}

/// What a call was given: an object, and how to read it.
#[derive(Clone, Debug, Default)]
pub struct Args {
    /// The fields.
    pub fields: Map<String, Value>,
    /// How to read them.
    pub manner: Manner,
}

impl Args {
    /// A tool's arguments: strict.
    pub fn of_tool(fields: Map<String, Value>) -> Args {
        Args { fields, manner: Manner { strict: true, text: false } }
    }

    /// Takes one field off and reads it.
    ///
    /// # Errors
    /// The issue, its path starting with `name`.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Issue> {
        match self.fields.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match decode(value, self.manner) {
                Ok(value) => Ok(Some(value)),
                Err(issue) => Err(issue.within(name.into())),
            },
        }
    }
}

/// Reads `value` into a `T`.
///
/// # Errors
/// The first issue found; nothing is half read.
pub fn decode<T: DeserializeOwned>(value: Value, manner: Manner) -> Result<T, Issue> {
    T::deserialize(Reader { value, manner })
}

/// What crosses the socket as an operation's request: one JSON object.
///
/// Implemented for every type that serde can write and read; [`crate::ListRequest`] and
/// [`crate::ExecuteRequest`] put two such objects into one.
pub trait Wire: Sized + Send + 'static {
    /// Writes the object.
    ///
    /// # Errors
    /// If the type doesn't serialize to an object, which a test of its operation shows.
    fn encode(&self) -> Result<Map<String, Value>, serde_json::Error>;
    /// Reads the object.
    ///
    /// # Errors
    /// The first issue found.
    fn decode(args: Args) -> Result<Self, Issue>;
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Wire for T {
    fn encode(&self) -> Result<Map<String, Value>, serde_json::Error> {
        to_object(self)
    }
    fn decode(args: Args) -> Result<Self, Issue> {
        decode(Value::Object(args.fields), args.manner)
    }
}

pub(crate) fn to_object<T: Serialize>(value: &T) -> Result<Map<String, Value>, serde_json::Error> {
    match serde_json::to_value(value)? {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        other => Err(serde::ser::Error::custom(format_args!("expected an object, got {other}"))),
    }
}
