//! A process that does as it is told: this test binary again, in the role of a server.
//!
//! It reads one command a line, and answers each with one line behind `#> `. It ends with its input.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::support::no_copies;

const ROLE: &str = "PORTREEVE_EVIDENCE_ACTOR";
const UNDUMPABLE: &str = "PORTREEVE_EVIDENCE_UNDUMPABLE";
const ARGUMENTS: [&str; 3] = ["--exact", "actor::plays_its_role", "--nocapture"];

/// A started actor. Ends when dropped.
pub(crate) struct Actor {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Actor {
    pub(crate) fn start() -> Self {
        Self::from(&mut Self::command("/proc/self/exe"))
    }

    /// As another user (root only).
    pub(crate) fn start_as(uid: u32) -> Self {
        Self::from(Self::command("/proc/self/exe").uid(uid).gid(uid))
    }

    /// The command that becomes an actor.
    pub(crate) fn command(program: &str) -> Command {
        let mut command = Command::new(program);
        // A group of its own: what other cases' actors do is then no concern of this one's.
        command.args(ARGUMENTS).env(ROLE, "1").process_group(0);
        command
    }

    /// A shell script in which `"$@"` is the command that becomes the actor.
    pub(crate) fn in_shell(script: &str) -> Self {
        let program = std::env::current_exe().expect("a test knows its binary");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "sh"]).arg(program).args(ARGUMENTS).env(ROLE, "1").process_group(0);
        Self::from(&mut command)
    }

    pub(crate) fn from(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let alone = no_copies();
        let mut child = command.spawn().expect("the actor's program can be run");
        drop(alone);
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut actor = Self { child, input, lines };
        assert_eq!(actor.answer(), "ready");
        actor
    }

    /// The process that was started: the actor, or the shell around it.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        let input = self.input.as_mut().expect("not ended");
        writeln!(input, "{command}").expect("the actor listens");
        let answer = self.answer();
        assert!(!answer.starts_with("failed"), "{command}: {answer}");
        answer
    }

    /// Asks for something that is a number.
    pub(crate) fn number(&mut self, command: &str) -> u32 {
        self.ask(command).parse().expect("a number")
    }

    fn answer(&mut self) -> String {
        let answer = |line: std::io::Result<String>| {
            line.expect("text").strip_prefix("#> ").map(|answer| answer.to_owned())
        };
        self.lines.by_ref().find_map(answer).expect("the actor answers")
    }

    /// Kills it without reaping it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        drop(self.input.take());
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait().map(drop)) {
            println!("an actor could not be ended: {error}");
        }
    }
}

/// No case of its own: the role itself, when this binary was started for it.
#[test]
fn plays_its_role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut play = Play::default();
    if std::env::var_os(UNDUMPABLE).is_some() {
        play.act(&["undumpable"]).expect("a process may forbid it");
    }
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').collect();
        match play.act(&words) {
            Ok(answer) => say(&answer),
            Err(error) => say(&format!("failed: {error}")),
        }
    }
    std::process::exit(0);
}

fn say(answer: &str) {
    let mut out = std::io::stdout().lock();
    // The test harness may have left its own line unfinished.
    writeln!(out, "\n#> {answer}").expect("somebody reads");
    out.flush().expect("somebody reads");
}

#[derive(Default)]
struct Play {
    sockets: Vec<OwnedFd>,
    children: Vec<Child>,
}

type Acted = Result<String, Box<dyn std::error::Error>>;

impl Play {
    fn act(&mut self, words: &[&str]) -> Acted {
        match words {
            ["pid"] => Ok(std::process::id().to_string()),
            ["listen", address, port, options @ ..] => {
                let socket = bound(address.parse()?, port.parse()?, options)?;
                rustix::net::listen(&socket, 16)?;
                self.keep(socket)
            }
            ["bind", address, port, options @ ..] => {
                let socket = bound(address.parse()?, port.parse()?, options)?;
                self.keep(socket)
            }
            ["connect", port] => {
                let stream = std::net::TcpStream::connect(("127.0.0.1", port.parse()?))?;
                self.keep(stream.into())
            }
            ["close"] => {
                self.sockets.clear();
                Ok("closed".into())
            }
            ["name", bytes] => {
                let bytes: Vec<u8> = bytes.split(',').map(str::parse).collect::<Result<_, _>>()?;
                std::fs::write("/proc/self/comm", bytes)?;
                Ok("named".into())
            }
            ["nameless"] => {
                std::fs::write("/proc/self/comm", b"\0")?;
                Ok("named".into())
            }
            ["undumpable"] => {
                use rustix::process::{DumpableBehavior, set_dumpable_behavior};
                set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
                Ok("done".into())
            }
            ["child", options @ ..] => {
                // With everything that this process has open.
                let mut command = Actor::command("/proc/self/exe");
                if !options.contains(&"own-group") {
                    command.process_group(rustix::process::getpgrp().as_raw_nonzero().get());
                }
                if options.contains(&"undumpable") {
                    command.env(UNDUMPABLE, "1");
                }
                let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
                let out = child.stdout.take().ok_or("no output")?;
                BufReader::new(out).lines().find(|line| line.as_ref().is_ok_and(|line| line == "#> ready"));
                let pid = child.id().to_string();
                self.children.push(child);
                Ok(pid)
            }
            ["exec"] => Err(Actor::command("/proc/self/exe").exec().into()),
            _ => Err("unknown command".into()),
        }
    }

    /// Keeps it open, over an exec and in children too; answers its port.
    fn keep(&mut self, socket: OwnedFd) -> Acted {
        fcntl_setfd(&socket, FdFlags::empty())?;
        let address: SocketAddr = rustix::net::getsockname(&socket)?.try_into()?;
        self.sockets.push(socket);
        Ok(address.port().to_string())
    }
}

/// A bound socket; `dual` and `v6only` only matter for IPv6, which is dual unless said.
pub(crate) fn bound(address: IpAddr, port: u16, options: &[&str]) -> std::io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, options.contains(&"v6only"))?;
    }
    if options.contains(&"reuse") {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if options.contains(&"reuseport") {
        sockopt::set_socket_reuseport(socket.as_fd(), true)?;
    }
    rustix::net::bind(&socket, &SocketAddr::new(address, port))?;
    Ok(socket)
}
