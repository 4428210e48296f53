//! Reads untrusted JSON into a type, and says what is wrong where, with a code that nobody has to parse.
//!
//! serde tells its errors apart when they are made ([`serde::de::Error::missing_field`] and so on), but
//! serde_json folds them into one text.
//! This deserializer over [`serde_json::Value`] keeps what serde said: an [`Issue`] has protocol 1's code,
//! message and path.
//! It also knows two manners of reading: [`Manner::strict`] refuses fields that a struct doesn't name, and
//! [`Manner::text`] takes numbers and booleans from text, as query parameters bring them.

use crate::{Failure, FailureClass};
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use serde::{Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// One thing wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// What kind of fault: `invalid_type`, `invalid_value`, `invalid_format`, `too_small`, `too_big`, `unrecognized_keys` or
    /// `custom`.
    pub code: &'static str,
    /// What was expected, in words.
    pub message: String,
    /// Where: field names and indexes from the root.
    pub path: Vec<Value>,
}

impl Issue {
    /// The path with dots, or `input` for the root.
    pub fn place(&self) -> String {
        if self.path.is_empty() {
            return "input".to_owned();
        }
        let parts: Vec<String> =
            self.path.iter().map(|p| p.as_str().map_or_else(|| p.to_string(), str::to_owned)).collect();
        parts.join(".")
    }

    /// The issue as a failure of `class`, naming the field.
    pub fn failure(self, class: FailureClass) -> Failure {
        let message = format!("{}: {}", self.place(), self.message);
        Failure::new(class, message).detail("issues", json!([self]))
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.message)
    }
}

impl std::error::Error for Issue {}

impl de::Error for Issue {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Issue { code: "custom", message: message.to_string(), path: Vec::new() }
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Issue {
            code: "invalid_type",
            ..Issue::custom(format_args!("expected {expected}, got {}", kind(found)))
        }
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        // A bounded type says which way it was left by the marker it passes (see `bounds`); std's own
        // integers pass the number, which then is past the type's own range.
        let code = match found {
            de::Unexpected::Other(TOO_SMALL) => TOO_SMALL,
            de::Unexpected::Other(BAD_FORMAT) => BAD_FORMAT,
            de::Unexpected::Other(TOO_BIG) | de::Unexpected::Unsigned(_) => TOO_BIG,
            de::Unexpected::Signed(n) if n < 0 => TOO_SMALL,
            de::Unexpected::Signed(_) => TOO_BIG,
            _ => "invalid_value",
        };
        Issue { code, ..Issue::custom(format_args!("expected {expected}")) }
    }

    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Self {
        let code = if length == 0 { TOO_SMALL } else { TOO_BIG };
        Issue { code, ..Issue::custom(format_args!("expected {expected}, got {length}")) }
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Issue {
            code: "invalid_value",
            ..Issue::custom(format_args!("expected one of {}", expected.join(", ")))
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let known = if expected.is_empty() { "none".to_owned() } else { expected.join(", ") };
        let field: String = field.chars().take(64).collect();
        Issue {
            code: "unrecognized_keys",
            ..Issue::custom(format_args!("unknown field {field:?}; known fields: {known}"))
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Issue { code: "invalid_type", message: "required, but missing".to_owned(), path: vec![field.into()] }
    }
}

const TOO_SMALL: &str = "too_small";
const TOO_BIG: &str = "too_big";
const BAD_FORMAT: &str = "invalid_format";

/// Errors for hand-written `Deserialize` of bounded types, here and in domain crates.
impl Issue {
    /// A serde error saying that a value is under (`below`) or over its bounds.
    pub fn out_of_bounds<E: de::Error>(below: bool, expected: &dyn de::Expected) -> E {
        E::invalid_value(de::Unexpected::Other(if below { TOO_SMALL } else { TOO_BIG }), expected)
    }

    /// A serde error saying that a text has the wrong form.
    pub fn bad_format<E: de::Error>(expected: &dyn de::Expected) -> E {
        E::invalid_value(de::Unexpected::Other(BAD_FORMAT), expected)
    }
}

fn kind(found: de::Unexpected<'_>) -> &'static str {
    match found {
        de::Unexpected::Bool(_) => "a boolean",
        de::Unexpected::Unsigned(_) | de::Unexpected::Signed(_) => "an integer",
        de::Unexpected::Float(_) => "a number with a fraction",
        de::Unexpected::Str(_) | de::Unexpected::Char(_) => "a string",
        de::Unexpected::Unit | de::Unexpected::Option => "null",
        de::Unexpected::Seq => "an array",
        de::Unexpected::Map => "an object",
        _ => "something else",
    }
}

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
                Err(issue) => Err(within(issue, name.into())),
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

fn within(mut issue: Issue, step: Value) -> Issue {
    issue.path.insert(0, step);
    issue
}

struct Reader {
    value: Value,
    manner: Manner,
}

impl Reader {
    fn child(&self, value: Value) -> Reader {
        Reader { value, manner: self.manner }
    }

    /// In the text manner: the number or boolean that the text spells, where the type asks for one.
    fn plain(self) -> Value {
        match self.value {
            Value::String(text) if self.manner.text => match serde_json::from_str::<Value>(&text) {
                Ok(plain @ (Value::Number(_) | Value::Bool(_))) => plain,
                _ => Value::String(text),
            },
            value => value,
        }
    }
}

macro_rules! plain {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Issue> {
            let manner = self.manner;
            Reader { value: self.plain(), manner }.deserialize_any(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader {
    type Error = Issue;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Issue> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(b),
            Value::Number(n) => {
                if let Some(n) = n.as_u64() {
                    visitor.visit_u64(n)
                } else if let Some(n) = n.as_i64() {
                    visitor.visit_i64(n)
                } else {
                    visitor.visit_f64(n.as_f64().unwrap_or(f64::NAN))
                }
            }
            Value::String(s) => visitor.visit_string(s),
            Value::Array(items) => {
                visitor.visit_seq(Items { items: items.into_iter(), index: 0, manner: self.manner })
            }
            Value::Object(fields) => {
                visitor.visit_map(Fields { fields: fields.into_iter(), next: None, manner: self.manner })
            }
        }
    }

    plain! { deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
    deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Issue> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Issue> {
        if let (true, Value::Object(fields)) = (self.manner.strict, &self.value)
            && let Some(stranger) = fields.keys().find(|k| !known.contains(&k.as_str()))
        {
            return Err(within(de::Error::unknown_field(stranger, known), stranger.as_str().into()));
        }
        if let Value::Array(_) = self.value {
            // serde would read a struct from an array by position; the protocol has no such form.
            return Err(de::Error::invalid_type(de::Unexpected::Seq, &"an object"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Issue> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Issue> {
        match self.value {
            Value::String(text) => visitor.visit_enum(IntoDeserializer::<Issue>::into_deserializer(text)),
            Value::Object(_) => {
                self.value.deserialize_enum(name, variants, visitor).map_err(<Issue as de::Error>::custom)
            }
            other => Err(de::Error::invalid_type(
                unexpected(&other),
                &format!("one of {}", variants.join(", ")).as_str(),
            )),
        }
    }

    serde::forward_to_deserialize_any! { i128 u128 char str string bytes byte_buf unit unit_struct seq tuple
    tuple_struct map identifier ignored_any }
}

fn unexpected(value: &Value) -> de::Unexpected<'_> {
    match value {
        Value::Null => de::Unexpected::Unit,
        Value::Bool(b) => de::Unexpected::Bool(*b),
        Value::Number(_) => de::Unexpected::Signed(0),
        Value::String(s) => de::Unexpected::Str(s),
        Value::Array(_) => de::Unexpected::Seq,
        Value::Object(_) => de::Unexpected::Map,
    }
}

struct Items {
    items: std::vec::IntoIter<Value>,
    index: usize,
    manner: Manner,
}

impl<'de> de::SeqAccess<'de> for Items {
    type Error = Issue;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Issue> {
        let Some(value) = self.items.next() else {
            return Ok(None);
        };
        let index = self.index;
        self.index += 1;
        let reader = Reader { value, manner: self.manner };
        seed.deserialize(reader).map(Some).map_err(|issue| within(issue, index.into()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields {
    fields: serde_json::map::IntoIter,
    next: Option<(String, Value)>,
    manner: Manner,
}

impl<'de> de::MapAccess<'de> for Fields {
    type Error = Issue;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Issue> {
        self.next = self.fields.next();
        let Some((key, _)) = &self.next else {
            return Ok(None);
        };
        let reader = Reader { value: Value::String(key.clone()), manner: self.manner };
        seed.deserialize(reader).map(Some).map_err(|issue| within(issue, key.as_str().into()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Issue> {
        let (key, value) = self.next.take().expect("serde asks for a value after its key");
        let reader = Reader { value: Value::Null, manner: self.manner }.child(value);
        seed.deserialize(reader).map_err(|issue| within(issue, key.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        small: u8,
    }
    #[derive(Debug, Deserialize, PartialEq)]
    struct Outer {
        name: String,
        #[serde(default)]
        many: Vec<Inner>,
        flag: Option<bool>,
    }

    fn issue(value: Value, manner: Manner) -> (String, &'static str) {
        let issue = decode::<Outer>(value, manner).unwrap_err();
        (issue.place(), issue.code)
    }

    #[test]
    fn says_what_is_wrong_where() {
        let lax = Manner::default();
        assert_eq!(issue(json!({}), lax), ("name".into(), "invalid_type"));
        assert_eq!(issue(json!({"name": 1}), lax), ("name".into(), "invalid_type"));
        assert_eq!(
            issue(json!({"name": "a", "many": [{"small": 1}, {"small": 256}]}), lax),
            ("many.1.small".into(), "too_big")
        );
        assert_eq!(
            issue(json!({"name": "a", "many": [{"small": -1}]}), lax),
            ("many.0.small".into(), "too_small")
        );
        assert_eq!(issue(json!({"name": "a", "flag": "true"}), lax), ("flag".into(), "invalid_type"));
        assert_eq!(issue(json!([]), lax), ("input".into(), "invalid_type"));
        assert_eq!(issue(json!({"name": "a", "many": [["1"]]}), lax), ("many.0".into(), "invalid_type"));
    }

    #[test]
    fn strict_refuses_strangers_and_lax_does_not() {
        let value = json!({"name": "a", "other": 1});
        assert_eq!(
            issue(value.clone(), Manner { strict: true, text: false }),
            ("other".into(), "unrecognized_keys")
        );
        assert!(decode::<Outer>(value, Manner::default()).is_ok());
    }

    #[test]
    fn text_spells_numbers_and_booleans_where_the_type_asks() {
        let text = Manner { strict: false, text: true };
        let read: Outer =
            decode(json!({"name": "7", "flag": "false", "many": [{"small": "3"}]}), text).unwrap();
        assert_eq!(read, Outer { name: "7".into(), flag: Some(false), many: vec![Inner { small: 3 }] });
        assert_eq!(issue(json!({"name": "a", "flag": "yes"}), text), ("flag".into(), "invalid_type"));
    }
}
