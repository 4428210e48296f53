//! Worktrees: one identity a directory, however it is spelled, and a word on each that can't be one.

use portreeve_test_harness::machine::{Daemon, Server, acquire, worktree};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

fn named(root: &str) -> Value {
    let mut body = acquire(Path::new("/"), "web", json!({}));
    body["claim"]["workspaceRoot"] = root.into();
    body
}

#[test]
fn a_directory_is_one_claim_however_it_is_spelled() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let root = workspace.path().canonicalize().expect("it is there");
    let root = root.to_str().expect("the temp dir is text");
    let outside = worktree();
    let link = outside.path().join("link");
    symlink(root, &link).expect("a link can be made");
    let chain = outside.path().join("chain");
    symlink(&link, &chain).expect("a link can be made");
    let first = daemon.post("/v1/leases/acquire", named(root));
    let spellings = [
        format!("{root}/"),
        format!("{root}/."),
        format!("/{root}"),
        format!("{root}//src/.."),
        format!("{root}/src/../../{}", root.rsplit('/').next().expect("a name")),
        link.display().to_string(),
        chain.display().to_string(),
        format!("{}/src/..", chain.display()),
    ];
    for spelling in spellings {
        let (status, error) = daemon.refused("POST", "/v1/leases/acquire", Some(named(&spelling)));
        assert_eq!((status, &error["details"]["claimId"]), (409, &first["claimId"]), "{spelling}: {error}");
    }
    let claims = daemon.get("/v1/claims");
    assert_eq!(claims.as_array().map(Vec::len), Some(1));
    assert_eq!(claims[0]["identity"]["workspaceRoot"], root);
    // A folder inside is another one.
    let inside = daemon.post("/v1/leases/acquire", named(&format!("{}/src", link.display())));
    assert_ne!(inside["claimId"], first["claimId"]);
}

#[test]
fn what_is_no_directory_is_invalid_input_by_name_and_leaves_nothing() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let root = workspace.path();
    fs::write(root.join("file"), "x").expect("a file can be written");
    symlink("nowhere", root.join("dangling")).expect("a link can be made");
    symlink("loop", root.join("loop")).expect("a link can be made");
    symlink("file", root.join("to-a-file")).expect("a link can be made");
    let gone = worktree();
    let gone_path = gone.path().to_owned();
    drop(gone);
    let foreign = root.join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&foreign).expect("a folder can be made");
    symlink(&foreign, root.join("to-no-utf-8")).expect("a link can be made");
    let before = daemon.tables();
    let long = format!("/{}", "d/".repeat(2000));
    for path in [
        root.join("file"),
        root.join("dangling"),
        root.join("loop"),
        root.join("to-a-file"),
        root.join("file/inside"),
        root.join("to-no-utf-8"),
        gone_path,
        long.into(),
        "/dev/null".into(),
        format!("/{}", "x".repeat(300)).into(),
    ] {
        let text = path.to_str().expect("text");
        let (status, error) = daemon.refused("POST", "/v1/leases/acquire", Some(named(text)));
        assert_eq!((status, error["code"].as_str()), (400, Some("invalid_input")), "{text}: {error}");
        assert_eq!(error["failure"]["class"], "daemon.invalid_input", "{text}");
        assert_eq!(error["details"]["issues"][0]["path"], json!(["claim", "workspaceRoot"]), "{text}");
    }
    assert_eq!(daemon.tables(), before);
}

#[test]
fn a_worktree_that_is_deleted_keeps_its_claim_and_its_record_can_still_be_read() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let root = workspace.path().canonicalize().expect("it is there");
    let lease = daemon.acquire(&root, "web", json!({}));
    let id = lease["leaseId"].as_str().expect("an id");
    drop(workspace);
    let (status, error) =
        daemon.refused("POST", "/v1/leases/acquire", Some(acquire(&root, "web", json!({}))));
    assert_eq!((status, error["code"].as_str()), (400, Some("invalid_input")), "{error}");
    let claim = daemon.get(&format!("/v1/claims/{}", lease["claimId"].as_str().expect("an id")));
    assert_eq!(claim["identity"]["workspaceRoot"], json!(root));
    daemon.post(&format!("/v1/leases/{id}/renew"), json!({"leaseToken": lease["leaseToken"]}));
    let body = json!({"leaseToken": lease["leaseToken"], "reason": "client-cancelled"});
    assert_eq!(daemon.post(&format!("/v1/leases/{id}/abandon"), body)["changed"], true);
}

#[test]
fn a_worktree_is_filtered_by_its_real_path_exactly() {
    let daemon = Daemon::start();
    let workspace = worktree();
    let root = workspace.path().canonicalize().expect("it is there");
    let lease = daemon.acquire(&root, "web", json!({}));
    let port = u16::try_from(lease["port"].as_u64().expect("a port")).expect("a port");
    let text = root.to_str().expect("text");
    let count = |target: String| daemon.get(&target).as_array().map(Vec::len);
    for (filter, rows) in [(text.to_owned(), 1), (format!("{text}/"), 0), (format!("{text}/src"), 0)] {
        assert_eq!(count(format!("/v1/claims?workspaceRoot={filter}")), Some(rows), "{filter}");
        assert_eq!(count(format!("/v1/ports?workspace={filter}")), Some(rows), "{filter}");
    }
    // A listener that nobody claims has no worktree of record.
    drop(Server::listen("127.0.0.1", portreeve_test_harness::machine::free_port(), &root));
    assert_eq!(daemon.get(&format!("/v1/ports?workspace={text}"))[0]["port"], port);
}
