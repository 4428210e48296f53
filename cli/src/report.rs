//! What a command says: the only place that writes to stdout and stderr.
//!
//! With `--json` exactly one document goes to stdout, errors too:
//! `{"schemaVersion": 1, "command": …, "data": …}` or `{"schemaVersion": 1, "error": {…}}`.
//! Without it the text for people goes to stdout, an error and its next step to stderr.
//! A reader that has gone away (`| head`) is no error.

use crate::exit::Exit;
use crate::text::safe;
use portreeve_registry::{Failure, FailureClass};
use serde::Serialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Report {
    /// For machines.
    pub(crate) data: Value,
    /// For people; foreign strings in it are escaped already.
    pub(crate) text: String,
    pub(crate) exit: Exit,
}

impl Report {
    /// Done, with `data` for machines and `text` for people.
    pub(crate) fn done(data: &impl Serialize, text: impl Into<String>) -> Report {
        // What the client read from JSON can be written as JSON.
        let data = serde_json::to_value(data).unwrap_or(Value::Null);
        Report { data, text: text.into(), exit: Exit::Done }
    }

    /// The same, where nothing was to be done.
    pub(crate) fn unless(self, changed: bool) -> Report {
        if changed { self } else { Report { exit: Exit::Unchanged, ..self } }
    }
}

/// Prints what came of `command`.
pub(crate) fn print(command: &str, json: bool, came: Result<Report, Failure>) -> ExitCode {
    let exit = match &came {
        Ok(report) => report.exit,
        Err(failure) => Exit::of(failure),
    };
    let written = match (came, json) {
        (Ok(report), true) => {
            out(&json!({"schemaVersion": 1, "command": command, "data": report.data}).to_string())
        }
        (Ok(report), false) => out(&report.text),
        (Err(failure), true) => out(&json!({"schemaVersion": 1, "error": describe(&failure)}).to_string()),
        (Err(failure), false) => err(&complain(&failure)),
    };
    end(written, exit)
}

/// A line on stdout, at once.
pub(crate) fn out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// A line on stderr.
pub(crate) fn err(text: &str) -> io::Result<()> {
    writeln!(io::stderr().lock(), "{text}")
}

/// The exit status: the command's own, unless what it said was lost.
pub(crate) fn end(written: io::Result<()>, exit: Exit) -> ExitCode {
    match written {
        Ok(()) => exit.code(),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit.code(),
        Err(_) => Exit::Internal.code(),
    }
}

fn describe(failure: &Failure) -> Value {
    json!({
        "class": failure.class,
        "code": failure.code(),
        "message": failure.message,
        "outcome": failure.outcome,
        "retryable": failure.is_retryable(),
        "details": failure.details,
        "next": {"text": failure.next.text, "command": failure.next.command},
    })
}

fn complain(failure: &Failure) -> String {
    let request = failure.details.get(REQUEST_ID).and_then(Value::as_str);
    let request = request.map(|id| format!(", request {}", safe(id))).unwrap_or_default();
    let (message, next) = (safe(&failure.message), safe(&failure.next.line(|_| false)));
    format!("error: {message}\nnext: {next}\n[{}{request}]", failure.class)
}

/// The detail under which a failure names its request.
pub(crate) const REQUEST_ID: &str = "requestId";

/// Arguments that can't be used: help and version are no error.
pub(crate) fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if !error.use_stderr() {
        return end(error.print(), Exit::Done);
    }
    if !json {
        return end(error.print(), Exit::Invalid);
    }
    let text = error.render().to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let command = Some("portreeve --help".to_owned());
    print("", true, Err(invalid(message).next("look at the command's help").by(None, command)))
}

/// Whether `--json` is among the arguments, for errors that come before they are parsed.
pub(crate) fn json_was_asked_for(args: impl IntoIterator<Item = OsString>) -> bool {
    args.into_iter().take_while(|arg| arg != "--").any(|arg| arg == "--json")
}

/// Input that can't be used.
pub(crate) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::DaemonInvalidInput, message).next("correct it and try again")
}

/// A fault on this side of the socket.
pub(crate) fn fault(message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::DaemonInternal, message)
        .outcome(portreeve_registry::Outcome::NotStarted)
        .next("look at the message; it names what the system refused")
}
