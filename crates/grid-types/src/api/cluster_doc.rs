//! Documents about the controllers: membership, replication, joining.

use serde::{Deserialize, Serialize};

use super::Role;

/// One controller, in `GET /controllers` and `GET /api/v1/cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ControllerDoc {
    /// The name of the controller.
    pub id: String,
    /// Null if it does not answer.
    pub role: Option<Role>,
    /// Whether its vote counts for a majority.
    pub voter: bool,
    /// The leader epoch that it knows; null if it does not answer.
    pub leader_epoch: Option<u64>,
    /// Version of its program; null if it does not answer.
    pub version: Option<String>,
    /// The highest feature level that its program supports.
    #[serde(default)]
    pub feature_level: u32,
    /// Its API address.
    pub api_url: String,
    /// Its address for workers; empty where they come over NATS only.
    pub grpc_addr: String,
    /// Its address for other controllers.
    pub raft_addr: String,
    /// Its id in the membership, random and never reused.
    pub raft_id: u64,
    /// Index of the last entry in its log.
    pub last_index: Option<u64>,
    /// Index of the last entry that it applied.
    pub applied_index: Option<u64>,
    /// Entries of the longest known log that it has not applied.
    pub lag: Option<u64>,
    /// Time since it last answered the controller that was asked; null if it never did.
    pub last_contact_ms: Option<u64>,
}

/// `GET /api/v1/cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClusterDoc {
    /// The id of the cluster.
    pub cluster_id: String,
    /// The leader, if it is known.
    pub leader_id: Option<String>,
    /// The leader epoch that the answering controller knows.
    pub leader_epoch: Option<u64>,
    /// How many members vote.
    pub voters: u32,
    /// Number of voters that form a majority.
    pub majority: u32,
    /// The feature level of the cluster: it rises when every member supports the next one.
    #[serde(default)]
    pub feature_level: u32,
    /// Set if the cluster was restored elsewhere: it refuses writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded: Option<SupersededDoc>,
    /// Voters and learners, by name.
    pub members: Vec<ControllerDoc>,
}

/// A higher generation of the cluster was seen: a backup was restored elsewhere, and workers follow that cluster (E2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SupersededDoc {
    /// The higher generation.
    pub generation: u32,
    /// The worker or controller that reported it.
    pub by: String,
    /// When it was first seen.
    pub at: String,
}

/// Maximum length of each address and id in a [`JoinBody`].
pub const MAX_MEMBER_TEXT_BYTES: usize = 512;

/// `POST /api/v1/cluster/members`: a controller asks to join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JoinBody {
    /// The name of the new controller.
    pub node_id: String,
    /// Its id in the membership, which it chose at random.
    pub raft_id: u64,
    /// The random id of its data folder (E3).
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 512))]
    pub folder_id: String,
    /// Its address for other controllers.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 512))]
    pub raft_addr: String,
    /// Its API address.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 512))]
    pub api_url: String,
    /// Its address for workers; empty where they come over NATS only.
    #[cfg_attr(feature = "schema", schema(max_length = 512))]
    pub grpc_addr: String,
    /// The highest feature level that its program supports.
    #[cfg_attr(feature = "schema", schema(required = false))]
    pub feature_level: u32,
    /// Join in place of a member of this name whose data is lost (E3).
    #[cfg_attr(feature = "schema", schema(required = false))]
    pub replace: bool,
}

/// Response to a join: accepted as a learner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JoinedDoc {
    /// The cluster that it has joined.
    pub cluster_id: String,
}

/// `POST /api/v1/cluster/step-down`; the body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StepDownBody {
    /// The controller to hand over to; otherwise the first one that has the whole log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}
