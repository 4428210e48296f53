//! What each reading costs on this machine, beside `ss -ltnp` in the same run.
//!
//! `cargo run --release -p portreeve-evidence --example cost [LISTENERS…]` starts that many listener processes
//! (1, 50 and 500 unless told), and 200 other processes with 50 descriptors each, all on loopback, and prints
//! the median and the 99th percentile of each method. They end with this process.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use portreeve_evidence::{Deadline, Kernel, Search, Source};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const OTHERS: usize = 200;
const DESCRIPTORS: usize = 50;

fn main() -> Outcome<()> {
    match std::env::args().nth(1).as_deref() {
        Some("--listener") => listener(),
        Some("--other") => other(),
        _ => measure(),
    }
}

/// Listens, says where, and stays until the benchmark ends.
fn listener() -> Outcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(&listener.local_addr()?.port().to_string())?;
    stay()
}

/// Holds descriptors, half files and half sockets.
fn other() -> Outcome<()> {
    let mut files = Vec::new();
    let mut sockets = Vec::new();
    for at in 3..DESCRIPTORS {
        if at % 2 == 0 {
            files.push(std::fs::File::open("/dev/null")?);
        } else {
            sockets.push(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
        }
    }
    say("ready")?;
    stay()
}

fn say(line: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn stay() -> Outcome<()> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Children that end when their input does.
struct Crowd(Vec<(Child, String)>);

impl Crowd {
    fn start(role: &str, count: usize) -> Outcome<Self> {
        let mut crowd = Self(Vec::new());
        for _ in 0..count {
            let mut child = Command::new(std::env::current_exe()?)
                .arg(role)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let mut line = String::new();
            BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
            crowd.0.push((child, line.trim().into()));
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            drop(child.stdin.take());
            if let Err(error) = child.wait() {
                println!("a child could not be waited for: {error}");
            }
        }
    }
}

fn measure() -> Outcome<()> {
    let mut sizes: Vec<usize> =
        std::env::args().skip(1).map(|size| size.parse()).collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        sizes = vec![1, 50, 500];
    }
    let _others = Crowd::start("--other", OTHERS)?;
    for size in sizes {
        let crowd = Crowd::start("--listener", size)?;
        report(size, &crowd)?;
    }
    Ok(())
}

fn report(size: usize, crowd: &Crowd) -> Outcome<()> {
    println!("\n{size} listeners, {OTHERS} other processes of {DESCRIPTORS} descriptors; milliseconds");
    println!("{:<52} {:>9} {:>9}", "", "median", "p99");
    let (child, port) = crowd.0.get(size / 2).ok_or("no listener")?;
    let (pid, port): (u32, u16) = (child.id(), port.parse()?);
    let deadline = Deadline::after(Duration::from_secs(600));
    let kernel = Kernel::new()?;
    let all = kernel.listening(&deadline)?;
    let one = kernel.listening_on(port, &deadline)?;
    let holding = kernel.holdings(&one, Search::Every, &deadline);
    let holder = holding.first().and_then(|holding| holding.holders.first()).ok_or("no holder")?.process;
    if holder.pid != pid {
        return Err(format!("port {port} is held by {}, not by {pid}", holder.pid).into());
    }

    line("all listening sockets", 300, || kernel.listening(&deadline).map(|all| all.len()))?;
    line("listening sockets of one port", 300, || kernel.listening_on(port, &deadline))?;
    line("one port and its holders, cold, first found", 100, || {
        let kernel = Kernel::new()?;
        Ok(kernel.holdings(&kernel.listening_on(port, &deadline)?, Search::Known, &deadline))
    })?;
    line("one port and its holders, cold, every holder", 100, || {
        let kernel = Kernel::new()?;
        Ok(kernel.holdings(&kernel.listening_on(port, &deadline)?, Search::Every, &deadline))
    })?;
    line("one port and its holders, warm", 300, || {
        Ok(kernel.holdings(&kernel.listening_on(port, &deadline)?, Search::Known, &deadline))
    })?;
    line("its known owner checked again", 300, || Ok(kernel.holdings(&one, Search::Known, &deadline)))?;
    line("whole inventory, every holder", 30, || {
        Ok(kernel.holdings(&kernel.listening(&deadline)?, Search::Every, &deadline))
    })?;
    kernel.holdings(&all, Search::Known, &deadline);
    line("whole inventory, warm, first found", 30, || {
        Ok(kernel.holdings(&kernel.listening(&deadline)?, Search::Known, &deadline))
    })?;
    line("one process in full", 300, || kernel.process(pid))?;
    line("lineage to pid 1", 300, || kernel.lineage(pid, Some(1)))?;
    line("descendants of this process", 30, || {
        let own = kernel.kin(std::process::id())?.map(|kin| kin.id).unwrap_or(holder);
        kernel.descendants(own, &deadline)
    })?;
    line("alive", 300, || Ok(kernel.alive(holder)))?;
    line("pidfd", 300, || Ok(kernel.pidfd(holder).is_ok()))?;
    line("probe of a free port", 300, || Ok(kernel.probe(free_port(), &deadline)))?;
    line("probe of a held port", 300, || Ok(kernel.probe(port, &deadline)))?;
    line("does a port answer (yes)", 100, || kernel.answers(port, &deadline))?;
    line("does a port answer (no)", 100, || kernel.answers(free_port(), &deadline))?;
    line("port settings", 300, || kernel.facts())?;
    line("pid in a container", 10, || kernel.resolve_ns_pid(u32::MAX, &deadline))?;
    for program in [["ss", "-ltnp"].as_slice(), &["true"]] {
        let label = format!("for comparison: {}", program.join(" "));
        let (name, arguments) = program.split_first().ok_or("no program")?;
        if Command::new(name).args(arguments).output().is_err() {
            println!("{label:<52} not installed");
            continue;
        }
        line(&label, 20, || {
            Ok(Command::new(name).args(arguments).output().map(|out| out.stdout.len()).ok())
        })?;
    }
    Ok(())
}

/// One that nobody uses: below the usual ephemeral range, and not handed out by anyone.
fn free_port() -> u16 {
    31_999
}

fn line<T>(
    label: &str,
    times: usize,
    mut act: impl FnMut() -> Result<T, portreeve_evidence::Unknown>,
) -> Outcome<()> {
    let mut took = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        std::hint::black_box(act()?);
        took.push(start.elapsed());
    }
    took.sort_unstable();
    let at = |percent: usize| took[(times * percent / 100).min(times - 1)].as_secs_f64() * 1000.0;
    println!("{label:<52} {:>9.3} {:>9.3}", at(50), at(99));
    Ok(())
}
