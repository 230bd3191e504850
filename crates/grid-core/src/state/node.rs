//! Holds what the state machine knows about a node.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::node::{NodeFacts, NodeStatus};
use grid_types::{JobId, LeaderEpoch, NodeId, NodeOrd, SessionId};
use minicbor::{Decode, Encode};

use super::{Past, SecretHash};

/// A node as the cluster knows it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Node {
    /// Its number, which stays the same for as long as the node is known.
    #[n(0)]
    pub ord: NodeOrd,
    /// Its own name.
    #[n(1)]
    pub id: NodeId,
    /// Boxed: a leaf of the map of nodes has room for eleven of them, and is half empty when nodes register one after another.
    #[n(2)]
    pub facts: Box<NodeFacts>,
    /// Whether it counts as reachable.
    #[n(3)]
    pub status: NodeStatus,
    /// Its current session.
    #[n(4)]
    pub session: SessionId,
    /// The random id of its journal (W1).
    #[n(5)]
    #[cbor(with = "minicbor::bytes")]
    pub journal_id: Vec<u8>,
    /// How often a process was started on its data folder.
    #[n(6)]
    pub boot: u64,
    /// Random, of the process that registered last.
    #[n(7)]
    #[cbor(with = "minicbor::bytes")]
    pub nonce: Vec<u8>,
    /// When it first registered.
    #[n(8)]
    pub registered_wall_ms: u64,
    /// When its status last changed, for display.
    #[n(9)]
    pub changed_wall_ms: u64,
    /// That wrote it last.
    #[n(10)]
    pub leader_epoch: LeaderEpoch,
    /// An operator has drained the node, until it is undrained: a restart of the worker does not change it.
    #[n(11)]
    #[cbor(default)]
    pub drained: bool,
    /// A plain HTTP agent: it keeps no journal, so what it was handed is written down here (W10).
    #[n(12)]
    #[cbor(default)]
    pub agent: bool,
    /// Leader time of the last change of its status (W6).
    #[n(13)]
    #[cbor(default)]
    pub changed_ms: u64,
    /// Removed because the agent had not asked for a day: unlike one that an operator removed, it may simply come back.
    #[n(14)]
    #[cbor(default)]
    pub lapsed: bool,
    /// The generation in which it first registered, as far as a restore is concerned (E2).
    #[n(15)]
    #[cbor(default)]
    pub met: u32,
    /// The generation in which its journal was last asked about restored jobs.
    #[n(16)]
    #[cbor(default)]
    pub asked: u32,
    /// The process that registers in this generation is the one that the backup knows, with the same journal. Nothing can
    /// have been lost or put back in between.
    #[n(17)]
    #[cbor(default)]
    pub is_continuous: bool,
    /// What its journal said about jobs that a restore brought back.
    #[n(18)]
    #[cbor(default)]
    pub past: BTreeMap<JobId, Past>,
    /// Of the session's secret, which only the worker knows. None: an agent, or a registration of an earlier version.
    #[n(19)]
    #[cbor(default)]
    pub secret: Option<SecretHash>,
    /// Derived: jobs that have a lease out here. At most one lease of a job at once (W7).
    #[cbor(skip)]
    pub leased_jobs: BTreeSet<JobId>,
    /// Derived: jobs that want one as soon as a slot is free.
    #[cbor(skip)]
    pub waiting: BTreeSet<JobId>,
}

impl Node {
    /// What its facts take of the bytes that all nodes share; nothing after its removal.
    pub(crate) fn extra_facts_bytes(&self) -> usize {
        if self.status == NodeStatus::Removed { 0 } else { self.facts.extra_bytes() }
    }

    /// Whether it may get another lease (W7).
    #[must_use]
    pub fn has_free_slot(&self) -> bool {
        self.leased_jobs.len() < usize::try_from(self.facts.capacity.slots).unwrap_or(usize::MAX)
    }

    /// Whether it declares the action.
    #[must_use]
    pub fn runs(&self, backend: &str, action: &str) -> bool {
        self.facts.backends.get(backend).is_some_and(|actions| actions.contains(action))
    }
}
