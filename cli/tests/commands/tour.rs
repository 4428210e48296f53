//! The tour, to its end and cut short.

use crate::support::{Said, portreeve, ports};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

#[test]
fn the_story_goes_as_expected_and_leaves_nothing() {
    let _ports = ports();
    let temp = tempfile::tempdir().unwrap();
    let said = Said::of(portreeve().arg("tour").env("TMPDIR", temp.path()).output().unwrap());
    assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    assert!(said.stdout.contains("Not 3") && said.stdout.contains("it belongs to web of"), "{}", said.stdout);
    assert!(said.stdout.contains("run.released"), "{}", said.stdout);
    assert!(said.stdout.contains("equal, field by field"), "{}", said.stdout);
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn without_git_it_says_so_and_goes_on() {
    let _ports = ports();
    let mut command = portreeve();
    let data = Said::of(command.args(["tour", "--json"]).env("PATH", "/nowhere").output().unwrap()).data();
    assert_eq!(data["ended"], "as-expected");
    assert!(data["acts"][0]["lines"].to_string().contains("plain directories, because git can't be run"));
}

#[test]
fn ctrl_c_ends_it_and_everything_it_started() {
    let _ports = ports();
    let temp = tempfile::tempdir().unwrap();
    let mut command = portreeve();
    command.arg("tour").env("TMPDIR", temp.path()).stdout(Stdio::piped());
    let mut tour = command.spawn().unwrap();
    let mut daemon = None;
    for line in BufReader::new(tour.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let pid = line.split("daemon: process ").nth(1).and_then(|rest| rest.split(',').next());
        daemon = daemon.or(pid.map(str::to_owned));
        if line.contains("starts its server") {
            let own = rustix::process::Pid::from_child(&tour);
            rustix::process::kill_process(own, rustix::process::Signal::INT).unwrap();
        }
    }
    assert_eq!(tour.wait().unwrap().code(), Some(130));
    let daemon = daemon.expect("the transcript names the daemon's process");
    assert!(!Path::new("/proc").join(daemon).exists(), "the daemon lives on");
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "something was left behind");
}
