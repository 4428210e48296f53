//! The home and its socket: one daemon at a time, private, and a clear word on why not.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use portreeve_daemon::clock::SystemClock;
use portreeve_daemon::home::{DirectoryError, Home, HomeError, HomeNote, holder};
use portreeve_daemon::socket::{BoundSocket, Existing, SocketError, bind, peer_uid, probe_existing};

fn clock() -> SystemClock {
    SystemClock::new().expect("the machine has a boot id")
}

fn take(path: &Path) -> Result<Home, HomeError> {
    Home::open(path, Some(&path.join("portreeve.sock")), &clock())
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// A home that is held, its directory, and the path of its socket.
fn held() -> (tempfile::TempDir, Home, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let home = take(&dir.path().join("home")).expect("the home is free");
    let socket = home.path().join("portreeve.sock");
    (dir, home, socket)
}

#[test]
fn a_home_is_made_private_and_says_who_holds_it_and_whose_it_is() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("state/portreeve");
    let home = take(&path).expect("the home is free");
    assert!(home.notes().is_empty(), "{:?}", home.notes());
    assert_eq!((mode(&path), mode(&dir.path().join("state"))), (0o700, 0o700));
    for name in ["daemon.json", ".portreeve-owner.json"] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
    let owner: serde_json::Value =
        serde_json::from_slice(&fs::read(path.join(".portreeve-owner.json")).expect("a file")).expect("JSON");
    let canonical = fs::canonicalize(&path).expect("it is there");
    assert_eq!(owner["schemaVersion"], 1);
    assert_eq!(owner["product"], "portreeve");
    assert_eq!(owner["canonicalApplicationDirectory"], canonical.to_str().expect("UTF-8"));
    assert_eq!(owner["ownerUid"], rustix::process::geteuid().as_raw());
    assert_eq!(owner["createdAt"].as_str().map(str::len), Some("2026-01-02T03:04:05.678Z".len()));
    assert_eq!(owner.as_object().map(serde_json::Map::len), Some(5));
    let who = holder(&path).expect("it says who");
    assert_eq!((who.pid, who.socket), (std::process::id(), Some(path.join("portreeve.sock"))));
    drop(home);
    assert_eq!(holder(&path), None);
}

#[test]
fn a_second_taker_is_told_who_was_first_whatever_its_socket() {
    let (_dir, home, socket) = held();
    let error =
        Home::open(home.path(), Some(Path::new("/elsewhere.sock")), &clock()).expect_err("it is held");
    let HomeError::Held { path, holder: Some(holder) } = &error else { panic!("{error:?}") };
    assert_eq!((path.as_path(), holder.pid), (home.path(), std::process::id()));
    assert_eq!(holder.socket.as_deref(), Some(socket.as_path()));
    let text = error.to_string();
    assert!(
        text.contains(&format!("process {}", std::process::id())) && text.contains("portreeve.sock"),
        "{text}"
    );
    // Somebody tidies up.
    let path = home.path().to_owned();
    fs::remove_file(path.join("daemon.json")).expect("it was there");
    assert!(matches!(take(&path), Err(HomeError::Held { holder: None, .. })));
    drop(home);
    take(&path).expect("it is free again");
}

#[test]
fn what_is_no_directory_of_ours_is_refused_and_too_open_a_one_is_tightened() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (real, link, file) = (dir.path().join("real"), dir.path().join("link"), dir.path().join("file"));
    fs::create_dir(&real).expect("a directory");
    set_mode(&real, 0o777);
    symlink(&real, &link).expect("a link");
    fs::write(&file, "").expect("a file");
    let refused = |path: &Path| match take(path) {
        Err(HomeError::Directory(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(&link), DirectoryError::Link { path } if path == link));
    assert!(matches!(refused(&file), DirectoryError::NoDirectory { path } if path == file));
    assert!(matches!(refused(&file.join("below")), DirectoryError::NoDirectory { .. }));
    assert_eq!(mode(&real), 0o777, "nothing was done through the link");
    let home = take(&real).expect("it is ours");
    assert_eq!((home.notes(), mode(&real)), ([HomeNote::Tightened { from: 0o777 }].as_slice(), 0o700));
    drop(home);
    // A link above is the user's own business.
    let above = dir.path().join("above");
    symlink(dir.path(), &above).expect("a link");
    let home = take(&above.join("real")).expect("it is ours");
    assert_eq!(home.path(), fs::canonicalize(&real).expect("it is there"));
}

#[test]
fn what_the_alpha_left_in_the_home_is_not_touched() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    set_mode(dir.path(), 0o700);
    let theirs = ["portreeve.sqlite3", "portreeve.sqlite3-wal", "portreeve.log", ".portreeve-owner.json"];
    for name in theirs {
        fs::write(dir.path().join(name), name).expect("a file");
    }
    let home = take(dir.path()).expect("it is ours");
    assert_eq!(home.notes(), [HomeNote::OwnerDiffers]);
    let store = portreeve_daemon::store::Store::open(home.store_path()).expect("a store of our own");
    drop(bind(&home.path().join("portreeve.sock"), &home).expect("the socket"));
    drop((store, home));
    for name in theirs {
        assert_eq!(fs::read_to_string(dir.path().join(name)).expect("a file"), name);
    }
}

#[test]
fn a_bound_socket_is_private_answers_and_goes_with_its_daemon() {
    let (_dir, home, socket) = held();
    assert!(matches!(probe_existing(&socket), Ok(Existing::Absent)));
    let bound = bind(&socket, &home).expect("the path is free");
    assert_eq!((bound.path(), mode(&socket)), (socket.as_path(), 0o600));
    let Ok(Existing::Live { pid }) = probe_existing(&socket) else { panic!("it listens") };
    if cfg!(target_os = "linux") {
        assert_eq!(pid, Some(i32::try_from(std::process::id()).expect("a pid")));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    runtime.block_on(async {
        let listener =
            tokio::net::UnixListener::from_std(bound.listener().expect("a copy")).expect("it listens");
        let client = UnixStream::connect(&socket).expect("it listens");
        // The probe above left its connection in the queue; either comes from this user.
        let (stream, _) = listener.accept().await.expect("a caller");
        assert_eq!(peer_uid(&stream).expect("a user"), rustix::process::geteuid().as_raw());
        drop(client);
    });
    drop(bound);
    assert!(matches!(probe_existing(&socket), Ok(Existing::Absent)));
}

#[test]
fn only_a_dead_socket_is_replaced() {
    let (_dir, home, socket) = held();
    drop(UnixListener::bind(&socket).expect("a socket"));
    assert!(matches!(probe_existing(&socket), Ok(Existing::Stale)));
    drop(bind(&socket, &home).expect("nobody answers"));

    fs::write(&socket, "precious").expect("a file");
    assert!(matches!(bind(&socket, &home), Err(SocketError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&socket).expect("a file"), "precious");
    fs::remove_file(&socket).expect("it was there");

    symlink("/nowhere", &socket).expect("a link");
    assert!(matches!(bind(&socket, &home), Err(SocketError::NotASocket { .. })));
    fs::remove_file(&socket).expect("it was there");

    let alive = UnixListener::bind(&socket).expect("a socket");
    assert!(matches!(bind(&socket, &home), Err(SocketError::Live { .. })));
    drop(alive);
    fs::remove_file(&socket).expect("it was there");

    // Another kind of socket answers a connect with another error: whether it is alive can't be told.
    let other = std::os::unix::net::UnixDatagram::bind(&socket).expect("a socket");
    assert!(matches!(bind(&socket, &home), Err(SocketError::Unclear { .. })));
    drop(other);
}

#[test]
fn a_live_daemon_that_accepts_nobody_is_not_taken_for_dead_and_nobody_waits_for_it() {
    let (_dir, home, socket) = held();
    let bound = bind(&socket, &home).expect("the path is free");
    let mut waiting = Vec::new();
    while let Ok(Existing::Live { pid: Some(_) }) = probe_existing(&socket) {
        let stream = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::empty(),
            None,
        )
        .expect("a socket");
        rustix::io::ioctl_fionbio(&stream, true).expect("a flag");
        let address = rustix::net::SocketAddrUnix::new(&socket).expect("a path");
        if rustix::net::connect(&stream, &address).is_err() {
            break;
        }
        waiting.push(stream);
    }
    assert!(matches!(probe_existing(&socket), Ok(Existing::Live { .. })));
    assert!(matches!(bind(&socket, &home), Err(SocketError::Live { .. })));
    drop(bound);
}

#[test]
fn a_socket_that_took_the_path_meanwhile_is_left_there() {
    let (_dir, home, socket) = held();
    let bound = bind(&socket, &home).expect("the path is free");
    fs::remove_file(&socket).expect("somebody tidies up");
    let _next = UnixListener::bind(&socket).expect("somebody else comes");
    drop(bound);
    assert!(matches!(probe_existing(&socket), Ok(Existing::Live { .. })));
}

#[test]
fn a_chosen_directory_must_be_safe_and_stays_as_it_is() {
    let (dir, home, _) = held();
    let chosen = dir.path().join("chosen");
    fs::create_dir(&chosen).expect("a directory");
    set_mode(&chosen, 0o755);
    drop(bind(&chosen.join("s"), &home).expect("nobody else can write there"));
    assert_eq!(mode(&chosen), 0o755);
    set_mode(&chosen, 0o777);
    assert!(matches!(
        bind(&chosen.join("s"), &home),
        Err(SocketError::Directory(DirectoryError::Writable { mode: 0o777, .. }))
    ));
    let made = dir.path().join("made");
    drop(bind(&made.join("s"), &home).expect("the directory is made"));
    assert_eq!(mode(&made), 0o700);
}

#[test]
fn a_socket_in_the_home_of_a_living_daemon_is_that_daemons() {
    let (_one, home, _) = held();
    let (_two, other, _) = held();
    let theirs = other.path().join("portreeve.sock");
    assert!(matches!(bind(&theirs, &home), Err(SocketError::Contended { .. })));
    drop(bind(&theirs, &other).expect("it is theirs"));
}

#[test]
fn daemons_of_different_homes_share_a_socket_path_one_at_a_time() {
    let shared = tempfile::tempdir().expect("a temporary directory");
    let path = shared.path().join("s");
    drop(UnixListener::bind(&path).expect("a stale socket"));
    let homes: Vec<_> = (0..8).map(|_| held()).collect();
    let start = std::sync::Barrier::new(homes.len());
    let bound: Vec<BoundSocket> = std::thread::scope(|scope| {
        let threads: Vec<_> = homes
            .iter()
            .map(|(_, home, _)| {
                scope.spawn(|| {
                    start.wait();
                    match bind(&path, home) {
                        Ok(bound) => Some(bound),
                        Err(SocketError::Live { .. } | SocketError::Contended { .. }) => None,
                        Err(other) => panic!("{other:?}"),
                    }
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(bound.len(), 1);
    UnixStream::connect(&path).expect("it is served");
}

#[test]
fn a_home_too_deep_for_a_socket_is_served_at_a_short_path_that_clients_find() {
    use portreeve_client::places::{Places, Surroundings, check_socket, short_directory};
    let dir = tempfile::tempdir().expect("a temporary directory");
    let deep = dir.path().join("d".repeat(120));
    let around = Surroundings::of_this_process();
    let client =
        Places::socket(Some(deep.clone()), None, &Surroundings { portreeve_socket: None, ..around.clone() });
    let places =
        Places::resolve(Some(deep), None, &Surroundings { portreeve_socket: None, ..around.clone() });
    let (client, places) = (client.expect("a place"), places.expect("a place"));
    assert_eq!(client, places.socket);
    let home = take(&places.home).expect("the home is free");
    let bound = bind(&places.socket, &home).expect("the short path is free");
    check_socket(&client, around.uid).expect("a client trusts it");
    UnixStream::connect(&client).expect("it is served");
    assert_eq!(mode(&short_directory(around.uid)), 0o700);
    drop(bound);
    assert!(matches!(probe_existing(&client), Ok(Existing::Absent)));
}
