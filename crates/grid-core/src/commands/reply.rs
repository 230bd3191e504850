//! Defines the replies of commands that took effect.

use grid_types::{JobId, JobStatus, LeaderEpoch, LeaseKey, NodeOrd, SessionId};

/// What the proposer of a command gets back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The leader's term has begun.
    TermBegun {
        /// The epoch of the term.
        epoch: LeaderEpoch,
    },
    /// The job is accepted.
    Submitted {
        /// Its id; under a known idempotency key that of the first submit.
        job: JobId,
        /// Whether the key was known and nothing new was submitted.
        repeated: bool,
    },
    /// The job is cancelled.
    Cancelled {
        /// The job that was cancelled.
        job: JobId,
        /// Its status now.
        status: JobStatus,
    },
    /// The node is registered.
    Registered {
        /// Its number in this cluster.
        node: NodeOrd,
        /// The session that the registration began.
        session: SessionId,
    },
    /// The answer to a worker's report.
    Answered(Answer),
    /// W3: whether the worker may start the `once` lease it asked for.
    Begun {
        /// Whether it may.
        granted: bool,
    },
    /// W3: the lease that a worker asked to start has returned to its queue: it is to be dropped, and may be offered again.
    Withdrawn,
    /// The leases that an agent receives, and under which leader.
    HandedOut {
        /// The leader epoch under which they are handed out.
        epoch: LeaderEpoch,
        /// The leases that the agent gets.
        leases: Vec<LeaseKey>,
    },
    /// An operator's decision was taken.
    Moved {
        /// The job that it was about.
        job: JobId,
        /// Its status now.
        status: JobStatus,
    },
    /// Nothing more is to be said.
    Done,
}

/// W4: the final answers to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The report is recorded.
    Committed,
    /// The report is out of date and changes nothing.
    Superseded(Stale),
}

/// What of a result was out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// The job epoch: the job was cancelled, resumed or restored since.
    Job,
    /// The attempt: another one of the step is out.
    Attempt,
    /// The step has an outcome already.
    Settled,
}
