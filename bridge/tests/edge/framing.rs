//! What isn't a message, or not one for now: dropped or refused, noted, and survived.

use std::io::{Read, Seek};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::host::{Host, command, meta};

fn still_works(host: &mut Host) {
    host.call("still works", "echo");
    assert_eq!(host.answer()["id"], "still works");
}

#[test]
fn a_notification_before_the_first_request_is_dropped() {
    let mut host = Host::start();
    host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    host.hears("StrayNotification { method: \"notifications/initialized\" }");
    host.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    host.hears("StrayNotification { method: \"notifications/cancelled\" }");
    host.initialize();
    still_works(&mut host);
}

#[test]
fn a_notification_after_discover_is_dropped() {
    let mut host = Host::start();
    host.request(1, "server/discover", json!({"_meta": meta()}));
    assert_eq!(host.answer()["id"], 1);
    host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    host.hears("StrayNotification");
    host.request(2, "tools/list", json!({"_meta": meta()}));
    assert_eq!(host.answer()["id"], 2);
}

#[test]
fn a_stray_response_is_dropped_at_any_time() {
    let mut host = Host::start();
    host.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    host.hears("StrayResponse");
    host.initialize();
    host.send(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}}));
    host.hears("StrayResponse");
    still_works(&mut host);
}

#[test]
fn noise_is_noted_and_not_answered() {
    let mut host = Host::ready();
    host.send_bytes(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \n");
    host.hears("NotJson");
    host.send_bytes(b"\xff\xfe\xfd\n");
    host.hears("NotUtf8 { offset: 0 }");
    host.send_bytes(b"\n  \r\n");
    host.send(&json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {}}));
    host.hears("StrayNotification");
    still_works(&mut host);
}

#[test]
fn json_that_is_no_message_is_refused_with_its_id_where_it_has_one() {
    let mut host = Host::ready();
    host.send(&json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]));
    let answer = host.answer();
    assert_eq!(answer["error"]["code"], -32600);
    assert_eq!(answer.get("id"), None);
    host.send(&json!({"id": 2, "method": "ping"}));
    let answer = host.answer();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!(2)));
    host.send(&json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}));
    assert_eq!(host.answer()["error"]["code"], -32600);
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\
         \"params\":{{\"name\":\"echo\",\"arguments\":{{\"a\":{deep}}}}}}}\n"
    );
    host.send_bytes(deep.as_bytes());
    let answer = host.answer();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!(3)));
    still_works(&mut host);
}

#[test]
fn an_over_long_line_is_discarded_in_flat_memory() {
    let mut host = Host::ready();
    still_works(&mut host);
    let before = host.memory("VmHWM");
    let part = vec![b'x'; 1024 * 1024];
    for _ in 0..64 {
        host.send_bytes(&part);
    }
    host.send_bytes(b"\n");
    host.hears("TooLarge { bytes: 67108864 }");
    still_works(&mut host);
    let grown = host.memory("VmHWM") - before;
    assert!(grown < 16 * 1024, "{grown} KiB more for a line of 64 MiB");
}

#[test]
fn a_line_of_the_limit_is_served() {
    let mut host = Host::ready();
    let frame = |text: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
               "params": {"name": "echo", "arguments": {"a": text}}})
        .to_string()
    };
    let room = 4 * 1024 * 1024 - frame("").len();
    let line = frame(&"x".repeat(room));
    host.send_bytes(format!("{line}\n").as_bytes());
    let answer = host.answer();
    assert_eq!(answer["result"]["structuredContent"]["arguments"]["a"].as_str().unwrap().len(), room);
    host.send_bytes(format!("{}\n", frame(&"x".repeat(room + 1))).as_bytes());
    host.hears("TooLarge { bytes: 4194305 }");
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let mut host = Host::ready();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for byte in message.as_bytes() {
        host.send_bytes(&[*byte]);
    }
    host.send_bytes(b"\r\n");
    assert_eq!(host.answer()["id"], 1);
}

#[test]
fn a_partial_message_at_the_end_is_noted() {
    let mut host = Host::ready();
    host.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/l");
    host.hang_up();
    assert_eq!(host.remaining_answers(), Vec::<Value>::new());
    host.hears("PartialAtEof { bytes: 41 }");
    host.exits();
}

#[test]
fn a_whole_message_without_its_newline_is_served_at_the_end() {
    let mut host = Host::ready();
    host.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    host.hang_up();
    assert_eq!(host.answer()["id"], 1);
    host.exits();
}

#[test]
fn sockets_are_served_like_pipes() {
    let mut host = Host::start_over_sockets();
    host.initialize();
    for id in 1..50 {
        host.call(id, "large");
    }
    for _ in 1..50 {
        assert_eq!(host.answer()["result"]["structuredContent"]["summary"], "large");
    }
    host.hang_up();
    host.exits();
}

#[test]
fn files_are_served_like_pipes() {
    let mut input = tempfile::tempfile().unwrap();
    let output = tempfile::tempfile().unwrap();
    for id in 0..200 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                          "params": {"name": "echo", "arguments": {}, "_meta": meta()}});
        std::io::Write::write_all(&mut input, format!("{call}\n").as_bytes()).unwrap();
    }
    input.rewind().unwrap();
    let child = command()
        .stdin(input)
        .stdout(output.try_clone().unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the bridge starts");
    Host::over(child).exits();
    let mut answers = String::new();
    let mut output = output;
    output.rewind().unwrap();
    output.read_to_string(&mut answers).unwrap();
    let ids: std::collections::BTreeSet<i64> = answers
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, (0..200).collect());
}
