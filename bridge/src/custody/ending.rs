//! The bridge's end: what is held goes back at once, so that its ports are free before the lease time is over.
//!
//! What a call in flight uses is left to that call. Whatever can't be given back in time simply expires.

use std::time::Duration;

use portreeve_client::{Ask, Client};

use super::{Custody, requests};

/// How often everybody else has a turn before anything is given back. A request that was read just before the end
/// needs about six to come from the pipe to the credential that it borrows.
const TURNS: usize = 32;

/// Gives back everything that no call uses, within `bound`, and says whether that was long enough.
/// Needs a connection of its own.
pub(crate) async fn give_back(custody: &Custody, client: &Client, bound: Duration) -> bool {
    let all = async {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let idle = custody.vault().idle();
        for due in idle {
            let Ok(call) = requests::give_back(&due) else { continue };
            // No deadline of its own: the bound is for all of it.
            match client.ask(&call, Ask::fresh()).await {
                Ok(_) => custody.vault().forget(&due.handle),
                // A daemon that isn't there takes nothing back; what it can't hear expires.
                Err(failure) => tracing::debug!(class = %failure.class, "a lease is left to expire"),
            }
        }
    };
    tokio::time::timeout(bound, all).await.is_ok()
}
