//! Holds the live state: everything that can still change, in memory, in ordered maps.
//!
//! Stored are `Meta`, nodes, jobs with their cells, stubs and idempotency keys ([`Parts`]); the rest (who waits, who
//! holds, timers, counts of open cells) follows from them and is rebuilt by [`State::from_parts`], so that it cannot
//! disagree with them after a restart.
//! Not here: finished jobs, results, outputs, events — rows in SQLite only. Heartbeats — soft state of the leader.

mod bits;
mod cell;
mod hash;
mod head;
mod job;
mod node;
mod parts;
mod past;
mod request_hash;
mod scope;
mod secret_hash;

use std::collections::{BTreeMap, BTreeSet};

use grid_types::limits::{KEY_TTL_MS, MAX_CONCURRENT, MAX_NODES, MAX_PENDING, MAX_WAITING};
use grid_types::{JobEpoch, JobId, JobStatus, LeaderEpoch, Name, NodeId, NodeOrd};
use minicbor::{Decode, Encode};

pub use bits::Bits;
pub use cell::{Ahead, Cell, CellState};
pub use grid_types::Revoked;
pub use head::{FirstNodes, JobHead, Restored, Tally, Trip};
pub use job::Job;
pub use node::Node;
pub use parts::{JobParts, KeyRow, Parts};
pub use past::{Past, Ran, RanEnd, RanState};
pub use request_hash::RequestHash;
pub use scope::Scope;
pub use secret_hash::{SECRET_BYTES, SecretHash};

/// A namespace and a key in it.
pub type IdempotencyKey = (Name, String);

/// The replicated state: a function of the entries that were applied, and of nothing else (L2).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Leadership, clocks, limits.
    pub meta: Meta,
    /// Every node that ever registered and was not reclaimed, by its number.
    pub nodes: BTreeMap<NodeOrd, Node>,
    /// Jobs that have not left for history, by their id.
    pub jobs: BTreeMap<JobId, Job>,
    /// L8: what is left of finished jobs.
    pub stubs: BTreeMap<JobId, Stub>,
    /// Idempotency keys of the last 24 h (L8).
    pub keys: BTreeMap<IdempotencyKey, KeyRow>,
    // Derived from the above:
    pub(crate) node_ids: BTreeMap<NodeId, NodeOrd>,
    pub(crate) pending: BTreeSet<JobId>,
    pub(crate) running: BTreeSet<JobId>,
    pub(crate) timers: BTreeSet<(u64, Timer)>,
    pub(crate) keys_by_age: BTreeSet<(u64, IdempotencyKey)>,
    /// Nodes that were removed and stay for their names.
    pub(crate) removed_nodes: usize,
    /// What the facts of the other nodes take above their shares.
    pub(crate) extra_facts_bytes: usize,
}

/// The small facts, stored as one row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Meta {
    /// Random, of the first term (E3).
    #[n(0)]
    pub cluster_id: String,
    /// Who leads, and since which term.
    #[n(1)]
    pub leadership: Leadership,
    /// The limits of admission.
    #[n(2)]
    pub quotas: Quotas,
    /// Leader time: monotonic across terms (W6).
    #[n(3)]
    pub now_ms: u64,
    /// The leader's wall clock in the last entry, for display.
    #[n(4)]
    pub wall_ms: u64,
    /// The number of the next session.
    #[n(5)]
    pub next_session: u64,
    /// The number of the next node.
    #[n(6)]
    pub next_ord: u32,
    /// L7: rolls over every history row.
    #[n(7)]
    #[cbor(with = "minicbor::bytes")]
    pub history_hash: [u8; 32],
    /// L2: what every member knows; see `RaiseFeatureLevel`.
    #[n(8)]
    #[cbor(default)]
    pub feature_level: u32,
    /// E2: ids of new jobs begin with at least this time, which lies beyond every id that was granted before a restore.
    #[n(9)]
    #[cbor(default)]
    pub job_ids_from_ms: u64,
    /// E2: a higher generation of this cluster was shown; writes are refused.
    #[n(10)]
    pub superseded: Option<Superseded>,
    /// E2: the highest generation whose supersession an operator has lifted; up to it none is recorded again.
    #[n(11)]
    #[cbor(default)]
    pub lifted_generation: u32,
    /// Controllers whose snapshots fail, as far as it was recorded.
    #[n(12)]
    #[cbor(default)]
    pub failing_snapshots: BTreeSet<Name>,
    /// E2: with `lifted_generation`: restores whose epochs begin up to this are not recorded again either.
    #[n(13)]
    pub lifted_n: Option<u32>,
}

impl Meta {
    /// E2: the highest generation of this cluster that is known here, whether it is this one's or another's.
    #[must_use]
    pub fn newest_generation(&self) -> u32 {
        let shown = self.superseded.as_ref().map_or(0, |superseded| superseded.generation);
        self.leadership.epoch.generation.max(shown).max(self.lifted_generation)
    }

    /// E2: whether an epoch that a worker or a controller of this cluster shows is of a later restore, and is to be recorded.
    ///
    /// Two restores of one backup have the same generation, and the epochs of the later one begin higher. No other leader of
    /// this cluster explains a higher epoch: where this is asked in `apply`, its term would have ended this one.
    #[must_use]
    pub fn is_superseded_by(&self, shown: LeaderEpoch) -> bool {
        let recorded = self.superseded.as_ref().map(|superseded| superseded.generation);
        let is_new = recorded.is_none_or(|recorded| shown.generation > recorded);
        self.is_elsewhere(shown) && is_new && !self.is_lifted(shown)
    }

    /// E2: whether the epoch is of a restore that is later than what this cluster comes from.
    #[must_use]
    pub fn is_elsewhere(&self, shown: LeaderEpoch) -> bool {
        // Without a restore there is one line of epochs only.
        shown.generation > 0 && shown > self.leadership.epoch
    }

    /// E2: whether an operator has decided to keep this cluster beside the restore that the epoch is of.
    #[must_use]
    pub fn is_lifted(&self, shown: LeaderEpoch) -> bool {
        let lifted = LeaderEpoch { generation: self.lifted_generation, n: self.lifted_n.unwrap_or(u32::MAX) };
        self.lifted_generation > 0 && shown <= lifted
    }
}

/// Who showed which generation, and when.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Superseded {
    /// Of that restore.
    #[n(0)]
    pub generation: u32,
    /// The worker or controller that showed it.
    #[n(1)]
    pub by: String,
    /// When it was recorded.
    #[n(2)]
    pub wall_ms: u64,
    /// Of the epoch that was shown.
    #[n(3)]
    pub n: Option<u32>,
}

/// The current leader and the epoch that fences its entries (E1).
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Leadership {
    /// The current leader epoch.
    #[n(0)]
    pub epoch: LeaderEpoch,
    /// The Raft term of the last `BeginTerm`.
    #[n(1)]
    pub term: u64,
    /// The controller that leads.
    #[n(2)]
    pub leader: Option<Name>,
    /// Where its API is reached.
    #[n(3)]
    pub api_url: String,
    /// Where workers reach it.
    #[n(4)]
    pub grpc_addr: String,
}

/// Admission, cluster-wide; set by the leader's configuration at the start of its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Quotas {
    /// How many jobs may run at once.
    #[n(0)]
    pub max_concurrent: u32,
    /// How many jobs may wait to start.
    #[n(1)]
    pub max_pending: u32,
    /// Bounds the jobs that J3 takes out of `max_concurrent`. 0 only in entries of feature level 1.
    #[n(2)]
    #[cbor(default)]
    pub max_waiting: u32,
    /// None only in entries of earlier versions.
    #[n(3)]
    pub max_nodes: Option<u32>,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            max_concurrent: MAX_CONCURRENT,
            max_pending: MAX_PENDING,
            max_waiting: MAX_WAITING,
            max_nodes: Some(MAX_NODES),
        }
    }
}

/// What is left of an ended job in memory (L8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Stub {
    /// The epoch in which it ended.
    #[n(0)]
    pub epoch: JobEpoch,
    /// How it ended.
    #[n(1)]
    pub status: JobStatus,
    /// Leader time: history is kept for so many days, whatever a wall clock says (W6).
    #[n(2)]
    pub ended_ms: u64,
}

/// What is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    JobDeadline(JobId),
    Retry(JobId, NodeOrd),
}

impl State {
    /// When the next timer is due, in leader time.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let key = self.keys_by_age.first().map(|(at, _)| at + KEY_TTL_MS);
        timer.into_iter().chain(key).min()
    }

    /// The node with this name.
    #[must_use]
    pub fn node_by_id(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(self.node_ids.get(id)?)
    }

    /// Nodes that were not removed.
    #[must_use]
    pub fn live_nodes(&self) -> usize {
        self.nodes.len().saturating_sub(self.removed_nodes)
    }

    /// How many jobs have a place in admission (J3).
    #[must_use]
    pub fn running_jobs(&self) -> usize {
        self.running.len()
    }

    /// How many jobs wait to start.
    #[must_use]
    pub fn pending_jobs(&self) -> usize {
        self.pending.len()
    }

    /// Whether a live job has the node among its expected ones.
    #[must_use]
    pub fn is_expected(&self, node: NodeOrd) -> bool {
        self.jobs.values().any(|job| job.position(node).is_some())
    }

    /// Unfinished jobs that hold no place in admission: they wait for an operator, or for offline nodes (J3).
    #[must_use]
    pub fn waiting_jobs(&self) -> usize {
        let waits = |job: &&Job| {
            let id = &job.head.id;
            !job.head.status.is_ended() && !self.pending.contains(id) && !self.running.contains(id)
        };
        self.jobs.values().filter(waits).count()
    }
}
