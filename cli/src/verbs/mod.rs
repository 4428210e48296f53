//! The commands: one a file, whose doc comment is its help.

mod claims;
mod completions;
mod config;
mod doctor;
mod history;
mod lease;
mod logs;
mod mcp;
mod ports;
mod run;
mod serve;
mod status;
mod stop;
mod tools;

use crate::args::{Cli, Global};
use crate::exit::Exit;
use crate::report::{self, Report, fault};
use crate::session::Session;
use crate::tour;
use clap::Subcommand;
use portreeve_registry::Failure;
use std::future::Future;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Serve(serve::Args),
    Status(status::Args),
    Stop(stop::Args),
    Tour(tour::Args),
    Doctor(doctor::Args),
    #[command(subcommand)]
    Mcp(mcp::Verb),
    #[command(subcommand)]
    Ports(ports::Verb),
    #[command(subcommand)]
    Claims(claims::Verb),
    #[command(subcommand)]
    Lease(lease::Verb),
    #[command(subcommand)]
    Run(run::Verb),
    #[command(subcommand)]
    Config(config::Verb),
    History(history::Args),
    Logs(logs::Args),
    Tools(tools::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    TourServer(tour::server::Args),
}

/// Runs the command and says what came of it.
pub(crate) fn run(cli: Cli) -> ExitCode {
    let Cli { global, verb } = cli;
    let json = global.json;
    match verb {
        Verb::Serve(args) => serve::run(args, &global),
        Verb::Tour(args) => tour::run(args, json),
        Verb::TourServer(args) => tour::server::run(&args),
        Verb::Mcp(mcp::Verb::Serve(args)) => mcp::serve::run(args, global),
        Verb::Mcp(mcp::Verb::Setup(args)) => {
            report::print("mcp setup", json, mcp::setup::run(&args, &global))
        }
        Verb::Tools(args) => report::print("tools", json, tools::run(&args)),
        Verb::Completions(args) => report::print("completions", json, completions::run(&args)),
        Verb::Doctor(args) => until_done("doctor", json, doctor::run(args, &global)),
        Verb::Status(args) => asked("status", &global, async |s| status::run(args, s).await),
        Verb::Stop(args) => asked("stop", &global, async |s| stop::run(args, s).await),
        Verb::Ports(verb) => match verb {
            ports::Verb::List(args) => {
                asked("ports list", &global, async |s| ports::list::run(args, s).await)
            }
            ports::Verb::Inspect(args) => {
                asked("ports inspect", &global, async |s| ports::inspect::run(args, s).await)
            }
            ports::Verb::Reclaim(args) => {
                asked("ports reclaim", &global, async |s| ports::reclaim::run(args, s, json).await)
            }
            ports::Verb::UnsafeEvict(args) => {
                asked("ports unsafe-evict", &global, async |s| ports::unsafe_evict::run(args, s, json).await)
            }
        },
        Verb::Claims(verb) => match verb {
            claims::Verb::List(args) => {
                asked("claims list", &global, async |s| claims::list::run(args, s).await)
            }
            claims::Verb::Show(args) => {
                asked("claims show", &global, async |s| claims::show::run(args, s).await)
            }
            claims::Verb::Reassign(args) => {
                asked("claims reassign", &global, async |s| claims::reassign::run(args, s, json).await)
            }
            claims::Verb::Delete(args) => {
                asked("claims delete", &global, async |s| claims::delete::run(args, s, json).await)
            }
            claims::Verb::Prune(args) => {
                asked("claims prune", &global, async |s| claims::prune::run(args, s, json).await)
            }
        },
        Verb::Lease(verb) => match verb {
            lease::Verb::Acquire(args) => {
                asked("lease acquire", &global, async |s| lease::acquire::run(args, s, json).await)
            }
            lease::Verb::Renew(args) => {
                asked("lease renew", &global, async |s| lease::renew::run(args, s).await)
            }
            lease::Verb::Confirm(args) => {
                asked("lease confirm", &global, async |s| lease::confirm::run(args, s).await)
            }
            lease::Verb::Abandon(args) => {
                asked("lease abandon", &global, async |s| lease::abandon::run(args, s).await)
            }
        },
        Verb::Run(run::Verb::Release(args)) => {
            asked("run release", &global, async |s| run::release::run(args, s).await)
        }
        Verb::Config(verb) => match verb {
            config::Verb::Get(args) => {
                asked("config get", &global, async |s| config::get::run(args, s).await)
            }
            config::Verb::Set(args) => {
                asked("config set", &global, async |s| config::set::run(args, s, json).await)
            }
        },
        Verb::History(args) => asked("history", &global, async |s| history::run(args, s).await),
        Verb::Logs(args) => asked("logs", &global, async |s| logs::run(args, s).await),
    }
}

/// Runs a command that asks the daemon.
fn asked(
    name: &str,
    global: &Global,
    work: impl AsyncFnOnce(&Session) -> Result<Report, Failure>,
) -> ExitCode {
    match Session::open(global) {
        Ok(session) => until_done(name, global.json, work(&session)),
        Err(failure) => report::print(name, global.json, Err(failure)),
    }
}

/// Runs `work` until it is done or Ctrl-C is pressed; dropping it hangs up, and the daemon lets go.
fn until_done(name: &str, json: bool, work: impl Future<Output = Result<Report, Failure>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report::print(name, json, Err(fault(format!("there is no runtime: {error}")))),
    };
    runtime.block_on(async {
        tokio::select! {
            biased;
            came = work => report::print(name, json, came),
            Ok(()) = tokio::signal::ctrl_c() => Exit::Interrupted.code(),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_has_help_with_an_example() {
        fn look(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path} has no help");
            if command.has_subcommands() {
                command.get_subcommands().for_each(|below| look(below, &path));
            } else if !command.is_hide_set() {
                let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains("portreeve "), "{path} shows no example");
            }
        }
        let command = Cli::command();
        command.clone().debug_assert();
        command.get_subcommands().for_each(|below| look(below, "portreeve"));
    }

    /// A file that no `mod` names is built by nobody.
    #[test]
    fn every_file_is_part_of_the_program() {
        fn look(directory: &std::path::Path, all: &mut Vec<String>) {
            for entry in std::fs::read_dir(directory).expect("the sources are there") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    look(&path, all);
                    continue;
                }
                let name = path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned();
                if name == "mod" || name == "main" {
                    continue;
                }
                let list = match path.with_file_name("mod.rs") {
                    list if list.exists() => list,
                    _ => path.with_file_name("main.rs"),
                };
                let list = std::fs::read_to_string(list).expect("each folder has a list");
                if !list.contains(&format!("mod {name};")) {
                    all.push(path.display().to_string());
                }
            }
        }
        let mut forgotten = Vec::new();
        look(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut forgotten);
        assert!(forgotten.is_empty(), "{forgotten:?}");
    }
}
