//! `portreeve mcp setup`.

use crate::args::Global;
use crate::report::{Report, fault, invalid};
use crate::session::places;
use crate::text::safe;
use crate::values;
use portreeve_bridge::Toolset;
use portreeve_records::Named;
use portreeve_registry::Failure;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

const AFTER: &str = "\
Examples:
  portreeve mcp setup --host claude-code
  portreeve mcp setup --host codex --label codex-left
  portreeve mcp setup --host claude-code --portable      for a file that a team shares

It prints and changes nothing. The bridge is named by its absolute path and gets the absolute path of the
socket, so it works whatever HOME, PATH and directory the host gives it. With --portable both are left out.";

/// Print what to tell an agent's host so that it starts the bridge
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The host
    #[arg(long, value_enum, default_value_t = Host::Generic)]
    host: Host,
    /// Name the program only, to be found by PATH, and leave out the socket
    #[arg(long)]
    portable: bool,
    /// Who this host is in history [default: the host's name]
    #[arg(long, value_parser = values::name)]
    label: Option<Named>,
    /// Which tools the host loads: see `mcp serve`
    #[arg(long, value_name = "SETS", value_parser = toolset)]
    tools: Option<String>,
}

/// An agent's host that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Host {
    Generic,
    Codex,
    ClaudeCode,
}

fn toolset(text: &str) -> Result<String, String> {
    Toolset::from_str(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<Report, Failure> {
    if args.portable && (global.socket.is_some() || global.home.is_some()) {
        return Err(invalid("--portable leaves out the socket, so it goes with neither --socket nor --home"));
    }
    let command = if args.portable { "portreeve".to_owned() } else { program()? };
    let mut line = vec!["mcp".to_owned(), "serve".to_owned()];
    if !args.portable {
        line.extend(["--socket".to_owned(), utf8(&places(global)?.socket)?]);
    }
    let name = match args.host {
        Host::Generic => None,
        Host::Codex => Some("codex"),
        Host::ClaudeCode => Some("claude-code"),
    };
    if let Some(label) = args.label.as_ref().map(Named::as_str).or(name) {
        line.extend(["--label".to_owned(), label.to_owned()]);
    }
    if let Some(tools) = &args.tools {
        line.extend(["--tools".to_owned(), tools.clone()]);
    }
    let (shell, config) = match args.host {
        Host::Generic => (None, servers(&command, &line)),
        Host::Codex => (Some(format!("codex mcp add portreeve -- {}", quoted(&command, &line))), {
            Value::String(toml(&command, &line))
        }),
        Host::ClaudeCode => {
            let scope = if args.portable { "project" } else { "user" };
            let shell = format!("claude mcp add -s {scope} portreeve -- {}", quoted(&command, &line));
            (Some(shell), servers(&command, &line))
        }
    };
    let shown = config.as_str().map_or_else(|| format!("{config:#}"), str::to_owned);
    let text = match (args.host, &shell) {
        (Host::Codex, Some(shell)) => {
            format!("Run\n\n{shell}\n\nor put this into ~/.codex/config.toml:\n\n{shown}")
        }
        (Host::ClaudeCode, Some(shell)) => {
            format!("Run\n\n{shell}\n\nor put this into .mcp.json:\n\n{shown}")
        }
        _ => format!("Put this into the host's list of MCP servers:\n\n{shown}"),
    };
    let text: Vec<String> = text.lines().map(safe).collect();
    let data = json!({
        "host": match args.host {
            Host::Generic => "generic",
            Host::Codex => "codex",
            Host::ClaudeCode => "claude-code",
        },
        "portable": args.portable,
        "name": "portreeve",
        "command": command,
        "args": line,
        "shell": shell,
        "config": config,
    });
    Ok(Report::done(&data, text.join("\n")))
}

/// This program's own path.
fn program() -> Result<String, Failure> {
    let path = std::env::current_exe()
        .map_err(|error| fault(format!("this program's own path can't be found: {error}")))?;
    if !path.exists() {
        // Linux shows a replaced program as "… (deleted)".
        return Err(fault(format!("this program isn't there any more: {}", path.display()))
            .next("run the installed portreeve again"));
    }
    utf8(&path)
}

fn utf8(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        invalid(format!("{} isn't UTF-8, which no host's settings can hold", PathBuf::from(path).display()))
    })
}

fn servers(command: &str, line: &[String]) -> Value {
    json!({"mcpServers": {"portreeve": {"command": command, "args": line}}})
}

fn toml(command: &str, line: &[String]) -> String {
    // A JSON string is a TOML string too: both escape by \uXXXX.
    let text = |text: &str| Value::from(text).to_string();
    let line: Vec<String> = line.iter().map(|part| text(part)).collect();
    format!("[mcp_servers.portreeve]\ncommand = {}\nargs = [{}]", text(command), line.join(", "))
}

/// The command line as a POSIX shell reads it.
fn quoted(command: &str, line: &[String]) -> String {
    let quote = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:@+".contains(c);
        if !part.is_empty() && part.chars().all(plain) {
            part.to_owned()
        } else {
            format!("'{}'", part.replace('\'', r"'\''"))
        }
    };
    let parts: Vec<String> =
        std::iter::once(command).chain(line.iter().map(String::as_str)).map(quote).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_survive_the_shell_and_toml() {
        let line = ["it's".to_owned(), "a b".to_owned(), String::new()];
        assert_eq!(quoted("/usr/bin/x", &line), r"/usr/bin/x 'it'\''s' 'a b' ''");
        let toml = toml("/a\"b\\c", &line);
        assert_eq!(
            toml,
            "[mcp_servers.portreeve]\ncommand = \"/a\\\"b\\\\c\"\nargs = [\"it's\", \"a b\", \"\"]"
        );
    }
}
