//! Many daemons at once, each a process of its own: this binary again, told by its environment what to be.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use portreeve_daemon::clock::SystemClock;
use portreeve_daemon::home::{Home, HomeError, holder};
use portreeve_daemon::socket::{Existing, bind, probe_existing};
use portreeve_daemon::store::Store;

use crate::support::{keys, put};

const HOME: &str = "PORTREEVE_TEST_CHILD_HOME";

/// Runs in the child only: takes home, socket and store as a daemon would, says what came of it, and lives until its
/// standard input ends.
#[test]
fn child() {
    let Some(path) = env::var_os(HOME) else { return };
    let path = Path::new(&path);
    let socket = path.join("portreeve.sock");
    let mut input = std::io::stdin().lock();
    let mut out = std::io::stdout().lock();
    let mut line = String::new();
    input.read_line(&mut line).expect("the word to start");
    let clock = SystemClock::new().expect("a boot id");
    match Home::open(path, Some(&socket), &clock) {
        Ok(home) => {
            let bound = bind(&socket, &home).expect("whoever holds the home binds");
            let store = Store::open(home.store_path()).expect("whoever holds the home opens the store");
            put(&store, &format!("{}", std::process::id()));
            writeln!(out, "\nverdict: lives").expect("the parent reads");
            out.flush().expect("the parent reads");
            input.read_to_string(&mut line).expect("the parent's end");
            drop((store, bound, home));
        }
        Err(HomeError::Held { .. }) => writeln!(out, "\nverdict: held").expect("the parent reads"),
        Err(other) => panic!("{other:?}"),
    }
}

fn spawn(home: &Path) -> Child {
    let binary = env::current_exe().expect("this binary");
    Command::new(binary)
        .args(["--exact", "children::child", "--nocapture"])
        .env(HOME, home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

fn start(child: &mut Child) {
    child.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("the child reads");
}

fn verdict(child: &mut Child) -> String {
    let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
    let mut verdicts =
        lines.map_while(Result::ok).filter_map(|line| Some(line.strip_prefix("verdict: ")?.to_owned()));
    verdicts.next().expect("a verdict")
}

#[test]
fn of_32_started_at_once_on_a_stale_socket_one_lives_and_after_a_kill_the_next() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let home = dir.path().join("home");
    for round in 1..=2 {
        let mut children: Vec<_> = (0..32).map(|_| spawn(&home)).collect();
        children.iter_mut().for_each(start);
        let verdicts: Vec<_> = children.iter_mut().map(verdict).collect();
        assert_eq!(verdicts.iter().filter(|verdict| *verdict == "lives").count(), 1, "{verdicts:?}");
        let socket = home.join("portreeve.sock");
        assert!(matches!(probe_existing(&socket), Ok(Existing::Live { .. })));
        let alive = verdicts.iter().position(|verdict| verdict == "lives").expect("one");
        assert_eq!(holder(&home).map(|holder| holder.pid), Some(children[alive].id()));
        // The first is killed, which leaves its socket, its record and its log behind.
        children[alive].kill().expect("it lives");
        for child in &mut children {
            child.wait().expect("it ends");
        }
        assert!(matches!(probe_existing(&socket), Ok(Existing::Stale)));
        let store = Store::open(home.join("authority.db")).expect("what was acknowledged is there");
        assert_eq!(keys(&store).len(), round);
    }
}

#[test]
fn a_home_on_whose_socket_somebody_else_answers_can_still_be_looked_at() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let home = dir.path().join("home");
    std::fs::create_dir(&home).expect("a directory");
    let _alpha = UnixListener::bind(home.join("portreeve.sock")).expect("the alpha's socket");
    let clock = SystemClock::new().expect("a boot id");
    let home = Home::open(&home, None, &clock).expect("the alpha doesn't lock it");
    let socket = home.path().join("portreeve.sock");
    assert!(matches!(bind(&socket, &home), Err(portreeve_daemon::socket::SocketError::Live { .. })));
}
