//! Help and completions: every verb shows an example, and shells take what they are given.

use crate::support::{Said, cli, given};
use std::path::Path;
use std::process::{Command, Stdio};

fn run(arguments: &[&str]) -> Said {
    let mut command = cli();
    command.args(arguments);
    Said::of(command)
}

/// The verbs that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    lines
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_help_of_every_verb_shows_an_example() {
    let mut seen = 0;
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = run(&arguments);
        assert_eq!((help.status, help.stderr.as_str()), (0, ""), "{path:?}");
        let below = listed(&help.stdout);
        if below.is_empty() {
            seen += 1;
            let line = format!("portreeve {}", path.join(" "));
            let example = help.stdout.lines().any(|shown| shown.starts_with("  ") && shown.contains(&line));
            assert!(example, "{path:?} shows no example: {}", help.stdout);
            assert!(help.stdout.lines().all(|line| line.chars().count() <= 110), "{path:?}: {}", help.stdout);
            let short = run(&[&arguments[..path.len()], &["-h"]].concat());
            assert!(short.status == 0 && short.stdout.contains(&line), "{path:?}");
        }
        open.extend(below.into_iter().map(|verb| [path.clone(), vec![verb]].concat()));
    }
    assert!(seen >= 20, "only {seen} verbs");
}

/// Whether a program is there.
fn has(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).exists())
}

#[test]
fn shells_take_the_completions() {
    let directory = tempfile::tempdir().expect("a directory");
    for (shell, check) in [("bash", vec!["-n"]), ("zsh", vec!["-n"]), ("fish", vec!["--no-execute"])] {
        let script = run(&["completions", shell]);
        assert_eq!((script.status, script.stderr.as_str()), (0, ""), "{shell}");
        let verbs = ["acquire", "inspect", "setup", "completions"];
        assert!(verbs.iter().all(|verb| script.stdout.contains(verb)), "{shell}: {}", script.stdout);
        assert!(!script.stdout.contains("tour-server"), "{shell} completes what is hidden");
        if !given("shells_take_the_completions", &format!("there is no {shell} here"), has(shell)) {
            continue;
        }
        let file = directory.path().join(shell);
        std::fs::write(&file, &script.stdout).expect("a file");
        let status = Command::new(shell).args(check).arg(&file).status().expect("the shell runs");
        assert!(status.success(), "{shell} refuses its script");
        if shell == "bash" {
            completes(&file);
        }
    }
}

/// bash, told to complete `portreeve po`, offers `ports`.
fn completes(script: &Path) {
    let words = "COMP_WORDS=(portreeve po); COMP_CWORD=1; _portreeve portreeve po portreeve; \
                 printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", &format!("source \"$0\"; {words}")]).arg(script);
    let output = command.stdin(Stdio::null()).output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.lines().any(|word| word == "ports"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
