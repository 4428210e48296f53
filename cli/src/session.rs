//! One command's way to the daemon.

use crate::args::Global;
use crate::report::{REQUEST_ID, invalid};
use portreeve_client::places::Places;
use portreeve_client::{Ask, Client, Options};
use portreeve_records::{Origin, OriginKind};
use portreeve_registry::{Failure, Operation};

/// This program's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The places that the command line names, and a client of the daemon there.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) places: Places,
    pub(crate) client: Client,
}

impl Session {
    pub(crate) fn open(global: &Global) -> Result<Session, Failure> {
        let places = places(global)?;
        let origin = Origin { kind: OriginKind::Cli, run_id: None, label: None };
        let client = Client::new(Options::new(places.socket.clone(), origin, VERSION));
        Ok(Session { places, client })
    }

    /// Asks operation `O`; a failure names its request, by which it can be found again.
    pub(crate) async fn call<O: Operation>(&self, request: &O::Request) -> Result<O::Reply, Failure> {
        let ask = Ask::fresh();
        let id = ask.request_id;
        let answer = self.client.call_as::<O>(request, ask).await;
        answer.map_err(|failure| failure.detail(REQUEST_ID, id.to_string()))
    }
}

/// Where everything is.
pub(crate) fn places(global: &Global) -> Result<Places, Failure> {
    Places::from_env(global.home.clone(), global.socket.clone()).map_err(|error| invalid(error.to_string()))
}
