//! What the doctor looks at. Every look reads only.

use crate::session::{Session, VERSION};
use portreeve_client::places::{Places, check_socket};
use portreeve_daemon::store::{self, StoreError};
use portreeve_evidence::{Deadline, Kernel, Search, Source as _, Table};
use portreeve_registry::FailureClass;
use serde_json::{Value, json};
use std::time::Duration;

/// How long the kernel may take to show all listeners.
const EVIDENCE: Duration = Duration::from_secs(2);

/// How something is, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Well,
    Away,
    Incompatible,
    Broken,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Well => "ok",
            State::Away => "away",
            State::Incompatible => "unfit",
            State::Broken => "bad",
        }
    }
}

/// What one look found.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) text: String,
    pub(super) next: Option<String>,
    facts: Value,
}

impl Check {
    fn well(name: &'static str, text: String, facts: Value) -> Check {
        Check { name, state: State::Well, text, next: None, facts }
    }

    pub(super) fn describe(&self) -> Value {
        json!({"name": self.name, "state": self.state.word(), "text": self.text, "next": self.next, "facts": self.facts})
    }
}

pub(super) fn program() -> Check {
    let path = std::env::current_exe().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let uid = rustix::process::geteuid().as_raw();
    let (os, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let text = format!("{VERSION} for {os}/{machine}, run by user {uid}: {path}");
    Check::well(
        "program",
        text,
        json!({"version": VERSION, "os": os, "machine": machine, "uid": uid, "path": path}),
    )
}

pub(super) fn places(places: &Places) -> Check {
    let (home, socket) = (places.home.to_string_lossy(), places.socket.to_string_lossy());
    let mut text = format!("home {home}, socket {socket}");
    if let Some(asked) = &places.asked_socket {
        text.push_str(&format!(" (stands for {}, which is too long)", asked.display()));
    }
    let facts = json!({"home": home, "socket": socket, "homeExists": places.home.is_dir()});
    let mut check = Check::well("places", text, facts);
    if places.socket.exists()
        && let Err(error) = check_socket(&places.socket, rustix::process::geteuid().as_raw())
    {
        check.state = State::Broken;
        check.text = error.to_string();
        check.next = Some("choose a socket of your own with --socket, or mend its owner and mode".into());
    }
    check
}

pub(super) async fn daemon(session: &Session) -> Check {
    let found = match session.client.compatibility().await {
        Ok(found) => found,
        Err(failure) => {
            let state = match failure.class {
                FailureClass::DaemonSocketAbsent | FailureClass::DaemonNotListening => State::Away,
                FailureClass::ProtocolIncompatible => State::Incompatible,
                _ => State::Broken,
            };
            let next = Some(failure.next.line(|_| false));
            let facts = json!({"class": failure.class, "details": failure.details});
            return Check { name: "daemon", state, text: failure.message, next, facts };
        }
    };
    let health = &found.health;
    let text = format!("{} answers (process {})", health.software_version, health.pid);
    let mut check =
        Check::well("daemon", text, json!({"health": health, "missingCapabilities": found.missing}));
    if let Err(failure) = found.check("") {
        check.state = State::Incompatible;
        check.next = Some(failure.next.line(|_| false));
        check.text = failure.message;
    } else if let Some(store) = &health.store {
        check.state = State::Broken;
        check.text.push_str(&format!(", but its store is out of order: {store}"));
        check.next = Some("portreeve stop; portreeve doctor --repair".into());
    } else if !found.missing.is_empty() {
        check.state = State::Incompatible;
        check.text.push_str(&format!(", and can't do {}", found.missing.join(", ")));
        check.next = Some("update it, then: portreeve stop; portreeve serve".into());
    }
    check
}

pub(super) fn store(places: &Places) -> Check {
    let path = places.home.join(store::FILE_NAME);
    let engine = store::engine_version();
    let facts =
        json!({"path": path.to_string_lossy(), "sqlite": engine, "newestSchema": store::NEWEST_SCHEMA});
    if !path.exists() {
        let text = format!("none yet at {} (SQLite {engine})", path.display());
        return Check::well("store", text, facts);
    }
    let text = format!("{} is whole (SQLite {engine})", path.display());
    let mut check = Check::well("store", text, facts);
    if let Err(error) = store::quick_check(&path) {
        check.text = format!("{}: {error}", path.display());
        (check.state, check.next) = match error {
            StoreError::Busy(_) => (State::Away, Some("try again".into())),
            StoreError::Corrupt { .. } => {
                (State::Broken, Some("portreeve stop; portreeve doctor --repair".to_owned()))
            }
            StoreError::SchemaNewer { .. } => {
                (State::Incompatible, Some("run the newer PortReeve that wrote it".to_owned()))
            }
            _ => (State::Broken, Some("look at the disk and the owner of the home".to_owned())),
        };
    }
    check
}

pub(super) fn evidence() -> Check {
    let broken = |text: String| Check {
        name: "evidence",
        state: State::Broken,
        text,
        next: Some("run outside of the sandbox or container that hides the kernel's tables".into()),
        facts: Value::Null,
    };
    let deadline = Deadline::after(EVIDENCE);
    let kernel = match Kernel::new() {
        Ok(kernel) => kernel,
        Err(unknown) => return broken(unknown.to_string()),
    };
    let (facts, sockets) = match (kernel.facts(), kernel.listening(&deadline)) {
        (Ok(facts), Ok(sockets)) => (facts, sockets),
        (Err(unknown), _) | (_, Err(unknown)) => return broken(unknown.to_string()),
    };
    let holdings = kernel.holdings(&sockets, Search::Every, &deadline);
    let unseen = holdings.iter().filter(|holding| holding.holders.is_empty()).count();
    let table = match facts.table {
        Table::Netlink => "netlink",
        Table::Proc => "/proc/net/tcp (slower: netlink is refused here)",
        Table::OwnProcesses => "this user's own processes only",
    };
    let text = format!(
        "read by {table}: {} listening sockets, {unseen} of them held by processes that can't be seen; outgoing \
         connections use ports {} to {}; IPv6 {}",
        sockets.len(),
        facts.ephemeral.start(),
        facts.ephemeral.end(),
        if facts.ipv6 { "yes" } else { "no" },
    );
    let shown = json!({
        "table": table,
        "listeningSockets": sockets.len(),
        "unseenHolders": unseen,
        "ephemeralPorts": {"start": facts.ephemeral.start(), "end": facts.ephemeral.end()},
        "unprivilegedFrom": facts.unprivileged_start,
        "ipv6": facts.ipv6,
    });
    Check::well("evidence", text, shown)
}

pub(super) fn containers() -> Check {
    let text = "this version doesn't ask a container engine".to_owned();
    Check::well("containers", text, json!({"available": false}))
}
