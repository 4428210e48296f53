//! One thing wrong with an input: where, and of which kind.

use crate::{Failure, FailureClass};
use serde::Serialize;
use serde::de;
use serde_json::{Value, json};
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

    /// The issue, seen from one step further out.
    pub(crate) fn within(mut self, step: Value) -> Issue {
        self.path.insert(0, step);
        self
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
