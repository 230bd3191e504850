//! Records where one node of a job is in the job's current phase.
//!
//! ```text
//!   Idle → [Parked →] Queued → Leased → Idle     (nothing left for this node in this phase)
//!                       ^        |  \
//!                       |        |   '--revoked, confirmed--> Idle
//!                       |        '--unknown--> [Unresolved --resolve--> Idle, or Queued]
//!                       '-Backoff'
//! ```

use grid_types::{Attempt, JobEpoch, LeaderEpoch, Outcome, Revoked, StepIndex};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// Where one node is in the current phase of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Cell {
    /// Position in the phase's tasks.
    #[n(0)]
    pub sub: u32,
    /// The attempt that runs or comes next, from 1.
    #[n(1)]
    pub attempt: u32,
    /// A sub-step of this pipeline has failed here (J5).
    #[n(2)]
    pub broken: bool,
    /// How the attempt before this one ended.
    #[n(3)]
    pub last: Option<Outcome>,
    /// What it is waiting for or doing.
    #[n(4)]
    pub state: CellState,
    /// It has had a lease in this phase, and so a place in its window (J2).
    #[n(5)]
    #[cbor(default)]
    pub entered: bool,
    /// E2: what is leased is another step, which the node's worker had from a time after the backup. The fields above say
    /// where the node's walk goes on when that lease has ended.
    #[n(6)]
    pub ahead: Option<Ahead>,
    /// A task of this pipeline may have changed something here (`condition: on_changed`). What is not known counts as a
    /// change unless the action is pure: a restart too many is better than a missed one.
    #[n(7)]
    #[cbor(default)]
    pub changed: bool,
}

/// A lease of a step that the job has not reached, because its barrier is still open elsewhere (E2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Ahead {
    /// The step that runs.
    #[n(0)]
    pub step: StepIndex,
    /// The attempt that runs.
    #[n(1)]
    pub attempt: Attempt,
    /// The node still has something to do in the current phase.
    #[n(2)]
    pub is_open: bool,
}

/// What a node waits for or does in the current phase.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub enum CellState {
    /// It has nothing to do in the phase, any more or yet.
    #[default]
    #[n(0)]
    Idle,
    /// It waits for a slot of its node.
    #[n(1)]
    Queued,
    /// It waits before the next attempt.
    #[n(2)]
    Backoff {
        /// Until then, in leader time.
        #[n(0)]
        until_ms: u64,
    },
    /// A lease is out.
    #[n(3)]
    Leased {
        /// The job epoch of the lease.
        #[n(0)]
        epoch: JobEpoch,
        /// When it was offered, by the leader's wall clock.
        #[n(1)]
        since_wall_ms: u64,
        /// Why it was taken back; none while it may run.
        #[n(2)]
        revoked: Option<Revoked>,
        /// W10: the leader under which an agent was last given it in an answer.
        #[n(3)]
        handed: Option<LeaderEpoch>,
        /// W3: the nonce of the worker process that was granted to start it.
        #[n(4)]
        begun: Option<ByteVec>,
    },
    /// Has no place in the phase's window yet.
    #[n(4)]
    Parked,
    /// Its outcome is unknown, and an operator has to resolve it.
    #[n(5)]
    Unresolved,
}

impl Cell {
    /// Whether its node has something to do in the current phase.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.ahead.map_or(self.state != CellState::Idle, |ahead| ahead.is_open)
    }

    /// Of what it has leased, or wants next.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        self.ahead.map_or(Attempt(self.attempt), |ahead| ahead.attempt)
    }
}
