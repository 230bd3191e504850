//! What a member is told at start, and the bounds of the log.
//!
//! L1: a payload stays under [`MAX_PAYLOAD_BYTES`], so that an AppendEntries
//! request stays under 4 MiB.
//! Not here: when to take a snapshot; the controller decides that by
//! [`crate::Raft::log_bytes`] (L6).
//! The log's own settings are fields, not constants, because tests need chunks
//! of a few KiB to see one removed.

use std::path::PathBuf;

/// The largest payload [`crate::Raft::propose`] takes: the 2 MiB of L1 and
/// 64 KiB for whatever the proposer wraps around them.
pub const MAX_PAYLOAD_BYTES: usize = (2 << 20) + (64 << 10);

/// What one replication request may carry; the rest of 4 MiB is framing.
pub(crate) const MAX_REQUEST_BYTES: usize = (4 << 20) - (256 << 10);

/// How a member runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// This member's id in the group; never changes for a data folder.
    pub raft_id: u64,
    /// Where other members reach this one.
    pub address: String,
    /// Holds `raft.lock`, `raft.json`, `raft-log/`, `raft-log.mark` and `snapshots/`; may be
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
    pub fn new(raft_id: u64, address: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            raft_id,
            address: address.into(),
            data_dir: data_dir.into(),
            heartbeat_ms: 100,
            election_ms: (300, 600),
            log_chunk_bytes: 16 << 20,
            log_cache_bytes: 16 << 20,
        }
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
}
