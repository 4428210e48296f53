//! The whole of what a launcher needs: hold a port, start a server on it, prove it, and give the port back.

use crate::{Ask, Client, LONGEST_WAIT};
use portreeve_leases::{
    AbandonLease, AbandonRequest, AcquireLease, AcquireRequest, Acquired, Allocation, ConfirmRequest,
    ReleaseRequest, ReleaseRun, RenewRequest, ReplacementPolicy,
};
use portreeve_records::{AbandonReason, ClaimIdentity, ClaimMode, Id, Pid, PortNumber};
use portreeve_registry::{Failure, FailureClass, Operation, Secret};
use std::future::Future;
use std::time::Duration;

/// How often a call is repeated whose reply was lost; every one here is harmless to repeat.
const REPEATS: usize = 2;
/// How long giving something back may take: nobody waits for it gladly.
const FAREWELL: Duration = Duration::from_secs(2);

/// Which port, and for what.
#[derive(Clone, Debug)]
pub struct PortRequest {
    /// What it is for.
    pub claim: ClaimIdentity,
    /// How long the claim keeps it.
    pub mode: ClaimMode,
    /// The port that it would rather have. Not with `exact`.
    pub preferred: Option<PortNumber>,
    /// The only port that will do.
    pub exact: Option<PortNumber>,
    /// How long to wait for the server to listen, at most [`LONGEST_WAIT`].
    pub wait: Duration,
}

impl PortRequest {
    /// Any port, kept for the claim, and [`LONGEST_WAIT`] for the server to listen.
    pub fn new(claim: ClaimIdentity) -> PortRequest {
        PortRequest { claim, mode: ClaimMode::Sticky, preferred: None, exact: None, wait: LONGEST_WAIT }
    }
}

/// Why [`Client::with_port`] didn't come to run its body.
#[derive(Debug, thiserror::Error)]
pub enum WithPortError<E> {
    /// The daemon refused, or can't be reached.
    #[error(transparent)]
    Refused(#[from] Failure),
    /// The claim is served already: nothing was started, and nothing needs to be.
    #[error("port {} is served for this claim already", .0.port)]
    Running(Box<Acquired>),
    /// The server didn't start; the port was given back.
    #[error("the server didn't start")]
    Start(#[source] E),
}

impl Client {
    /// Holds a port, lets `start` start a server on it, confirms the process that it names, and runs `body`.
    ///
    /// `start` gets the port, and answers the root of the server's process tree and whatever `body` needs.
    /// The lease is renewed until the server listens and is confirmed, for at most [`PortRequest::wait`].
    /// Afterwards the run is released if its server has stopped; one that lives on keeps its port, and its end is
    /// noticed by the daemon.
    /// When this fails or is dropped, what is held is given back on a best effort.
    ///
    /// This starts and ends no process: both are the caller's.
    ///
    /// # Errors
    /// [`WithPortError`]; `body`'s own result is passed through.
    pub async fn with_port<T, R, E, Start, Body>(
        &self,
        request: PortRequest,
        start: impl FnOnce(PortNumber) -> Start,
        body: impl FnOnce(T) -> Body,
    ) -> Result<R, WithPortError<E>>
    where
        Start: Future<Output = Result<(Pid, T), E>>,
        Body: Future<Output = R>,
    {
        let wait = request.wait;
        let token = Secret::random();
        let acquired = self.repeated::<AcquireLease>(&acquire(request, token.clone())).await?;
        let Some(lease_id) = acquired.lease_id else {
            return Err(WithPortError::Running(Box::new(acquired)));
        };
        // A daemon that takes no tokens from its callers has made its own.
        let lease_token = acquired.lease_token.unwrap_or(token);
        let mut held = Held { client: self, what: Some(What::Lease(lease_id, lease_token.clone())) };
        let renewal = RenewRequest { lease_id, lease_token: lease_token.clone() };
        let started = match self.while_renewing(&renewal, start(acquired.port)).await {
            Ok(started) => started,
            Err(failure) => return Err(held.give_back(AbandonReason::ClientCancelled, failure.into()).await),
        };
        let (root_pid, started) = match started {
            Ok(started) => started,
            Err(error) => {
                let error = WithPortError::Start(error);
                return Err(held.give_back(AbandonReason::StartupError, error).await);
            }
        };
        let confirm = ConfirmRequest { lease_id, lease_token, root_pid, answer_settled: Some(true) };
        match self.confirm_when_listening(&confirm, wait).await {
            Ok(confirmed) => held.what = Some(What::Run(confirmed.run_id)),
            Err(failure) => return Err(held.give_back(AbandonReason::StartupError, failure.into()).await),
        }
        let result = body(started).await;
        held.give_back(AbandonReason::ClientCancelled, ()).await;
        Ok(result)
    }

    /// Asks again where the reply to something harmless to repeat was lost.
    async fn repeated<O: Operation>(&self, request: &O::Request) -> Result<O::Reply, Failure> {
        let mut left = REPEATS;
        loop {
            match self.call::<O>(request).await {
                Err(failure) if left > 0 && was_lost(&failure) => left -= 1,
                answer => return answer,
            }
        }
    }
}

fn was_lost(failure: &Failure) -> bool {
    let lost = [
        FailureClass::SocketLostAfterSend,
        FailureClass::SocketReplyTruncated,
        FailureClass::SocketSendFailed,
    ];
    lost.contains(&failure.class)
}

fn acquire(request: PortRequest, token: Secret) -> AcquireRequest {
    AcquireRequest {
        claim: request.claim,
        allocation: Allocation {
            mode: request.mode,
            preferred_port: request.preferred,
            exact_port: request.exact,
            replacement_policy: ReplacementPolicy::Never,
        },
        lease_token: Some(token),
        answer_running: Some(true),
    }
}

/// What is to be given back.
#[derive(Clone, Debug)]
enum What {
    Lease(Id, Secret),
    Run(Id),
}

/// Gives back what it holds, however it goes.
struct Held<'c> {
    client: &'c Client,
    what: Option<What>,
}

impl Held<'_> {
    async fn give_back<T>(mut self, reason: AbandonReason, answer: T) -> T {
        if let Some(what) = self.what.take() {
            give_back(self.client, what, reason).await;
        }
        answer
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let (Some(what), Ok(runtime)) = (self.what.take(), tokio::runtime::Handle::try_current()) {
            let client = self.client.clone();
            runtime.spawn(async move { give_back(&client, what, AbandonReason::ClientCancelled).await });
        }
    }
}

/// On a best effort: what isn't given back runs out, or is noticed when its process ends.
async fn give_back(client: &Client, what: What, reason: AbandonReason) {
    let ask = Ask { deadline: Some(FAREWELL), ..Ask::fresh() };
    let failed = match what {
        What::Lease(lease_id, lease_token) => {
            let request = AbandonRequest { lease_id, lease_token, reason, answer_settled: Some(true) };
            client.call_as::<AbandonLease>(&request, ask).await.err()
        }
        What::Run(run_id) => {
            let request = ReleaseRequest { run_id, if_stopped: Some(true) };
            client.call_as::<ReleaseRun>(&request, ask).await.err()
        }
    };
    if let Some(failure) = failed {
        tracing::debug!(class = %failure.class, "a port wasn't given back");
    }
}
