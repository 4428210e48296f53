//! The doctor, and what it repairs.

use crate::support::{Place, ports};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

#[test]
fn it_says_what_is_there_and_what_is_not() {
    let mut place = Place::without_daemon();
    let away = place.run(&["doctor"]);
    assert_eq!(away.status, 30, "{}", away.stdout);
    assert!(away.stdout.contains("portreeve serve"), "{}", away.stdout);
    assert!(!place.home().exists(), "looking makes nothing");

    place.serve();
    let data = place.run(&["doctor", "--json"]).data();
    let check = |name: &str| {
        let checks = data["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    for name in ["program", "places", "daemon", "store", "evidence", "containers"] {
        assert_eq!(check(name)["state"], "ok", "{}", check(name));
    }
    assert!(check("store")["facts"]["sqlite"].as_str().unwrap().starts_with("3."));
}

#[test]
fn it_repairs_only_what_no_daemon_holds() {
    let _ports = ports();
    let mut place = Place::with_daemon();
    let acquire = ["lease", "acquire", "--project", "p", "--component", "c", "--lease-file", "l.json"];
    assert_eq!(place.run(&acquire).status, 0);
    let held = place.run(&["doctor", "--repair", "--yes"]);
    assert_eq!(held.status, 20, "{}", held.stderr);
    assert!(held.stderr.contains("portreeve stop"), "{}", held.stderr);
    place.stop();

    let asks = place.run(&["doctor", "--repair"]);
    assert_eq!(asks.status, 50, "nobody is there to be asked: {}", asks.stderr);

    // A page in the middle is lost; the header and the schema are whole.
    let store = place.home().join("authority.db");
    let file = OpenOptions::new().write(true).open(&store).unwrap();
    let length = file.metadata().unwrap().len();
    file.write_all_at(&[0xa5; 4096], (length / 4096 - 1) * 4096).unwrap();
    drop(file);
    let damaged = place.run(&["doctor"]);
    assert_eq!(damaged.status, 70, "{}", damaged.stdout);
    assert!(damaged.stdout.contains("doctor --repair"), "{}", damaged.stdout);

    let repaired = place.run(&["doctor", "--repair", "--yes", "--json"]);
    assert!(matches!(repaired.status, 0 | 10), "{}", repaired.stdout);
    let data = repaired.document()["data"].clone();
    assert!(std::path::Path::new(data["keptAs"].as_str().unwrap()).exists(), "{data}");
    assert!(!data["tables"].as_array().unwrap().is_empty());
    place.serve();
    let well = place.run(&["doctor"]);
    assert_eq!(well.status, 0, "{}", well.stdout);
}

#[test]
fn without_a_store_there_is_nothing_to_repair() {
    let place = Place::without_daemon();
    let said = place.run(&["doctor", "--repair", "--yes", "--json"]);
    assert_eq!((said.status, &said.document()["error"]["class"]), (20, &"resolve.not_found".into()));
    assert!(!place.home().exists());
}
