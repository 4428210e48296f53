//! Waiting for a server to listen: renewing its lease and asking again until it can be confirmed.

use crate::{Client, clock};
use portreeve_leases::{ConfirmLease, ConfirmRequest, Confirmed, RenewLease, RenewRequest};
use portreeve_registry::{Failure, FailureClass};
use portreeve_settings::{GetSettings, Nothing};
use serde_json::Value;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

/// The longest that a server is waited for.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How long to wait between two looks at a port on which nothing listens yet.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long to wait before a renewal that failed is tried again.
const RENEW_AGAIN: Duration = Duration::from_millis(250);
/// The shortest lease that the settings allow.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The longest time between two renewals.
const RENEW_AT_MOST: Duration = Duration::from_secs(10);

impl Client {
    /// Confirms a lease once its server listens, renewing it meanwhile; `wait` is at most [`LONGEST_WAIT`].
    ///
    /// # Errors
    /// What the daemon says: at once where waiting can't help (another process holds the port, the process is
    /// gone), its latest answer when `wait` is over.
    pub async fn confirm_when_listening(
        &self,
        request: &ConfirmRequest,
        wait: Duration,
    ) -> Result<Confirmed, Failure> {
        let renewal = RenewRequest { lease_id: request.lease_id, lease_token: request.lease_token.clone() };
        self.while_renewing(&renewal, self.confirm_until(request, wait)).await?
    }

    /// Runs `work` while the lease is renewed beside it.
    ///
    /// # Errors
    /// Why the lease can't be held any longer; `work` is dropped then.
    pub(crate) async fn while_renewing<T>(
        &self,
        lease: &RenewRequest,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            lost = self.renew_for_ever(lease) => match lost {
                Ok(never) => match never {},
                Err(failure) => Err(failure),
            },
        }
    }

    async fn renew_for_ever(&self, lease: &RenewRequest) -> Result<Infallible, Failure> {
        // Most servers are confirmed sooner than even the shortest lease needs its first renewal.
        tokio::time::sleep(SHORTEST_LEASE / 3).await;
        let settings = self.call::<GetSettings>(&Nothing {}).await;
        let lease_time = settings.map_or(SHORTEST_LEASE, |settings| {
            Duration::from_millis(settings.lease_ttl_milliseconds).max(SHORTEST_LEASE)
        });
        let pause = (lease_time / 3).min(RENEW_AT_MOST);
        loop {
            while let Err(failure) = self.call::<RenewLease>(lease).await {
                if !may_come_back(&failure) {
                    return Err(failure);
                }
                tokio::time::sleep(RENEW_AGAIN.min(pause)).await;
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn confirm_until(&self, request: &ConfirmRequest, wait: Duration) -> Result<Confirmed, Failure> {
        let end = clock::deadline(wait.min(LONGEST_WAIT));
        loop {
            let failure = match self.call::<ConfirmLease>(request).await {
                Ok(confirmed) => return Ok(confirmed),
                Err(failure) => failure,
            };
            if !may_listen_yet(&failure) || clock::has_passed(end) {
                return Err(failure);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn may_come_back(failure: &Failure) -> bool {
    let away =
        [FailureClass::DaemonNotListening, FailureClass::DaemonSocketAbsent, FailureClass::DaemonStopping];
    failure.is_retryable() || away.contains(&failure.class)
}

/// Whether waiting can help: the process lives, and nobody else has the port.
fn may_listen_yet(failure: &Failure) -> bool {
    let somebody = |name: &str| {
        failure.details.get(name).is_some_and(|found| match found {
            Value::Array(all) => !all.is_empty(),
            Value::Number(count) => count.as_u64() != Some(0),
            _ => false,
        })
    };
    let gone = failure.details.get("rootLives") == Some(&Value::Bool(false));
    failure.is_retryable() && !somebody("listeners") && !somebody("unseenHolders") && !gone
}
