//! Ending the daemon is no tool at all.

use portreeve_registry::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

domain!("sample");

operation! {
    /// The same question, as a step that stays within the caller's own work.
    Tame: Routine = POST "/v1/sample" needs "sample-v1", portreeve_diagnostics::Nothing => portreeve_diagnostics::Stopped
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
    type Operation = Tame;
    type Input = Said;
    type Output = Said;
    fn example() -> Example<Said> {
        Example::of(Said { name: String::new() })
    }
    fn request(_: Said) -> portreeve_diagnostics::Nothing {
        unreachable!()
    }
    fn changed(_: &portreeve_diagnostics::Stopped) -> bool {
        true
    }
    fn output(_: portreeve_diagnostics::Stopped) -> Said {
        Said { name: String::new() }
    }
    fn summary(_: &Said, _: bool) -> String {
        String::new()
    }
}

fn main() {}
