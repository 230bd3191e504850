//! Errors of opening, proposing and running.
//!
//! E4: [`ProposeError::NotLeader`], [`ProposeError::TooLarge`] and
//! [`ProposeError::Stopped`] promise that the payload never reached the log;
//! [`ProposeError::OutcomeUnknown`] promises nothing.
//! Not here: openraft's error types, which stay inside this crate; their text
//! is all a caller can use.

use std::path::{Path, PathBuf};

use crate::config::MAX_PAYLOAD_BYTES;
use crate::leadership::LeaderInfo;
use crate::machine::{LogPosition, MachineError};

/// Why a member could not start. Nothing in the folder was overwritten; at most
/// a record that a crash left incomplete was cut off the end of the log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{}: in use by another process; stop it first, or start with another data folder", .folder.display())]
    Locked { folder: PathBuf },

    #[error("{}: holds no raft group yet; start once with --bootstrap, or join an existing group", .folder.display())]
    NotInitialised { folder: PathBuf },

    #[error("{}: was written by a newer grid (format {found}, this one knows {known}), and was left as it is; start that grid on this folder", .folder.display())]
    Newer { folder: PathBuf, found: u32, known: u32 },

    #[error("{}: holds data already, and was left as it is; restore into an empty folder", .folder.display())]
    NotEmpty { folder: PathBuf },

    #[error("{}: belongs to member {found}, not to member {wanted}; start with the id it was made for, or with an empty data folder", .folder.display())]
    OtherMember { folder: PathBuf, found: u64, wanted: u64 },

    #[error("{}: {reason}; nothing was overwritten: restore a backup into an empty folder, or move this one away and join the group again", .folder.display())]
    Damaged { folder: PathBuf, reason: String },

    #[error("{}: the snapshot is damaged ({reason}); take another one, or a backup", .path.display())]
    SnapshotDamaged { path: PathBuf, reason: String },

    #[error("{}: the state is at {machine} and the raft log is not ({reason}); log and state are not from the same member: put back the files that belong together", .folder.display())]
    Mismatch { folder: PathBuf, machine: LogPosition, reason: String },

    /// Nothing was changed.
    #[error("{}: entry {position} of the log: {reason}", .folder.display())]
    Unreadable { folder: PathBuf, position: LogPosition, reason: String },

    #[error("{}: {action}", .path.display())]
    Io { path: PathBuf, action: &'static str, source: std::io::Error },

    #[error("{}: member {raft_id} was removed from its group; to join again, start with an empty data folder and --join", .folder.display())]
    Removed { folder: PathBuf, raft_id: u64 },

    #[error("raft settings: {0}; correct the configuration")]
    Settings(String),

    #[error("state machine failed while starting")]
    Machine(#[source] MachineError),

    #[error("raft ended while starting: {0}")]
    Stopped(String),
}

impl OpenError {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, action, source }
    }

    pub(crate) fn damaged(folder: &Path, reason: impl std::fmt::Display) -> Self {
        Self::Damaged { folder: folder.to_path_buf(), reason: reason.to_string() }
    }
}

/// Why a payload has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Never handed to the log (E4).
    #[error("not the leader{}", .leader.as_ref().map(|l| format!("; member {} at {} is", l.raft_id, l.member.address)).unwrap_or_default())]
    NotLeader { leader: Option<Box<LeaderInfo>> },

    /// Never handed to the log.
    #[error("payload of {len} bytes is over the limit of {MAX_PAYLOAD_BYTES}; split it")]
    TooLarge { len: usize },

    /// In the log, but its fate is not known here.
    #[error("outcome unknown: {reason}; look up whether it took effect before trying again")]
    OutcomeUnknown { reason: String },

    /// Never handed to the log: this member has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// This member runs no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("raft has stopped: {reason}")]
pub struct Stopped {
    pub reason: String,
}

/// Why membership did not change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("not the leader")]
    NotLeader,

    /// Nothing was changed.
    #[error("{0}")]
    Refused(String),

    /// Nothing was changed: it could not be finished.
    #[error("no majority of the voters can be reached; bring them back first")]
    NoMajority,

    /// Nothing was changed.
    #[error("member {0} is not known")]
    Unknown(u64),

    #[error("{0}; look at the membership before trying again")]
    OutcomeUnknown(String),
}

/// Why a read cannot be promised to be current.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no leader with a majority confirmed the read: {0}")]
pub struct ReadError(pub String);

/// Why leadership stays here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandOverError {
    #[error("not the leader")]
    NotLeader,
    #[error("{0}")]
    Refused(String),
}

/// Why other members are not answered any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the port for other controllers is not served any more: {0}")]
pub struct PeerPortError(pub String);
