//! Defines the contract between the log and what it drives.
//!
//! A [`Machine`] is applied to in log order, on a thread of its own, and keeps
//! its position durably *in the same transaction* as its data (L3, L5): that is
//! what lets a restart continue exactly behind the last applied entry.
//!
//! Not here: what an entry means (the controller), how it got committed
//! ([`crate::Raft`]). Positions carry no node id: with one leader per term,
//! `(term, index)` names an entry.
//! Machine errors are plain text: nobody can act on them but the person who
//! reads why the process ended (L2).

use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What the replicated log drives.
pub trait Machine: Send + 'static {
    /// The answer to one proposed payload.
    type Reply: Send + 'static;

    /// The position of the machine's own durable storage.
    fn position(&self) -> MachinePosition;

    /// Applies committed entries in order, durably, in one transaction, and
    /// returns one element per entry: `Some` exactly where it has a payload.
    /// The transaction also stores the position of the last entry, and the
    /// last `membership` if the batch has one. An error ends the process (L2).
    fn apply(&mut self, batch: Vec<Committed>) -> Result<Vec<Option<Self::Reply>>, MachineError>;

    /// Pins the machine's data as it is now, at [`Machine::position`], and copies nothing yet: that is done by
    /// what is returned, on another thread, while entries go on being applied.
    fn pin(&mut self) -> Result<WriteCopy, MachineError>;

    /// Replaces the machine's data by the copy in `path` and is at
    /// `position` afterwards. Must survive a crash at any moment: either the
    /// old data and position, or the new. `path` stays as it is.
    fn install_snapshot(&mut self, path: &Path, position: MachinePosition) -> Result<(), MachineError>;
}

/// Writes a consistent copy of a machine's pinned data to a new file.
pub type WriteCopy = Box<dyn FnOnce(&Path) -> Result<(), MachineError> + Send>;

/// The place of one entry in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogPosition {
    pub term: u64,
    pub index: u64,
}

impl std::fmt::Display for LogPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.term, self.index)
    }
}

/// How far a machine has applied, as it persisted it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachinePosition {
    pub applied: Option<LogPosition>,
    /// The last membership applied, in this crate's own encoding: stored and
    /// handed back untouched.
    pub membership: Option<Vec<u8>>,
}

/// One committed entry.
#[derive(Debug, Clone)]
pub struct Committed {
    pub position: LogPosition,
    /// `None` for the entries Raft itself writes.
    pub payload: Option<Bytes>,
    /// To be persisted with the position; replaces the previous one.
    pub membership: Option<Vec<u8>>,
}

/// Why the machine could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(String);

impl MachineError {
    pub fn new(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }
}
