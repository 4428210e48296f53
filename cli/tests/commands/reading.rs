//! What is read, and how each ending is told.

use crate::support::{Place, Said, portreeve};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;

#[test]
fn every_read_gives_text_and_one_document() {
    let place = Place::with_daemon();
    let reads: [&[&str]; 8] = [
        &["status"],
        &["ports", "list"],
        &["ports", "inspect", "14998"],
        &["claims", "list"],
        &["config", "get"],
        &["history"],
        &["logs"],
        &["doctor"],
    ];
    for read in reads {
        let text = place.run(read);
        assert_eq!((text.status, text.stderr.as_str()), (0, ""), "{read:?}: {}", text.stdout);
        assert!(!text.stdout.trim().is_empty());
        let json: Vec<&str> = read.iter().copied().chain(["--json"]).collect();
        let document = place.run(&json).document();
        assert!(document["command"].as_str().is_some_and(|command| read.join(" ").starts_with(command)));
        assert!(!document["data"].is_null(), "{document}");
    }
    assert_eq!(place.run(&["config", "get", "leaseTtlMilliseconds"]).stdout, "15000\n");
}

#[test]
fn without_a_daemon_it_says_how_to_start_one() {
    let place = Place::without_daemon();
    for command in
        [&["status"][..], &["ports", "list"], &["claims", "list"], &["history"], &["config", "get"]]
    {
        let said = place.run(command);
        assert_eq!((said.status, said.stdout.as_str()), (30, ""), "{command:?}");
        assert!(said.stderr.contains("portreeve serve"), "{}", said.stderr);
        let json: Vec<&str> = command.iter().copied().chain(["--json"]).collect();
        let document = place.run(&json).document();
        assert_eq!(document["error"]["class"], "daemon.socket_absent");
        assert_eq!(document["error"]["next"]["command"], "portreeve serve");
    }
    assert_eq!(place.run(&["stop"]).status, 10);
    assert!(!place.home().exists(), "looking makes nothing");
}

#[test]
fn what_is_not_there_and_what_is_wrong_have_their_statuses() {
    let place = Place::with_daemon();
    let unknown = place.run(&["claims", "show", "0198c0de-0000-7000-8000-000000000000", "--json"]);
    assert_eq!(unknown.status, 20);
    let error = unknown.document()["error"].clone();
    assert_eq!(error["class"], "resolve.not_found");
    assert!(error["details"]["requestId"].is_string(), "a failure names its request: {error}");

    for wrong in [
        &["ports", "inspect", "70000"][..],
        &["ports", "inspect", "0"],
        &["claims", "show", "x"],
        &["nonsense"],
        &["ports", "list", "--state", "sad"],
        &["lease", "renew", "--lease-file", "not-there"],
        &["doctor", "--yes"],
        &["config", "get", "nonsense"],
    ] {
        let said = place.run(wrong);
        assert_eq!((said.status, said.stdout.as_str()), (50, ""), "{wrong:?}");
        assert!(said.stderr.starts_with("error: "), "{}", said.stderr);
        let json: Vec<&str> = wrong.iter().copied().chain(["--json"]).collect();
        let said = place.run(&json);
        assert_eq!(said.status, 50, "{wrong:?}");
        assert_eq!(said.document()["error"]["code"], "invalid_input", "{wrong:?}");
    }
}

#[test]
fn a_daemon_of_another_protocol_is_40() {
    let place = Place::without_daemon();
    std::fs::create_dir(place.home()).unwrap();
    let listener = UnixListener::bind(place.socket()).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut id) = (String::new(), String::new());
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("x-portreeve-request-id: ") {
                    id = value.trim().to_owned();
                }
                line.clear();
            }
            let body = serde_json::json!({"protocolVersion": 2, "requestId": id, "data": {
                "softwareVersion": "9.0.0", "protocol": {"minimum": 2, "maximum": 2}, "capabilities": [],
                "pid": 1, "mode": "manual"}})
            .to_string();
            let length = body.len();
            write!(stream.get_mut(), "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").ok();
        }
    });
    for command in [&["status"][..], &["ports", "list"]] {
        let said = place.run(command);
        assert_eq!(said.status, 40, "{}", said.stderr);
        assert!(said.stderr.contains("9.0.0") && said.stderr.contains("older side"), "{}", said.stderr);
    }
    assert_eq!(place.run(&["doctor"]).status, 40);
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let said = Said::of(portreeve().arg("tools").stdout(writer).output().unwrap());
    assert_eq!((said.status, said.stderr.as_str()), (0, ""));
}
