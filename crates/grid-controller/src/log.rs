//! Brings commands into the log, and what is applied out of it.
//!
//! ```text
//!   commands --> proposer (merges) --> Raft --> machine: apply, store --> replies, and the mailbox of the leader
//! ```
//!
//! Not here: Raft itself (`grid-raft`), what commands do (`grid-core`).

mod machine;
mod mailbox;
mod progress;
mod proposer;
mod size;
mod touched;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use grid_core::State;
use grid_raft::Raft;
use grid_types::JobId;

pub use machine::{ControllerMachine, Replies, ToLeader};
pub use mailbox::Mailbox;
pub use progress::Progress;
pub use proposer::Proposer;
pub use size::keep_short;
pub use touched::Touched;

/// The log as the rest of the controller uses it, and the state that it has led to.
pub struct Log {
    pub state: Arc<RwLock<State>>,
    pub proposer: Proposer,
    pub raft: Raft<Replies>,
    pub progress: Arc<Progress>,
    /// What was changed, for the mirrors of fabrics.
    pub touched: Arc<Touched>,
    /// The last Raft term in which this controller led or began to, for the machine; 0: none.
    pub leading_term: Arc<AtomicU64>,
    /// The newest id that was given to a job here.
    pub last_job: Mutex<Option<JobId>>,
}
