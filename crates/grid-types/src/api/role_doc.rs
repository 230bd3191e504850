//! Defines the documents of the controller that answers: its role and its status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cluster_doc::SupersededDoc;

/// The role of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Role {
    /// Accepts writes and dispatches.
    Leader,
    /// Serves reads and answers writes with NOT_LEADER.
    Standby,
    /// Is handing leadership over (E7).
    Draining,
}

impl Role {
    /// The name in documents and headers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Leader => "LEADER",
            Self::Standby => "STANDBY",
            Self::Draining => "DRAINING",
        }
    }
}

/// `GET /role`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RoleDoc {
    /// The controller that answers.
    pub node_id: String,
    /// Its role.
    pub role: Role,
    /// The leader epoch that it knows; null if it has none yet.
    pub leader_epoch: Option<u64>,
    /// The leader, if it is known.
    pub leader_id: Option<String>,
    /// API address of the leader, if it is known.
    pub leader_url: Option<String>,
    /// Address of the leader's fabric, for workers of this cluster.
    #[serde(default)]
    pub leader_grpc: Option<String>,
    /// API addresses of every controller, so that a client that knows one learns the others.
    #[serde(default)]
    pub controllers: Vec<String>,
}

/// `GET /status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StatusDoc {
    /// The id of the cluster: the same on every controller, and in a cluster restored from its backup.
    pub cluster_id: String,
    /// Version of the program that answers.
    pub version: String,
    /// The controller that answers, and the leader.
    #[serde(flatten)]
    pub role: RoleDoc,
    /// Number of nodes by status.
    pub nodes: BTreeMap<String, u64>,
    /// Number of jobs by status.
    pub jobs: BTreeMap<String, u64>,
    /// Log index of the state that the answer was read from.
    pub applied_index: u64,
    /// L7, of the stored state at `applied_index`; only if the request asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_hash: Option<String>,
    /// Why this controller's snapshots fail now; they are repeated, and the log grows meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_problem: Option<String>,
    /// Why the data folder of the worker on this machine is refused; as leader this controller would not dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_problem: Option<String>,
    /// Set if the cluster was restored elsewhere: it refuses writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded: Option<SupersededDoc>,
    /// What this controller refused since it started: by port (`api`, `raft`, `grpc`), then by kind. Kinds without a refusal
    /// are left out.
    #[serde(default)]
    pub refused: BTreeMap<String, BTreeMap<String, u64>>,
}
