//! The id that every call carries through every boundary.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// One call's id, made by whoever starts it (a UUIDv7, so ids sort by time) and never used as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(Uuid);

impl RequestId {
    /// A fresh one.
    pub fn fresh() -> RequestId {
        RequestId(Uuid::now_v7())
    }
}

impl FromStr for RequestId {
    type Err = uuid::Error;

    /// Takes any hyphenated UUID of version 1 to 8.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = Uuid::try_parse(text)?;
        if text.len() == 36 && (1..=8).contains(&id.get_version_num()) {
            Ok(RequestId(id))
        } else {
            Err(Uuid::try_parse("").expect_err("an empty text is no UUID"))
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
