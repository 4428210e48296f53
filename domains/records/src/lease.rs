//! Leases: a port held for somebody for a short while, until a server on it is confirmed.

use crate::{Id, PortNumber};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a lease is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeaseState {
    /// The port is held; no server is confirmed.
    Pending,
    /// A server was confirmed.
    Confirmed,
    /// It was given up.
    Abandoned,
    /// Its time ran out.
    Expired,
}

impl LeaseState {
    /// The state as it is stored and sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            LeaseState::Pending => "pending",
            LeaseState::Confirmed => "confirmed",
            LeaseState::Abandoned => "abandoned",
            LeaseState::Expired => "expired",
        }
    }
}

/// A lease as others see it: without its token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    /// Its id.
    pub id: Id,
    /// The claim it is for.
    pub claim_id: Id,
    /// The port it holds.
    pub port: PortNumber,
    /// Where it is in its life.
    pub state: LeaseState,
    /// Until when it holds the port, UTC.
    pub expires_at: String,
}

/// Why a lease is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum AbandonReason {
    /// The server could not bind the port: another one is given next time.
    AddressInUse,
    /// The server did not start.
    StartupError,
    /// It isn't wanted any more.
    ClientCancelled,
}

impl AbandonReason {
    /// The reason as it is stored and sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            AbandonReason::AddressInUse => "address-in-use",
            AbandonReason::StartupError => "startup-error",
            AbandonReason::ClientCancelled => "client-cancelled",
        }
    }
}
