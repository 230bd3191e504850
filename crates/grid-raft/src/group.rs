//! Defines the types that openraft is used with.
//!
//! Not here: their encoding on disk (`log::record`).
//! Replies are type-erased, so that the Raft core is compiled once, in this
//! crate, and not again in every crate that brings a machine.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use openraft::{CommittedLeaderId, LogId};

use crate::machine::LogPosition;

openraft::declare_raft_types!(
    pub Group:
        D            = Proposal,
        R            = Answer,
        NodeId       = u64,
        Node         = Member,
        Entry        = openraft::Entry<Group>,
        SnapshotData = tokio::fs::File,
);

pub type StorageError = openraft::StorageError<u64>;
pub type StorageIoError = openraft::StorageIOError<u64>;
pub type Membership = openraft::Membership<u64, Member>;
pub type StoredMembership = openraft::StoredMembership<u64, Member>;
pub type Metrics = openraft::RaftMetrics<u64, Member>;
pub type SnapshotMeta = openraft::SnapshotMeta<u64, Member>;

/// How the group knows a member. Part of the log and of snapshots: fields are
/// only added, with a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Member {
    /// Where other members reach it.
    pub address: String,
    /// What people call it.
    #[serde(default)]
    pub node_id: String,
    #[serde(default)]
    pub api_url: String,
    #[serde(default)]
    pub grpc_addr: String,
    /// E3: of its data folder; empty in groups made before there was one.
    #[serde(default)]
    pub folder_id: String,
    /// L2: the newest behaviour its program knows.
    #[serde(default)]
    pub feature_level: u32,
}

/// A payload on its way into the log. Cloning it copies no bytes.
#[derive(Clone)]
pub struct Proposal {
    pub payload: Bytes,
    /// Raised when the log takes the entry. openraft answers "not the leader"
    /// both before that and when a new leader cuts the entry off again; only
    /// the first is a NOT_LEADER (E4).
    appended: Arc<AtomicBool>,
}

impl Proposal {
    pub fn new(payload: Bytes) -> (Self, Appended) {
        let appended = Arc::new(AtomicBool::new(false));
        let proposal = Self { payload, appended: appended.clone() };
        (proposal, Appended(appended))
    }

    /// A payload read back from the log.
    pub fn stored(payload: Bytes) -> Self {
        Self::new(payload).0
    }

    pub fn mark_appended(&self) {
        self.appended.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proposal({} bytes)", self.payload.len())
    }
}

/// Tells a proposer whether its payload reached the log.
pub struct Appended(Arc<AtomicBool>);

impl Appended {
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A machine's reply on its way back, or nothing for Raft's own entries. The
/// mutex only makes it `Sync`, which openraft asks for; nobody shares it.
#[derive(Debug)]
pub struct Answer(Mutex<Option<Box<dyn Any + Send>>>);

impl Answer {
    pub fn new(reply: Option<Box<dyn Any + Send>>) -> Self {
        Self(Mutex::new(reply))
    }

    pub fn into_reply<R: 'static>(self) -> Option<R> {
        let reply = self.0.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        reply.downcast().ok().map(|reply| *reply)
    }
}

pub fn position_of(id: &LogId<u64>) -> LogPosition {
    LogPosition { term: id.leader_id.term, index: id.index }
}

pub fn log_id_of(position: LogPosition) -> LogId<u64> {
    // The node id is not part of a committed leader id under single-term-leader.
    LogId::new(CommittedLeaderId::new(position.term, 0), position.index)
}
