//! Where the home and the socket are: the one rule that client, bridge, CLI and daemon share.
//!
//! | asked for by | home | socket |
//! | --- | --- | --- |
//! | a flag | `--home` | `--socket` |
//! | the environment | `PORTREEVE_HOME` | `PORTREEVE_SOCKET` |
//! | otherwise | the default directory | `portreeve.sock` in the home |
//!
//! The default directory is `$XDG_STATE_HOME/portreeve` on Linux (`~/.local/state/portreeve` without it) and
//! `~/Library/Application Support/Portreeve` on macOS.
//! A socket named by the environment wins over the one that a `--home` implies: it was named, the other not.
//!
//! The kernel's `sun_path` holds 107 bytes on Linux and 103 on macOS.
//! A longer socket path is replaced by `/tmp/portreeve-<uid>/<hash>.sock`, where the hash is the first 16 hex
//! digits of the SHA-256 of the long path with its links resolved.
//! It is not under `$XDG_RUNTIME_DIR` or `$TMPDIR`: an agent's host and its user's shell often differ in those, and
//! both have to find the same daemon. `/tmp` is open to everybody, so that directory counts only if it is a
//! directory of ours that nobody else can enter: [`check_socket`].
//!
//! Nothing here creates, connects or reads a file's content.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The socket's name in its home.
pub const SOCKET_NAME: &str = "portreeve.sock";

/// The longest socket path that the kernel takes, in bytes: unix(7), one less than `sun_path` for the NUL.
pub const LONGEST_SOCKET: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// What the rule reads of its surroundings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `PORTREEVE_HOME`.
    pub portreeve_home: Option<OsString>,
    /// `PORTREEVE_SOCKET`.
    pub portreeve_socket: Option<OsString>,
    /// `XDG_STATE_HOME`; a relative one is ignored, as its specification asks.
    pub xdg_state_home: Option<OsString>,
    /// The user's home: `HOME`, or else what the password database says.
    pub user_home: Option<PathBuf>,
    /// The working directory, which relative paths are relative to.
    pub working_directory: Option<PathBuf>,
    /// The user's id.
    pub uid: u32,
}

impl Surroundings {
    /// Those of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            portreeve_home: env::var_os("PORTREEVE_HOME"),
            portreeve_socket: env::var_os("PORTREEVE_SOCKET"),
            xdg_state_home: env::var_os("XDG_STATE_HOME"),
            user_home: env::home_dir(),
            working_directory: env::current_dir().ok(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }
}

/// Where everything is. Both paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The directory of the daemon's lock, store and records.
    pub home: PathBuf,
    /// The socket to bind and to connect to; never longer than [`LONGEST_SOCKET`].
    pub socket: PathBuf,
    /// The path that was asked for, where it was too long and `socket` stands for it.
    pub asked_socket: Option<PathBuf>,
}

impl Places {
    /// The places for the flags `--home` and `--socket` and this process's environment.
    ///
    /// # Errors
    /// Neither flags nor environment say where, or a relative path has nothing to be relative to.
    pub fn from_env(home: Option<PathBuf>, socket: Option<PathBuf>) -> Result<Self, PlacesError> {
        Self::resolve(home, socket, &Surroundings::of_this_process())
    }

    /// [`Places::from_env`] with the environment given.
    ///
    /// Reads the file system only to resolve the links of a socket path that is too long.
    ///
    /// # Errors
    /// As [`Places::from_env`].
    pub fn resolve(
        home: Option<PathBuf>,
        socket: Option<PathBuf>,
        around: &Surroundings,
    ) -> Result<Self, PlacesError> {
        let home = home_of(home, around)?;
        let asked = match socket.or_else(|| named(around.portreeve_socket.as_ref())) {
            Some(socket) => absolute(&socket, around)?,
            None => home.join(SOCKET_NAME),
        };
        let socket = fitting(&asked, around.uid);
        let asked_socket = (asked != socket).then_some(asked);
        Ok(Self { home, socket, asked_socket })
    }

    /// The socket alone, for those who only connect: a named one needs neither `HOME` nor a home.
    ///
    /// The same socket as [`Places::resolve`] gives for the same arguments.
    ///
    /// # Errors
    /// As [`Places::from_env`].
    pub fn socket(
        home: Option<PathBuf>,
        socket: Option<PathBuf>,
        around: &Surroundings,
    ) -> Result<PathBuf, PlacesError> {
        let asked = match socket.or_else(|| named(around.portreeve_socket.as_ref())) {
            Some(socket) => absolute(&socket, around)?,
            None => home_of(home, around)?.join(SOCKET_NAME),
        };
        Ok(fitting(&asked, around.uid))
    }
}

/// Why there is no place.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlacesError {
    /// Nothing says where the user's home is.
    #[error(
        "neither HOME nor the password database says where the home of user {uid} is; set PORTREEVE_HOME"
    )]
    NoHome {
        /// The user's id.
        uid: u32,
    },
    /// A relative path, and the working directory is gone or can't be read.
    #[error("{} is relative and there is no working directory; give an absolute path", path.display())]
    NoWorkingDirectory {
        /// The relative path.
        path: PathBuf,
    },
}

/// An empty variable is an unset one.
fn named(value: Option<&OsString>) -> Option<PathBuf> {
    value.filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn home_of(home: Option<PathBuf>, around: &Surroundings) -> Result<PathBuf, PlacesError> {
    match home.or_else(|| named(around.portreeve_home.as_ref())) {
        Some(home) => absolute(&home, around),
        None => default_directory(around),
    }
}

fn fitting(asked: &Path, uid: u32) -> PathBuf {
    if asked.as_os_str().len() <= LONGEST_SOCKET { asked.to_owned() } else { short_socket(asked, uid) }
}

fn default_directory(around: &Surroundings) -> Result<PathBuf, PlacesError> {
    let user_home = || match &around.user_home {
        Some(home) if home.is_absolute() => Ok(home.clone()),
        _ => Err(PlacesError::NoHome { uid: around.uid }),
    };
    if cfg!(target_os = "macos") {
        return Ok(user_home()?.join("Library/Application Support/Portreeve"));
    }
    match named(around.xdg_state_home.as_ref()).filter(|state| state.is_absolute()) {
        Some(state) => Ok(state.join("portreeve")),
        None => Ok(user_home()?.join(".local/state/portreeve")),
    }
}

/// Absolute, without `.` and doubled slashes; `..` stays, because a link may come before it.
fn absolute(path: &Path, around: &Surroundings) -> Result<PathBuf, PlacesError> {
    let full = match &around.working_directory {
        _ if path.is_absolute() => path.to_owned(),
        Some(directory) => directory.join(path),
        None => return Err(PlacesError::NoWorkingDirectory { path: path.to_owned() }),
    };
    Ok(full.components().collect())
}

fn short_socket(asked: &Path, uid: u32) -> PathBuf {
    let digest = Sha256::digest(resolved(asked).as_os_str().as_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    short_directory(uid).join(name + ".sock")
}

/// The directory of the sockets whose own path is too long.
#[must_use]
pub fn short_directory(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/portreeve-{uid}"))
}

/// The path with the links of its directory resolved, as far as it exists: creating the rest as directories
/// changes nothing, so a client that comes before the daemon gets the same answer.
fn resolved(path: &Path) -> PathBuf {
    let mut rest: Vec<Component<'_>> = Vec::new();
    let mut known = path;
    loop {
        if let Ok(real) = fs::canonicalize(known)
            && known != path
        {
            return rest.iter().rev().fold(real, |path, part| path.join(part));
        }
        match (known.parent(), known.components().next_back()) {
            (Some(parent), Some(part)) => {
                rest.push(part);
                known = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

/// Is the socket ours, and can nobody else put another in its place?
///
/// To be asked before connecting: a token sent to another user's socket is that user's.
/// The check of the peer's user after connecting ([`std::os::unix::net::UnixStream`]'s credentials) comes on top.
///
/// # Errors
/// [`SocketCheckError::Unreadable`] with [`io::ErrorKind::NotFound`] if there is none; otherwise what is wrong.
pub fn check_socket(socket: &Path, uid: u32) -> Result<(), SocketCheckError> {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let unreadable = |path: &Path, source| SocketCheckError::Unreadable { path: path.to_owned(), source };
    let look = |path: &Path| fs::symlink_metadata(path).map_err(|source| unreadable(path, source));
    let wrong = |path: &Path, what| Err(SocketCheckError::Refused { path: path.to_owned(), what });
    let directory = socket.parent().unwrap_or(Path::new("/"));
    // In /tmp anybody may have been there first, with a directory or a link of the same name.
    if directory == short_directory(uid) {
        let about = look(directory)?;
        if !about.is_dir() {
            return wrong(directory, Wrong::NoDirectory);
        }
        if about.uid() != uid {
            return wrong(directory, Wrong::Owner(about.uid()));
        }
    }
    let mode = fs::metadata(directory).map_err(|source| unreadable(directory, source))?.mode();
    if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
        return wrong(directory, Wrong::Writable(mode & 0o7777));
    }
    let about = look(socket)?;
    if !about.file_type().is_socket() {
        return wrong(socket, Wrong::NoSocket);
    }
    if about.uid() != uid {
        return wrong(socket, Wrong::Owner(about.uid()));
    }
    Ok(())
}

/// Why a socket is not to be trusted.
#[derive(Debug, thiserror::Error)]
pub enum SocketCheckError {
    /// It can't be looked at; most often it is not there.
    #[error("{} can't be looked at", path.display())]
    Unreadable {
        /// The socket or its directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is there and not as it must be.
    #[error("{} {what}", path.display())]
    Refused {
        /// The socket or its directory.
        path: PathBuf,
        /// What is wrong with it.
        what: Wrong,
    },
}

/// What is wrong with a socket or its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Another user's.
    #[error("belongs to user {0}")]
    Owner(u32),
    /// Not a socket.
    #[error("is no socket")]
    NoSocket,
    /// Not a directory, or a link to one.
    #[error("is no directory")]
    NoDirectory,
    /// Others may replace what is in it.
    #[error("can be written by others (mode {0:o})")]
    Writable(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Surroundings {
        Surroundings {
            user_home: Some("/home/me".into()),
            working_directory: Some("/work".into()),
            uid: 1000,
            ..Surroundings::default()
        }
    }

    #[track_caller]
    fn check(flags: (Option<&str>, Option<&str>), around: &Surroundings, home: &str, socket: &str) {
        let (asked_home, asked_socket) = (flags.0.map(PathBuf::from), flags.1.map(PathBuf::from));
        let places = Places::resolve(asked_home.clone(), asked_socket.clone(), around);
        let wanted = Places { home: home.into(), socket: socket.into(), asked_socket: None };
        assert_eq!(places, Ok(wanted));
        assert_eq!(Places::socket(asked_home, asked_socket, around), Ok(socket.into()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn without_a_word_it_is_the_state_directory() {
        let dir = "/home/me/.local/state/portreeve";
        check((None, None), &around(), dir, &format!("{dir}/portreeve.sock"));
        let xdg = Surroundings { xdg_state_home: Some("/state".into()), ..around() };
        check((None, None), &xdg, "/state/portreeve", "/state/portreeve/portreeve.sock");
        for ignored in ["", "relative"] {
            let xdg = Surroundings { xdg_state_home: Some(ignored.into()), ..around() };
            check((None, None), &xdg, dir, &format!("{dir}/portreeve.sock"));
        }
    }

    #[cfg(target_os = "macos")]
    #[test]
    fn without_a_word_it_is_the_application_support_directory() {
        let dir = "/home/me/Library/Application Support/Portreeve";
        let xdg = Surroundings { xdg_state_home: Some("/state".into()), ..around() };
        check((None, None), &xdg, dir, &format!("{dir}/portreeve.sock"));
    }

    #[test]
    fn flags_win_over_the_environment_and_a_named_socket_over_an_implied_one() {
        let env = Surroundings {
            portreeve_home: Some("/env/home".into()),
            portreeve_socket: Some("/env/socket".into()),
            ..around()
        };
        check((None, None), &env, "/env/home", "/env/socket");
        check((Some("/flag/home"), None), &env, "/flag/home", "/env/socket");
        check((None, Some("/flag/socket")), &env, "/env/home", "/flag/socket");
        let env = Surroundings { portreeve_home: Some("/env/home".into()), ..around() };
        check((None, None), &env, "/env/home", "/env/home/portreeve.sock");
        check((Some("/flag/home"), None), &env, "/flag/home", "/flag/home/portreeve.sock");
        let empty =
            Surroundings { portreeve_home: Some("/e".into()), portreeve_socket: Some("".into()), ..around() };
        check((None, None), &empty, "/e", "/e/portreeve.sock");
    }

    #[test]
    fn relative_paths_become_absolute() {
        check((Some("h/./x"), Some("../s")), &around(), "/work/h/x", "/work/../s");
        let lost = Surroundings { working_directory: None, ..around() };
        let places = Places::resolve(Some("h".into()), None, &lost);
        assert_eq!(places, Err(PlacesError::NoWorkingDirectory { path: "h".into() }));
        check((Some("/h"), None), &lost, "/h", "/h/portreeve.sock");
    }

    #[test]
    fn without_a_home_it_says_so_unless_told_where() {
        for user_home in [None, Some("".into()), Some("relative".into())] {
            let lost = Surroundings { user_home, ..around() };
            assert_eq!(Places::resolve(None, None, &lost), Err(PlacesError::NoHome { uid: 1000 }));
            check((Some("/h"), None), &lost, "/h", "/h/portreeve.sock");
            assert_eq!(Places::socket(None, Some("/s".into()), &lost), Ok("/s".into()));
        }
    }

    #[test]
    fn a_long_socket_is_replaced_and_the_same_by_every_way() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let real = fs::canonicalize(dir.path()).expect("it is there");
        let (long, link) = (real.join("x".repeat(120)), real.join("link"));
        let before = Places::resolve(Some(long.clone()), None, &around()).expect("a place");
        assert!(before.socket.starts_with("/tmp/portreeve-1000"), "{before:?}");
        assert_eq!(before.asked_socket, Some(long.join(SOCKET_NAME)));
        let name = before.socket.file_name().expect("a name").to_str().expect("hex");
        assert_eq!(name.len(), "0123456789abcdef.sock".len());

        fs::create_dir(&long).expect("a directory");
        std::os::unix::fs::symlink(&long, &link).expect("a link");
        let long_link = link.join("y".repeat(120));
        let through = Places::resolve(Some(long_link), None, &around()).expect("a place");
        let direct = Places::resolve(Some(long.join("y".repeat(120))), None, &around()).expect("a place");
        assert_eq!(through.socket, direct.socket);
        assert_ne!(through.socket, before.socket);
        let after = Places::resolve(Some(long), None, &around()).expect("a place");
        assert_eq!(after, before);
    }

    #[test]
    fn the_longest_path_that_fits_is_kept() {
        let fits = format!("/{}", "s".repeat(LONGEST_SOCKET - 1));
        check((Some("/h"), Some(&fits)), &around(), "/h", &fits);
        let places = Places::resolve(Some("/h".into()), Some(format!("{fits}s").into()), &around());
        assert!(places.expect("a place").asked_socket.is_some());
    }

    #[test]
    fn only_our_own_socket_passes() {
        use std::os::unix::fs::PermissionsExt as _;
        let uid = rustix::process::geteuid().as_raw();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("s");
        assert!(matches!(check_socket(&path, uid), Err(SocketCheckError::Unreadable { .. })));
        fs::write(&path, "").expect("a file");
        let refused = |what| {
            let found = check_socket(&path, uid);
            assert!(
                matches!(found, Err(SocketCheckError::Refused { what: w, .. }) if w == what),
                "{found:?}"
            );
        };
        refused(Wrong::NoSocket);
        fs::remove_file(&path).expect("it was there");
        let _listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        check_socket(&path, uid).expect("it is ours");
        let other = check_socket(&path, uid + 1);
        assert!(matches!(other, Err(SocketCheckError::Refused { what: Wrong::Owner(o), .. }) if o == uid));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
        refused(Wrong::Writable(0o777));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
        check_socket(&path, uid).expect("nobody else can replace it");
    }
}
