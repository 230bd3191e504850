//! Defines the requests and responses of plain HTTP agents (W10).
//!
//! Not here: parsing of their bodies (`grid-api` does it by hand, to name every fault at once).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Longest time that `POST /v1/leases` may wait.
pub const MAX_WAIT_MS: u64 = 60_000;
/// How long `POST /v1/leases` waits if the request does not set it.
pub const DEFAULT_WAIT_MS: u64 = 20_000;
/// Slots of an agent that does not set them: it runs one lease at a time.
pub const AGENT_SLOTS: u32 = 1;
/// Longest `instance`.
pub const MAX_INSTANCE_BYTES: usize = 64;

/// Response to `POST /v1/leases`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LeasesDoc {
    /// Leases to run now.
    pub leases: Vec<AgentLeaseDoc>,
    /// Ids of revoked leases: their processes must end.
    pub revoked: Vec<String>,
    /// Epoch of the leader that answers.
    pub leader_epoch: u64,
}

/// The right of an agent to run one attempt of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentLeaseDoc {
    /// Opaque; the same whenever the lease is offered again.
    pub lease_id: String,
    /// The job.
    pub job_id: String,
    /// Its job epoch, to be sent back with the result.
    pub job_epoch: u32,
    /// Epoch of the leader that granted the lease, to be sent back with the result.
    pub leader_epoch: u64,
    /// The step.
    pub step: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The backend to use.
    pub backend: String,
    /// The action to run.
    pub action: String,
    /// The parameters of the action, defaults included.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub params: BTreeMap<String, serde_json::Value>,
    /// How long it may run, such as `5m`.
    pub timeout: String,
    /// `pure`, `idempotent` or `once`.
    pub effect: String,
}

/// Response to `POST /v1/results`: the result is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RecordedDoc {
    /// The lease of the result.
    pub lease_id: String,
    /// The outcome as it was recorded.
    pub status: Outcome,
    /// Epoch of the leader that recorded it.
    pub leader_epoch: u64,
}
