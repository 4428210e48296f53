//! The machine in memory keeps to what the kernel does.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::Simulated;
use crate::{Deadline, Liveness, NoPidfd, Probe, ProcessId, Search, Source, Visibility, Why};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(1))
}

#[test]
fn a_port_goes_through_its_states() {
    let machine = Simulated::new();
    assert_eq!(machine.probe(80, &soon()), Probe::Privileged);
    assert_eq!(machine.probe(3000, &soon()), Probe::Free);
    machine.bind(3000);
    assert_eq!(machine.probe(3000, &soon()), Probe::Held);
    assert_eq!(machine.listening_on(3000, &soon()), Ok(vec![]));
    machine.close(3000);
    machine.settle(3000);
    assert_eq!(machine.probe(3000, &soon()), Probe::Settling);
    machine.forward(3001, vec![V4]);
    assert_eq!((machine.probe(3001, &soon()), machine.answers(3001, &soon())), (Probe::Free, Ok(vec![V4])));
}

#[test]
fn sockets_end_with_their_last_holder() {
    let machine = Simulated::new();
    let (parent, child) = (machine.start(10, 1), machine.start(11, 10));
    let socket = machine.listen(10, V4, 3000);
    machine.inherit(&socket, 11);
    let holders = || -> Vec<ProcessId> {
        let found = machine.holdings(&[socket], Search::Every, &soon());
        found[0].holders.iter().map(|holder| holder.process).collect()
    };
    assert_eq!(holders(), [parent, child]);
    machine.end(10);
    assert_eq!(holders(), [child]);
    assert_eq!(machine.kin(11).map(|kin| kin.map(|kin| (kin.parent, kin.session))), Ok(Some((1, 1))));
    machine.end(11);
    assert_eq!(machine.listening(&soon()), Ok(vec![]));
}

#[test]
fn a_pidfd_becomes_readable_when_its_process_ends() {
    let machine = Simulated::new();
    let id = machine.start(10, 1);
    let mut pidfd = std::fs::File::from(machine.pidfd(id).expect("lives"));
    let again = machine.start(10, 1);
    assert_ne!(id, again);
    assert_eq!(pidfd.read(&mut [0; 1]).expect("the end"), 0);
    assert_eq!((machine.alive(id), machine.alive(again)), (Liveness::Gone, Liveness::Alive));
    assert!(matches!(machine.pidfd(id), Err(NoPidfd::Gone)));
}

#[test]
fn an_outage_makes_everything_unknown() {
    let machine = Simulated::new();
    let id = machine.start(10, 1);
    let socket = machine.listen(10, V4, 3000);
    machine.fail(Some(Why::Deadline));
    assert!(machine.listening(&soon()).is_err() && machine.boot_id().is_err());
    assert!(matches!(machine.alive(id), Liveness::Unknown(_)));
    assert!(matches!(machine.probe(3000, &soon()), Probe::Unknown(_)));
    let found = machine.holdings(&[socket], Search::Every, &soon());
    assert!(matches!(found[0].visibility, Visibility::Unknown(_)));
    machine.fail(None);
    assert_eq!(machine.alive(id), Liveness::Alive);
}
