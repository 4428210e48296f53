//! `leases_release`.

use crate::{ReleaseRequest, ReleaseRun, Released};
use portreeve_records::Id;
use portreeve_registry::{Example, Mutation, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

tool! {
    /// Say that a confirmed run is over, after you stopped its server. Refused while its server lives; it
    /// never ends a process. The claim keeps its port. A server that dies is noticed without this.
    pub mutation LeasesRelease = "leases_release"
}

/// Names the run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseInput {
    /// The run that leases_confirm answered.
    pub run_id: Id,
}

/// When it was released.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReleaseOutput {
    /// When, UTC.
    pub at: String,
}

impl Mutation for LeasesRelease {
    type Operation = ReleaseRun;
    type Input = ReleaseInput;
    type Output = ReleaseOutput;

    fn example() -> Example<ReleaseInput> {
        Example::of(ReleaseInput {
            run_id: Id::parse("0198c0de-0000-7000-8000-000000000000").expect("a UUID"),
        })
    }
    fn request(input: ReleaseInput) -> ReleaseRequest {
        ReleaseRequest { run_id: input.run_id, if_stopped: Some(true) }
    }
    fn changed(reply: &Released) -> bool {
        reply.changed
    }
    fn output(reply: Released) -> ReleaseOutput {
        ReleaseOutput { at: reply.at }
    }
    fn summary(_: &ReleaseOutput, changed: bool) -> String {
        if changed { "The run is released.".to_owned() } else { "The run was over already.".to_owned() }
    }
}
