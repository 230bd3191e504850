//! Defines what became of commands that were proposed.

use grid_core::{Rejection, Reply};

/// Commands of one source that are proposed together: with the longest outputs and errors they still fit into an entry.
pub const TOGETHER: usize = 64;

/// The fate of one command.
pub type Replied = Result<Reply, NoReply>;

/// Why a command has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReply {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Never handed to the log, or refused by it whole: it had no effect (E4).
    #[error("this controller is not the leader")]
    NotLeader,
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    OutcomeUnknown(String),
}
