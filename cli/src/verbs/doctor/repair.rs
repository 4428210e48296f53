//! `portreeve doctor --repair`.

use crate::exit::Exit;
use crate::report::{Report, fault, invalid};
use crate::table::table;
use crate::text::safe;
use portreeve_client::places::Places;
use portreeve_daemon::clock::SystemClock;
use portreeve_daemon::home::{Home, HomeError};
use portreeve_daemon::store::repair::{RepairError, RepairReport, TableReport, Unreadable, repair};
use portreeve_daemon::store::{FILE_NAME, StoreError};
use portreeve_registry::{Failure, FailureClass};
use serde_json::{Value, json};
use std::io::{BufRead as _, IsTerminal as _, Write as _};

pub(super) fn run(places: &Places, yes: bool) -> Result<Report, Failure> {
    if !places.home.is_dir() {
        return Err(absent(&places.home.join(FILE_NAME)));
    }
    let clock = SystemClock::new().map_err(|error| fault(error.to_string()))?;
    let home = Home::open(&places.home, None, &clock).map_err(|error| match error {
        HomeError::Held { .. } => Failure::new(FailureClass::Conflict, error.to_string())
            .next("stop the daemon first")
            .by(None, Some("portreeve stop".into())),
        other => fault(other.to_string()).next(other.next_step()),
    })?;
    if !yes && !asked(&home)? {
        let data = json!({"changed": false});
        return Ok(Report::done(&data, "Nothing was repaired.").unless(false));
    }
    let done = repair(&home, &clock).map_err(refused)?;
    let exit = if done.complete() { Exit::Done } else { Exit::Unchanged };
    Ok(Report { exit, ..Report::done(&describe(&done), tell(&done)) })
}

fn asked(home: &Home) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(invalid("nobody is there to be asked").next("add --yes"));
    }
    let question = format!(
        "Repair {}? The damaged files are kept under a dated name. [y/N] ",
        safe(&home.store_path().to_string_lossy())
    );
    let mut stderr = std::io::stderr().lock();
    let mut answer = String::new();
    write!(stderr, "{question}")
        .and_then(|()| stderr.flush())
        .and_then(|()| std::io::stdin().lock().read_line(&mut answer))
        .map_err(|error| fault(format!("there was no answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn absent(path: &std::path::Path) -> Failure {
    Failure::new(FailureClass::NotFound, format!("there is no store at {}", path.display()))
        .next("nothing needs a repair: a daemon makes a new store when it starts")
}

fn refused(error: RepairError) -> Failure {
    match error {
        RepairError::Absent { path } => absent(&path),
        RepairError::NotOurs(cause @ StoreError::SchemaNewer { .. }) => {
            Failure::new(FailureClass::StoreSchemaNewer, format!("nothing was repaired: {cause}"))
        }
        other => {
            let cause = std::error::Error::source(&other).map(|cause| format!(": {cause}"));
            Failure::new(FailureClass::StoreIoError, format!("{other}{}", cause.unwrap_or_default()))
                .next("nothing was changed; look at the disk, then try again")
        }
    }
}

fn describe(done: &RepairReport) -> Value {
    let tables: Vec<Value> = done
        .tables
        .iter()
        .map(|table| {
            json!({"table": table.table, "kept": table.kept, "refused": table.lost.refused,
                "unreadable": unreadable(table)})
        })
        .collect();
    json!({"changed": true, "complete": done.complete(), "keptAs": done.kept_as.to_string_lossy(),
        "headerReplaced": done.header_replaced, "tables": tables})
}

fn unreadable(table: &TableReport) -> String {
    match table.lost.unreadable {
        Unreadable::None => "0".to_owned(),
        Unreadable::Rows(rows) => rows.to_string(),
        Unreadable::Unknown => "unknown".to_owned(),
    }
}

fn tell(done: &RepairReport) -> String {
    let rows = done
        .tables
        .iter()
        .map(|table| {
            vec![
                table.table.clone(),
                table.kept.to_string(),
                table.lost.refused.to_string(),
                unreadable(table),
            ]
        })
        .collect();
    let verdict = if done.complete() {
        "The store is repaired; nothing is known to be lost."
    } else {
        "The store is repaired as far as it could be read."
    };
    let text = table(&["TABLE", "KEPT", "REFUSED", "UNREADABLE"], rows, "The store was empty.");
    format!("{verdict}\nThe damaged files are kept as {}.\n{text}", safe(&done.kept_as.to_string_lossy()))
}
