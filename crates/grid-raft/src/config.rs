//! Defines the configuration of a member, and the bounds of the log.
//!
//! L1: a payload stays under [`MAX_PAYLOAD_BYTES`], so that an AppendEntries
//! request stays under 4 MiB.
//! Not here: when to take a snapshot; the controller decides that by
//! [`crate::Raft::log_bytes`] (L6).
//! The log's own settings are fields, not constants, because tests need chunks
//! of a few KiB to see one removed.

use std::path::PathBuf;
use std::time::Duration;

use crate::group::Member;

/// L1: an AppendEntries request stays below it.
pub const MAX_APPEND_BYTES: usize = 4 << 20;
/// The largest payload [`crate::Raft::propose`] takes: the 2 MiB of L1 and
/// 64 KiB for whatever the proposer wraps around them.
pub const MAX_PAYLOAD_BYTES: usize = (2 << 20) + (64 << 10);

/// What one replication request may carry; the rest of 4 MiB is framing.
pub(crate) const MAX_REQUEST_BYTES: usize = (4 << 20) - (256 << 10);

/// How a member runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Wanted of the folder; `None`: whatever it has, or a random one.
    pub raft_id: Option<u64>,
    /// What other members should know; its folder id is filled in.
    pub member: Member,
    /// Of a folder that was made before it kept one.
    pub cluster_id: Option<String>,
    /// Holds `raft.lock`, `raft.json`, `member.json`, `raft-log/`, `raft-log.mark` and
    /// `snapshots/`; may be
    /// shared with the machine's own files.
    pub data_dir: PathBuf,
    pub heartbeat_ms: u64,
    /// An election starts after a random time between the two.
    pub election_ms: (u64, u64),
    /// The log is deleted in whole files of this size.
    pub log_chunk_bytes: usize,
    /// Payloads held in memory beyond those of the last two chunks.
    pub log_cache_bytes: usize,
}

impl Config {
    /// For a member with a given id; the address is where others reach it.
    pub fn new(raft_id: u64, address: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        let member = Member { address: address.into(), ..Member::default() };
        Self { raft_id: Some(raft_id), ..Self::of_folder(member, data_dir) }
    }

    /// For the member that the folder belongs to.
    pub fn of_folder(member: Member, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            raft_id: None,
            member,
            cluster_id: None,
            data_dir: data_dir.into(),
            heartbeat_ms: 100,
            election_ms: (300, 600),
            log_chunk_bytes: 8 << 20,
            log_cache_bytes: 4 << 20,
        }
    }
}

impl Config {
    /// How long a follower stays with a leader it no longer hears, and how long
    /// a leader counts on a majority it no longer hears (E5).
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.election_ms.1)
    }
}

/// What to do about an empty data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Form a new one-member group. Changes nothing in a folder that already
    /// belongs to one.
    Bootstrap,
    /// The folder must already belong to a group.
    Existing,
    /// An empty folder whose [`LocalMember`](crate::LocalMember) a cluster has
    /// accepted: waits for its leader, and starts no election before.
    Join,
}
