//! What is advertised, without a daemon and without an environment.

use serde_json::{Value, json};

use crate::host::{Host, bridge, meta};

fn listed(arguments: &[&str]) -> Vec<Value> {
    let mut host = Host::run(bridge(&[&["serve"], arguments].concat()));
    host.request(1, "tools/list", json!({"_meta": meta()}));
    let listed = host.answer()["result"]["tools"].as_array().expect("tools").clone();
    host.hang_up();
    host.exits();
    listed
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[test]
fn every_linked_tool_is_listed_without_anything_around() {
    let tools = listed(&[]);
    let registry = portreeve_domains::load().expect("a registry");
    let expected: Vec<&str> = registry.iter().map(|tool| tool.name()).collect();
    assert_eq!(names(&tools), expected);
    for (tool, declared) in tools.iter().zip(registry.iter()) {
        assert_eq!(tool["inputSchema"], Value::Object(declared.input_schema().clone()));
        assert_eq!(tool["outputSchema"], Value::Object(declared.output_schema().clone()));
        assert_eq!(tool["annotations"]["readOnlyHint"], declared.hints().read_only);
        assert_eq!(tool["annotations"]["openWorldHint"], false);
    }
}

#[test]
fn a_toolset_shows_its_own_tools_only() {
    let tools = listed(&["--tools", "core"]);
    let core = names(&tools);
    assert!(core.contains(&"leases_acquire") && core.contains(&"history_list"), "{core:?}");
    assert!(!core.contains(&"claims_list"), "{core:?}");
    let mut host = Host::run(bridge(&["serve", "--tools", "core"]));
    host.initialize();
    host.call(1, "claims_list");
    assert_eq!(host.answer()["error"]["code"], -32602);
}

#[test]
fn the_introduction_names_the_server_and_fits() {
    let mut host = Host::run(bridge(&["serve"]));
    host.request(1, "server/discover", json!({"_meta": meta()}));
    let answer = host.answer();
    let instructions = answer["result"]["instructions"].as_str().expect("instructions");
    assert!(instructions.len() <= 2048 && instructions.contains("leases_acquire"));
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "portreeve");
}
