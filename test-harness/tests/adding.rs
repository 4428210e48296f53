//! Does what `docs/adding-a-tool.md` says, to a copy of the workspace, and sees that it is enough.
//!
//! The copy gets the folder of `sample-domain`, the handler beside it, and the guide's lines; nothing else.
//! Then every rule is run in it, and its tools are called through its bridge against its daemon.
//! What is built shares this build's target folder, so only our own crates are built once more.

use portreeve_test_harness::machine::Daemon;
use portreeve_test_harness::rules::bridge::Bridge;
use portreeve_test_harness::rules::workspace;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The guide's lines outside the new domain's folder: the file, the line before, the line.
const LINES: [(&str, &str, &str); 5] = [
    (
        "Cargo.toml",
        r#"portreeve-diagnostics = { path = "domains/diagnostics" }"#,
        r#"portreeve-sample = { path = "domains/sample" }"#,
    ),
    ("domains/Cargo.toml", "portreeve-diagnostics.workspace = true", "portreeve-sample.workspace = true"),
    ("domains/src/lib.rs", "    portreeve_history::DOMAIN,", "    portreeve_sample::DOMAIN,"),
    ("daemon/Cargo.toml", "portreeve-diagnostics.workspace = true", "portreeve-sample.workspace = true"),
    ("daemon/src/lib.rs", "mod rows;", "mod sample;"),
];
/// The member of the workspace, which here is elsewhere already.
const MEMBER: (&str, &str) = (r#""test-harness/sample-domain""#, r#""domains/sample""#);
/// The handler's file: its place here, and in the daemon.
const HANDLER: (&str, &str) = ("test-harness/sample-domain/handler.rs", "daemon/src/sample.rs");
/// What the copy's binary is called, so that it doesn't lie where this build's does.
const EXE: &str = "portreeve-with-sample";
/// What the copy's version is, so that cargo doesn't take its crates for this build's of the same name and place.
const VERSION: (&str, &str) = ("\nversion = \"0.1.0\"\n", "\nversion = \"0.1.0+with-sample\"\n");

fn guide() -> String {
    fs::read_to_string(workspace().join("docs/adding-a-tool.md")).expect("the guide is there")
}

#[test]
fn the_guide_shows_what_is_done_here() {
    let guide = guide();
    for (file, _, line) in LINES.into_iter().chain([("Cargo.toml", "", MEMBER.1)]) {
        assert!(guide.contains(file) && guide.contains(line.trim()), "the guide doesn't say {file}: {line}");
    }
    let sample = workspace().join("test-harness/sample-domain");
    let sources: Vec<String> =
        ["Cargo.toml", "src/lib.rs", "src/operations.rs", "src/tools.rs", "handler.rs"]
            .iter()
            .map(|file| fs::read_to_string(sample.join(file)).expect("the sample is there"))
            .collect();
    let mut shown = 0;
    for block in guide.split("```").skip(1).step_by(2) {
        let Some(code) = block.strip_prefix("rust\n").or_else(|| block.strip_prefix("toml\n")) else {
            continue;
        };
        shown += 1;
        // Paragraphs may be left out, but what is shown is there, to the letter.
        for paragraph in code.split("\n\n").map(|p| p.trim_matches('\n')) {
            let there = sources.iter().any(|source| source.contains(paragraph))
                || paragraph.lines().all(|line| LINES.iter().any(|(_, _, added)| added == &line));
            assert!(there, "the guide shows what the sample hasn't:\n{paragraph}");
        }
    }
    assert!(shown >= 5, "{shown} blocks of code");
}

#[test]
fn what_the_guide_says_is_enough() {
    let target = target();
    let copy = target.join("tmp/with-sample");
    fs::create_dir_all(&copy).expect("the target folder can be written");
    // Another run of this test may be at it.
    let lock = fs::File::create(copy.with_extension("lock")).expect("a lock file can be made");
    lock.lock().expect("a lock can be waited for");
    apply(&copy);

    let cargo = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(arguments)
            .arg("--offline")
            .current_dir(&copy)
            .env("CARGO_TARGET_DIR", &target)
            .env("PORTREEVE_EXE", target.join("debug").join(EXE))
            .env("UPDATE_EXPECT", "1")
            .output()
            .expect("cargo runs");
        let told =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "cargo {}:\n{told}", arguments.join(" "));
        told
    };
    cargo(&["build", "-p", "portreeve"]);
    let rules = cargo(&["test", "-p", "portreeve-test-harness", "--test", "rules"]);
    assert!(rules.contains("every_tool_is_served ... ok"), "the rules ran:\n{rules}");
    let lines = |folder: &Path| -> BTreeSet<String> {
        let list = fs::read_to_string(folder.join("test-harness/tools.txt")).expect("a list");
        list.lines().map(str::to_owned).collect()
    };
    let (before, after) = (lines(&workspace()), lines(&copy));
    let added: Vec<&String> = after.difference(&before).collect();
    assert!(before.is_subset(&after));
    assert!(added.len() == 2 && added.iter().all(|line| line.contains("sample_words_")), "{added:?}");

    used(&target.join("debug").join(EXE));
}

/// The tools through a real bridge, against a real daemon.
fn used(exe: &Path) {
    let home = tempfile::tempdir().expect("a temp dir can be made");
    let daemon = Daemon::start_as(Command::new(exe), &home.path().join("home"));
    let mut bridge = Bridge::start_of(exe, daemon.socket(), "sample");
    let names: Vec<Value> = bridge.tools().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["sample_words_get", "sample_words_list"]);
    let port = json!({
        "word": "port", "letters": 4, "meaning": "a number to listen on", "summary": "port: a number to listen on.",
    });
    assert_eq!(bridge.done("sample_words_get", json!({"word": "port"})), port);
    let refused = bridge.call("sample_words_get", json!({"word": "none"}));
    assert_eq!(refused["_meta"]["portreeve/error"]["class"], "resolve.not_found");
    let refused = bridge.call("sample_words_get", json!({"word": "port", "more": 1}));
    assert_eq!(refused["_meta"]["portreeve/error"]["class"], "bridge.invalid_arguments");

    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = bridge.done("sample_words_list", json!({"limit": 3, "afterCursor": cursor}));
        seen.extend(page["items"].as_array().expect("items").iter().map(|item| item["word"].clone()));
        cursor = page.get("nextCursor").cloned().unwrap_or_default();
        assert_eq!(page["hasMore"], !cursor.is_null());
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, ["claim", "lease", "port", "run"]);
}

/// `target`, from this test's own place in it.
fn target() -> PathBuf {
    let tests = std::env::current_exe().expect("a test has a path");
    tests.ancestors().nth(3).expect("target/<profile>/deps/<test>").to_owned()
}

/// Makes `copy` the workspace with the guide's steps done.
fn apply(copy: &Path) {
    let mut files = BTreeSet::new();
    list(&workspace(), Path::new(""), &mut files);
    let sample = Path::new("test-harness/sample-domain");
    let mut kept = BTreeSet::new();
    for file in files {
        let place = match file.strip_prefix(sample) {
            _ if file == Path::new(HANDLER.0) => PathBuf::from(HANDLER.1),
            Ok(inside) => Path::new("domains/sample").join(inside),
            Err(_) => file.clone(),
        };
        let content = changed(&place, fs::read(workspace().join(&file)).expect("a source can be read"));
        write(&copy.join(&place), &content);
        kept.insert(place);
    }
    let mut there = BTreeSet::new();
    list(copy, Path::new(""), &mut there);
    for gone in there.difference(&kept) {
        fs::remove_file(copy.join(gone)).expect("a file of an earlier run can be removed");
    }
}

/// A file's content with the guide's lines in it.
fn changed(file: &Path, content: Vec<u8>) -> Vec<u8> {
    let lines: Vec<_> = LINES.iter().filter(|(of, _, _)| file == Path::new(of)).collect();
    let renamed = file == Path::new("cli/Cargo.toml");
    if lines.is_empty() && !renamed {
        return content;
    }
    let mut text = String::from_utf8(content).expect("sources are text");
    for (file, before, line) in lines {
        let (before, both) = (format!("{before}\n"), format!("{before}\n{line}\n"));
        assert_eq!(text.matches(&before).count(), 1, "{file} has once: {before}");
        text = text.replace(&before, &both);
    }
    if file == Path::new("Cargo.toml") {
        assert_eq!(text.matches(MEMBER.0).count(), 1, "the sample is a member of the workspace");
        assert_eq!(text.matches(VERSION.0).count(), 1, "the workspace has one version");
        text = text.replace(MEMBER.0, MEMBER.1).replace(VERSION.0, VERSION.1);
    }
    if renamed {
        text.push_str(&format!("\n[[bin]]\nname = \"{EXE}\"\npath = \"src/main.rs\"\n"));
    }
    text.into_bytes()
}

/// Writes what differs only: what is as it was needs no new build.
fn write(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|there| there == content) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
    fs::write(path, content).expect("a file can be written");
}

/// Every file of the workspace that a build could need, by its path in it.
fn list(root: &Path, folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder can be read") {
        let entry = entry.expect("a folder can be read");
        let path = folder.join(entry.file_name());
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let built = path == Path::new("target");
        if hidden || built {
            continue;
        }
        if entry.file_type().expect("a file has a type").is_dir() {
            list(root, &path, files);
        } else {
            files.insert(path);
        }
    }
}
