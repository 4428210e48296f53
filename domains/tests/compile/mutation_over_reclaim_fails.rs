//! Ending a process takes a preview: no tool does it in one step.

use portreeve_registry::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

domain!("sample");

operation! {
    /// The same question, as a step that stays within the caller's own work.
    Tame: Routine = POST "/v1/sample" needs "sample-v1", portreeve_ports::ReclaimRequest => portreeve_ports::Reclamation
}

/// Names a thing.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Said {
    /// Its name.
    name: String,
}

tool! {
    /// Do it in one step.
    mutation DoIt = "sample_do_it"
}
impl Mutation for DoIt {
    type Operation = portreeve_ports::ReclaimPort;
    type Input = Said;
    type Output = Said;
    fn example() -> Example<Said> {
        Example::of(Said { name: String::new() })
    }
    fn request(_: Said) -> portreeve_ports::ReclaimRequest {
        unreachable!()
    }
    fn changed(_: &portreeve_ports::Reclamation) -> bool {
        true
    }
    fn output(_: portreeve_ports::Reclamation) -> Said {
        Said { name: String::new() }
    }
    fn summary(_: &Said, _: bool) -> String {
        String::new()
    }
}

fn main() {}
