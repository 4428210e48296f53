//! Keeps what is held alive, on a connection of its own, until its window ends.
//!
//! Sleeps while nothing is held. A daemon that is away is asked again every second; nobody is told but the record,
//! once for each credential that is lost by it.

use std::sync::Arc;
use std::time::Duration;

use portreeve_client::Ask;
use portreeve_registry::{Failure, FailureClass};

use super::entry::Due;
use super::lease_time::LeaseTimes;
use super::requests;
use crate::clock;
use crate::house::Bridge;

/// How long one renewal may take: short, so that one that hangs doesn't cost the others their leases.
const DEADLINE: Duration = Duration::from_secs(2);

/// What the record calls it.
const RENEWAL: &str = "custody renewal";

/// Renews for ever.
pub(crate) async fn run(bridge: Arc<Bridge>) {
    let custody = &bridge.custody;
    loop {
        let taken = custody.0.taken.notified();
        let now = clock::boot_ms();
        let next = custody.vault().next_look(now);
        match next {
            None => taken.await,
            Some(at) => {
                let pause = Duration::from_millis(u64::try_from(at - now).unwrap_or_default());
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = taken => continue,
                }
            }
        }
        let due = custody.vault().due(clock::boot_ms());
        for due in due {
            renew(&bridge, &due).await;
        }
    }
}

async fn renew(bridge: &Bridge, due: &Due) {
    let ask = Ask { deadline: Some(DEADLINE), ..Ask::fresh() };
    let request_id = ask.request_id;
    let renewed = match (requests::renew(due), bridge.daemon.custody()) {
        (Ok(call), Ok(client)) => client.ask(&call, ask).await,
        (Err(failure), _) | (_, Err(failure)) => Err(failure),
    };
    let now = clock::boot_ms();
    match renewed {
        Ok(reply) => {
            let lease_ms = LeaseTimes::of(&reply).remaining(&due.subject);
            bridge.custody.vault().renewed(&due.handle, lease_ms, now);
        }
        Err(cause) => {
            let lost = bridge.custody.vault().renewal_failed(&due.handle, &cause, now);
            if lost {
                let text = format!("a lease in custody is gone: {}", cause.message);
                let failure = Failure::new(FailureClass::CustodyRenewalFailed, text)
                    .detail("cause", cause.class.as_str());
                bridge.record.failed(request_id, RENEWAL, &failure);
            }
        }
    }
}
