//! What the real bridge shows.

use crate::{none, registry};
use portreeve_test_harness::rules::bridge::Bridge;
use portreeve_test_harness::rules::{sizes, surface};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn listed(tools: &str) -> Vec<Value> {
    Bridge::start(Path::new("/nonexistent/portreeve.sock"), tools).tools()
}

/// In any order of fields: only what a host reads counts.
fn by_name(tools: Vec<Value>) -> BTreeMap<String, Value> {
    tools.into_iter().map(|tool| (tool["name"].as_str().expect("a name").to_owned(), tool)).collect()
}

#[test]
fn the_bridge_shows_every_registered_tool_as_it_is_declared() {
    let (shown, declared) = (by_name(listed("all")), by_name(surface::listed(&registry())));
    let names = |tools: &BTreeMap<String, Value>| tools.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&shown), names(&declared), "is the portreeve under test of this build?");
    for (name, tool) in shown {
        assert_eq!(tool, declared[&name]);
    }
}

#[test]
fn the_tools_cost_a_conversation_no_more_than_their_budget() {
    let (all, core) = (listed("all"), listed("core"));
    #[expect(clippy::print_stdout, reason = "cargo test … -- cost --nocapture shows what each tool costs")]
    {
        println!("{}\ncore\n{}", sizes::table(&all), sizes::table(&core));
    }
    none(&sizes::over(&all, &core));
}
