//! Processes as protocol 1 shows them.

use crate::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One process as it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessView {
    /// Its id.
    pub pid: Pid,
    /// Its parent; 0 for none.
    pub parent_pid: u32,
    /// Its user.
    pub uid: u32,
    /// When it started, UTC.
    pub start_time: String,
    /// Its executable's path; empty where it can't be read.
    pub executable: String,
    /// Its command line or name.
    pub command: String,
    /// Its working directory; empty where it can't be read.
    pub working_directory: String,
}
