//! The client's `with_port` against a real daemon, real servers and the kernel's word.

use crate::support::{Place, Server, ports, until};
use portreeve_client::{Client, Options, PortRequest, WithPortError};
use portreeve_records::{ClaimIdentity, Named, Origin, OriginKind, Pid, PortNumber, WorkspaceRoot};
use std::convert::Infallible;

fn client(place: &Place) -> Client {
    let origin = Origin { kind: OriginKind::Library, run_id: None, label: None };
    Client::new(Options::new(place.socket(), origin, "0.0.0"))
}

fn request(place: &Place) -> PortRequest {
    let name = |text| Named::parse(text).unwrap();
    let root = WorkspaceRoot::parse(place.workspace("tree").to_str().unwrap()).unwrap();
    PortRequest::new(ClaimIdentity::new(name("shop"), root, name("web"), Named::default_endpoint()))
}

fn happened(place: &Place, event: &str) -> usize {
    let items = place.run(&["history", "--event-type", event, "--json"]).data()["items"].clone();
    items.as_array().unwrap().len()
}

/// Each test holds the ports and runs `story` to its end.
fn with_daemon(story: impl AsyncFnOnce(&Place)) {
    let _ports = ports();
    let place = Place::with_daemon();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(story(&place));
}

#[test]
fn a_server_is_proved_while_the_body_runs_and_over_afterwards() {
    with_daemon(proved_and_over);
}

async fn proved_and_over(place: &Place) {
    let client = client(place);
    let start = async |port: PortNumber| -> Result<_, Infallible> {
        let server = Server::start(port.get().into(), place.directory.path());
        Ok((Pid::new(server.0.id()).unwrap(), (server, port)))
    };
    let state = client
        .with_port(request(place), start, async |(server, port)| {
            let port = port.to_string();
            let seen = place.run(&["ports", "inspect", &port, "--json"]).data();
            assert_eq!(seen["run"]["rootPid"].to_string(), server.pid());
            seen["classification"].as_str().unwrap().to_owned()
        })
        .await
        .unwrap();
    assert_eq!(state, "verified");
    until("the run is over", || happened(place, "run.released") == 1);

    let running = client
        .with_port(request(place), start, async |(_server, _)| {
            let again = client.with_port(request(place), start, async |_| ()).await.unwrap_err();
            assert!(matches!(again, WithPortError::Running(_)), "{again}");
        })
        .await;
    running.unwrap();
}

#[test]
fn dropping_it_gives_the_port_back_at_once() {
    with_daemon(dropped);
}

async fn dropped(place: &Place) {
    let (client, request) = (client(place), request(place));
    let (held, is_held) = tokio::sync::oneshot::channel::<()>();
    let whole = tokio::spawn(async move {
        let start = async |_| -> Result<(Pid, ()), Infallible> {
            drop(held);
            std::future::pending().await
        };
        client.with_port(request, start, async |()| ()).await
    });
    is_held.await.unwrap_err();
    whole.abort();
    assert!(whole.await.unwrap_err().is_cancelled());
    // The abandon is a task of this runtime: it runs while this waits.
    for _ in 0..3000 {
        if happened(place, "lease.abandoned") == 1 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the lease was never abandoned");
}
