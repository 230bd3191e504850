//! Defines the reasons for which a command is rejected.
//!
//! A rejection is part of what `apply` returns, but never stored, so its text may change between versions.

use grid_types::limits::FACTS_SHARE_BYTES;
use grid_types::node::NodeStatus;
use grid_types::{JobId, JobStatus, LeaderEpoch, NodeOrd, SessionId};

use crate::state::RequestHash;

/// Why a command changes nothing. A value that every replica computes, not an error (L2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The proposer is not the leader any more (E1).
    #[error("the leader that proposed this is not the leader any more (epoch is {epoch})")]
    StaleLeader {
        /// The current leader epoch.
        epoch: LeaderEpoch,
    },
    /// E9: of the request, not of the leader.
    #[error("the request is for leader epoch {given}, and the current one is {}; read /role and ask again", .epoch.wire())]
    StaleRequest {
        /// The leader epoch that the request names.
        given: u64,
        /// The current leader epoch.
        epoch: LeaderEpoch,
    },
    /// A later restore of this cluster was shown (E2).
    #[error(
        "writes are refused: this cluster was restored elsewhere as generation {generation}, shown by {by}; use that cluster. To \
         keep this one, stop the other and restore a backup of this one; if it was a mistake, run `gridc cluster lift` after \
         --reset-journal on its workers"
    )]
    Superseded {
        /// The generation of that restore.
        generation: u32,
        /// The worker or controller that showed it.
        by: String,
    },
    /// There is no supersession to lift.
    #[error("this cluster is not superseded; there is nothing to lift")]
    NotSuperseded,
    /// The job does not exist in the namespace.
    #[error("{0} is not known")]
    NoJob(JobId),
    /// The job has ended, and the command needs one that has not.
    #[error("{job} has already ended: {status}")]
    Ended {
        /// The job that the command names.
        job: JobId,
        /// How it ended.
        status: JobStatus,
    },
    /// `max_pending` jobs are waiting to start.
    #[error("{pending} jobs are waiting, and at most {limit} may; try again when some have ended")]
    QueueFull {
        /// How many are waiting.
        pending: u32,
        /// How many may wait.
        limit: u32,
    },
    /// `max_waiting` jobs wait for an operator or for nodes (J3).
    #[error(
        "{waiting} jobs are waiting for an operator or for offline nodes, the limit is {limit} (--max-waiting); confirm, \
         resolve or cancel some of them first"
    )]
    TooManyWaiting {
        /// How many wait.
        waiting: u32,
        /// How many may wait.
        limit: u32,
    },
    /// The current state of the job does not allow the command; the text says why.
    #[error("{0}")]
    NotWaiting(String),
    /// The job of the idempotency key was removed with old history.
    #[error(
        "this key gave {0}, which has ended and was removed with the rest of old history; to run the job again, send it \
         under a new key"
    )]
    Forgotten(JobId),
    /// J12.
    #[error(
        "this key gave {job} for another request: its hash is {first}, that of this request {second}; send another job under \
         a new key"
    )]
    KeyConflict {
        /// The job that the key stands for.
        job: JobId,
        /// The hash of the request that the key was first used with.
        first: RequestHash,
        /// The hash of this request.
        second: RequestHash,
    },
    /// L8.
    #[error("{limit} idempotency keys are remembered, for 24 h each; submit without a key, or try again later")]
    TooManyKeys {
        /// How many keys are kept.
        limit: usize,
    },
    /// The proposed id is in use; the leader proposes another one.
    #[error("{0} exists already; submit again")]
    IdTaken(JobId),
    /// The plan that the submit names is out of date.
    #[error("the plan does not hold any more: the job, its nodes or a declaration has changed; plan it again")]
    PlanChanged,
    /// The target matches no node that is known (J6).
    #[error("{0}")]
    NoTarget(String),
    /// The job has more steps or rows than a job may have (L4).
    #[error("{0}")]
    TooLarge(String),
    /// No node has this number.
    #[error("node number {0} is not known")]
    NoNode(NodeOrd),
    /// The report is of an earlier session of the node (I3).
    #[error("the session has ended; the node's current session is {current}")]
    StaleSession {
        /// The node's session now.
        current: SessionId,
    },
    /// The node's status is not the one that the command names (V3).
    #[error("the node is {status}, not what was expected")]
    StatusMoved {
        /// The node's status now.
        status: NodeStatus,
    },
    /// The known session of the node lives: two machines use one id (W1).
    #[error("{0}")]
    DuplicateNode(String),
    /// All places for agents are taken.
    #[error(
        "{limit} agents are registered, the most at once; agents that have not asked for a day and that no job names are \
         removed automatically, others with `gridc node remove`"
    )]
    TooManyAgents {
        /// How many agents may be registered.
        limit: u32,
    },
    /// All places for nodes are taken.
    #[error(
        "{limit} nodes are registered, the most at once; remove nodes that are gone with `gridc node remove`, or raise --max-nodes on \
         every controller"
    )]
    TooManyNodes {
        /// How many nodes may be registered.
        limit: u32,
    },
    /// The facts of all nodes together are too large.
    #[error(
        "what the nodes say of themselves takes too many bytes in sum; give this node fewer or shorter labels and groups, at most \
         {FACTS_SHARE_BYTES} bytes in all, or remove nodes that are gone with `gridc node remove`"
    )]
    TooManyFacts,
    /// An operator asked something of a node that its state forbids.
    #[error("{0}")]
    NodeStands(String),
}
