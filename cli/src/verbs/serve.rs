//! `portreeve serve`.

use crate::args::Global;
use crate::exit::Exit;
use crate::logging;
use crate::report;
use crate::text::safe_lines;
use portreeve_daemon::{ServeError, ServeOptions};
use std::io::Read as _;
use std::process::ExitCode;

const AFTER: &str = "\
Examples:
  portreeve serve
  portreeve serve --home /tmp/try        a second one, with records of its own

A supervisor sets PORTREEVE_SUPERVISED=1.";

/// Run the daemon in this terminal until Ctrl-C, `portreeve stop` or SIGTERM
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Stop when standard input is closed: the daemon of a test or a tour doesn't outlive its parent
    #[arg(long, hide = true)]
    while_stdin_is_open: bool,
}

pub(crate) fn run(args: Args, global: &Global) -> ExitCode {
    logging::to_stderr();
    if args.while_stdin_is_open {
        std::thread::spawn(stop_with_stdin);
    }
    let options = ServeOptions {
        home: global.home.clone(),
        socket: global.socket.clone(),
        supervised: std::env::var_os("PORTREEVE_SUPERVISED").is_some_and(|value| value == "1"),
    };
    let served = portreeve_daemon::serve(options, |places| {
        let text =
            format!("PortReeve serves on {} (process {}).", places.socket.display(), std::process::id());
        // A terminal that is gone is no reason to stop.
        report::err(&safe_lines(&text)).ok();
    });
    match served {
        Ok(()) => Exit::Done.code(),
        Err(error) => {
            let mut text = format!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                text.push_str(&format!(": {error}"));
                cause = error.source();
            }
            text.push_str(&format!("\nnext: {}", error.next_step()));
            report::end(report::err(&safe_lines(&text)), exit(&error))
        }
    }
}

fn exit(error: &ServeError) -> Exit {
    match error {
        ServeError::Places(_) => Exit::Invalid,
        ServeError::Home(_) | ServeError::Socket(_) => Exit::Conflict,
        ServeError::Clock(_) | ServeError::Evidence(_) | ServeError::Prepare(_) | ServeError::Io(_) => {
            Exit::Internal
        }
    }
}

fn stop_with_stdin() {
    let mut stdin = std::io::stdin().lock();
    let mut ignored = [0u8; 64];
    while stdin.read(&mut ignored).is_ok_and(|read| read > 0) {}
    let own = rustix::process::getpid();
    if rustix::process::kill_process(own, rustix::process::Signal::TERM).is_err() {
        std::process::exit(i32::from(Exit::Internal as u8));
    }
}
