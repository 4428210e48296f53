//! Serves a page on a port of this directory's own, in a process that this example starts.
//!
//! Run a daemon (`portreeve serve`), then `cargo run -p portreeve-client --example with_port`.
//! It holds a port, starts itself a second time as the server, waits until the kernel shows that child listening,
//! fetches a page from it, ends it, and gives the port back.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(
    clippy::disallowed_methods,
    reason = "the example starts its own server; the client starts nothing"
)]

use portreeve_client::{Client, Options, PortRequest, places::Places};
use portreeve_records::{ClaimIdentity, Named, Origin, OriginKind, Pid, PortNumber, WorkspaceRoot};
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(port) = std::env::args().nth(1) {
        return serve(port.parse()?);
    }
    let socket = Places::from_env(None, None)?.socket;
    let origin = Origin { kind: OriginKind::Library, run_id: None, label: Some(Named::parse("example")?) };
    let client = Client::new(Options::new(socket, origin, env!("CARGO_PKG_VERSION")));

    let here = std::env::current_dir()?.canonicalize()?;
    let root = WorkspaceRoot::parse(here.to_str().ok_or("this directory's path isn't UTF-8")?)?;
    let claim =
        ClaimIdentity::new(Named::parse("example")?, root, Named::parse("web")?, Named::default_endpoint());
    let request = PortRequest { preferred: PortNumber::new(3000), ..PortRequest::new(claim) };

    let start = async |port: PortNumber| -> Result<(Pid, (Server, PortNumber)), Box<dyn Error>> {
        let child = Command::new(std::env::current_exe()?).arg(port.to_string()).spawn()?;
        let pid = Pid::new(child.id()).ok_or("no pid")?;
        println!("process {pid} serves on port {port}");
        Ok((pid, (Server(child), port)))
    };
    let page = client
        .with_port(request, start, async |(server, port)| {
            let page = fetch(port.get());
            drop(server);
            page
        })
        .await
        .map_err(|error| error.to_string())??;
    println!("{page}");
    Ok(())
}

/// The server's process; it is ended and waited for, however this goes.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        if self.0.kill().is_ok() {
            self.0.wait().ok();
        }
    }
}

fn fetch(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

fn serve(port: u16) -> Result<(), Box<dyn Error>> {
    let page = format!("port {port}, process {}\n", std::process::id());
    for stream in TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.incoming() {
        let mut stream = BufReader::new(stream?);
        let mut line = String::new();
        while stream.read_line(&mut line)? > 2 {
            line.clear();
        }
        write!(stream.get_mut(), "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{page}", page.len())?;
    }
    Ok(())
}
