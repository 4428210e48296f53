//! The server that the tour's agents start: a page on a port, in a process of its own. A hidden command.

use crate::exit::Exit;
use crate::report::{self, fault};
use crate::values;
use portreeve_records::PortNumber;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;

/// Serve one page on loopback until standard input is closed
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The port
    #[arg(long, value_parser = values::port)]
    port: PortNumber,
    /// What the page says
    #[arg(long)]
    page: String,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, args.port.get())) {
        Ok(listener) => listener,
        Err(error) => {
            let failure = fault(format!("port {} can't be served: {error}", args.port));
            return report::print("tour-server", false, Err(failure));
        }
    };
    std::thread::spawn(|| {
        let mut stdin = io::stdin().lock();
        let mut ignored = [0u8; 64];
        while stdin.read(&mut ignored).is_ok_and(|read| read > 0) {}
        std::process::exit(i32::from(Exit::Done as u8));
    });
    for stream in listener.incoming() {
        // A visitor who leaves early doesn't end the server.
        stream.and_then(|stream| answer(stream, &args.page)).ok();
    }
    Exit::Done.code()
}

fn answer(stream: TcpStream, page: &str) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        line.clear();
    }
    let length = page.len();
    write!(
        stream.get_mut(),
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{page}"
    )
}

/// The page that a server on `port` answers.
pub(super) fn fetch(port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(stream, "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let page = reply.split_once("\r\n\r\n").map(|(_, page)| page.to_owned());
    page.ok_or_else(|| io::Error::other("the reply has no body"))
}
