//! What the harness's tests share: a throwaway daemon, raw calls over its socket, real servers, a bridge driven
//! as a host drives it.
//!
//! The programs under test are the real ones: `portreeve` as built beside the tests.

pub mod host;
pub mod machine;
pub mod rules;
