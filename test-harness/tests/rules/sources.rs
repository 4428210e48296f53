//! What the sources tell people and agents to do next can be done.

use crate::{none, registry};
use portreeve_registry::FailureClass;
use portreeve_test_harness::machine::portreeve;
use portreeve_test_harness::rules::literals;
use std::process::{Command, Stdio};

#[test]
fn every_tool_that_text_names_is_there() {
    none(&literals::unknown_tools(&registry()));
}

/// A command's help; `None` if there is no such command.
fn help(command: &[String]) -> Option<String> {
    let asked = Command::new(portreeve())
        .args(command)
        .arg("--help")
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("portreeve runs");
    asked.status.success().then(|| String::from_utf8_lossy(&asked.stdout).into_owned())
}

#[test]
fn every_command_that_text_names_is_there() {
    let commands = literals::commands();
    let first = |verb: &str| commands.keys().any(|command| command[0] == verb);
    assert!(first("serve") && first("lease"), "the reading finds commands: {commands:?}");
    let mut faults = Vec::new();
    for (words, file) in &commands {
        // A verb that groups others is followed by one of them; after any other verb prose may go on.
        let fault = match help(&words[..1]) {
            None => Some(&words[..1]),
            Some(help) if help.contains("Commands:") && help_of_two(words).is_none() => Some(&words[..]),
            Some(_) => None,
        };
        if let Some(command) = fault {
            faults.push(format!("{}: there is no command: portreeve {}", file.display(), command.join(" ")));
        }
    }
    none(&faults);
}

fn help_of_two(words: &[String]) -> Option<String> {
    help(words.get(..2)?)
}

/// The registry's own next steps are for everybody, so they name no tool at all: a host may not have it.
#[test]
fn a_classs_own_next_step_names_no_tool() {
    let registry = registry();
    let named = |class: &&FailureClass| registry.iter().any(|tool| class.next().contains(tool.name()));
    let faults: Vec<String> =
        FailureClass::ALL.iter().filter(named).map(|class| format!("{class}: {}", class.next())).collect();
    none(&faults);
}
