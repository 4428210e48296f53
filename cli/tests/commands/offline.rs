//! What works without a daemon, a home or anything else.

use crate::support::{Place, Said, portreeve};

#[test]
fn hosts_are_told_absolute_paths() {
    let place = Place::without_daemon();
    let data = place.run(&["mcp", "setup", "--host", "generic", "--json"]).data();
    assert_eq!(data["command"], env!("CARGO_BIN_EXE_portreeve"));
    let socket = place.socket();
    assert_eq!(data["args"], serde_json::json!(["mcp", "serve", "--socket", socket]));
    assert_eq!(data["config"]["mcpServers"]["portreeve"]["command"], data["command"]);

    let codex = place.run(&["mcp", "setup", "--host", "codex", "--tools", "core"]).stdout;
    assert!(codex.contains("[mcp_servers.portreeve]\ncommand = \"/"), "{codex}");
    assert!(codex.contains("codex mcp add portreeve -- /"), "{codex}");
    assert!(codex.contains("\"--label\", \"codex\", \"--tools\", \"core\""), "{codex}");

    let claude = place.run(&["mcp", "setup", "--host", "claude-code", "--label", "left one"]).stdout;
    assert!(claude.contains("claude mcp add -s user portreeve -- /"), "{claude}");
    assert!(claude.contains("--label 'left one'"), "{claude}");
    assert!(!place.home().exists(), "it prints and changes nothing");
}

#[test]
fn a_portable_setup_names_no_place() {
    let place = Place::without_daemon();
    let data = place.run(&["mcp", "setup", "--host", "claude-code", "--portable", "--json"]).data();
    assert_eq!(data["command"], "portreeve");
    assert_eq!(data["args"], serde_json::json!(["mcp", "serve", "--label", "claude-code"]));
    let both = place.run(&["mcp", "setup", "--portable", "--socket", "/s"]);
    assert_eq!(both.status, 50);
    assert_eq!(place.run(&["mcp", "setup", "--tools", "nonsense"]).status, 50);
}

#[test]
fn setup_works_without_a_home() {
    let mut command = portreeve();
    command.env_clear().args(["mcp", "setup", "--json", "--socket", "/run/x.sock"]);
    let data = Said::of(command.output().unwrap()).data();
    assert_eq!(data["args"][3], "/run/x.sock");
}

#[test]
fn tools_and_completions_are_printed() {
    let data = Said::of(portreeve().args(["tools", "--json"]).output().unwrap()).data();
    let tools = data["tools"].as_array().unwrap();
    assert!(
        tools.iter().any(|tool| tool["name"] == "leases_acquire" && tool["inputSchema"]["type"] == "object")
    );
    let markdown = Said::of(portreeve().args(["tools", "--markdown"]).output().unwrap()).stdout;
    for tool in tools {
        assert!(markdown.contains(&format!("### `{}`", tool["name"].as_str().unwrap())));
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = Said::of(portreeve().args(["completions", shell]).output().unwrap());
        assert!(said.status == 0 && said.stdout.contains("portreeve"), "{shell}");
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    for args in [&["--help"][..], &["-h"], &["help", "lease", "acquire"], &["tour", "--help"], &["--version"]]
    {
        let said = Said::of(portreeve().args(args).output().unwrap());
        assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{args:?}");
        assert!(!said.stdout.is_empty());
    }
    let bare = Said::of(portreeve().output().unwrap());
    assert_eq!(bare.status, 50);
    assert!(bare.stderr.contains("portreeve tour"), "{}", bare.stderr);
}
