//! Defines the documents of nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::node::Capacity;

/// A node. In alias lists `status` is `online` or `offline`; `state` is always exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeDoc {
    /// The name of the node.
    pub id: String,
    /// Host name of the machine.
    pub hostname: String,
    /// Address of the machine, as its worker reports it.
    pub address: String,
    /// Groups of the node.
    pub groups: Vec<String>,
    /// Labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Backends that it runs, each with its actions.
    pub backends: BTreeMap<String, Vec<String>>,
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Capacity of the machine, and how many leases it runs at once.
    pub capacity: Capacity,
    /// Version of its worker.
    pub version: String,
    /// Facts about the machine that its worker reported, such as `os.id`; left out of lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// The state; `online` or `offline` in alias lists.
    pub status: String,
    /// The state: `ready`, `warning`, `unhealthy`, `dead`, `draining`, `left`.
    pub state: String,
    /// Number of the node, never reused.
    pub ordinal: u32,
    /// Number of its newest session.
    pub session: u64,
    /// An operator drained the node: it gets no new leases.
    #[serde(default)]
    pub drained: bool,
    /// A plain HTTP agent, not a worker with a session.
    #[serde(default)]
    pub agent: bool,
    /// Number of its outstanding leases.
    pub leases: u32,
    /// When its last message arrived, as the leader knows it; otherwise its last change of state.
    pub last_seen: String,
    /// When it first registered.
    pub registered_at: String,
    /// The leader epoch in which it last changed.
    pub leader_epoch: u64,
}

/// Response to a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeStateDoc {
    /// The name of the node.
    pub id: String,
    /// `removed`.
    pub status: String,
}
