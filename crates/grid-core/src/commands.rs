//! Commands: the changes that the log can ask for. One file each, with struct, handler and tests.
//!
//! A rejection is a replicated value, not an error: every replica refuses the same command for the same reason.
//! Field and variant numbers are never reused (see `entry`).

mod begin_lease;
mod begin_term;
mod cancel_job;
mod confirm_job;
mod confirm_revoke;
mod drain_node;
mod expire_lease;
mod fenced;
mod fire_timers;
mod hand_out;
mod leave_node;
mod mark_node;
mod order_drain;
mod prune_history;
mod raise_feature_level;
mod reclaim_nodes;
mod record_result;
mod register_node;
mod remove_node;
mod report_journal;
mod report_snapshots;
mod resolve_step;
mod resume_job;
mod submit_job;
mod supersede;

use grid_types::limits::FACTS_SHARE_BYTES;
use grid_types::node::NodeStatus;
use grid_types::{JobId, JobStatus, LeaderEpoch, LeaseKey, NodeOrd, SessionId};
use minicbor::{Decode, Encode};

pub use begin_lease::BeginLease;
pub use begin_term::{BeginTerm, RestoredFrom, first_n};
pub use cancel_job::CancelJob;
pub use confirm_job::ConfirmJob;
pub use confirm_revoke::ConfirmRevoke;
pub use drain_node::DrainNode;
pub use expire_lease::ExpireLease;
pub use fenced::Fenced;
pub use fire_timers::FireTimers;
pub use hand_out::HandOut;
pub use leave_node::LeaveNode;
pub use mark_node::MarkNode;
pub use order_drain::OrderDrain;
pub use prune_history::{MAX_PRUNED, PruneHistory};
pub use raise_feature_level::RaiseFeatureLevel;
pub use reclaim_nodes::{MAX_RECLAIMED, ReclaimNodes};
pub use record_result::RecordResult;
pub use register_node::RegisterNode;
pub use remove_node::RemoveNode;
pub use report_journal::{JournalOfJob, ReportJournal};
pub use report_snapshots::ReportSnapshots;
pub use resolve_step::{ResolveStep, Verdict};
pub use resume_job::ResumeJob;
pub use submit_job::SubmitJob;
pub use supersede::{Shown, Supersede};

use crate::state::RequestHash;
use crate::turn::Turn;

#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Command {
    #[n(0)]
    BeginTerm(#[n(0)] BeginTerm),
    #[n(1)]
    SubmitJob(#[n(0)] SubmitJob),
    #[n(2)]
    CancelJob(#[n(0)] CancelJob),
    #[n(3)]
    RegisterNode(#[n(0)] RegisterNode),
    #[n(4)]
    MarkNode(#[n(0)] MarkNode),
    #[n(5)]
    DrainNode(#[n(0)] DrainNode),
    #[n(6)]
    LeaveNode(#[n(0)] LeaveNode),
    #[n(7)]
    RecordResult(#[n(0)] RecordResult),
    #[n(8)]
    ConfirmRevoke(#[n(0)] ConfirmRevoke),
    #[n(9)]
    ExpireLease(#[n(0)] ExpireLease),
    #[n(10)]
    FireTimers(#[n(0)] FireTimers),
    #[n(11)]
    ConfirmJob(#[n(0)] ConfirmJob),
    #[n(12)]
    ResolveStep(#[n(0)] ResolveStep),
    #[n(13)]
    ResumeJob(#[n(0)] ResumeJob),
    #[n(14)]
    PruneHistory(#[n(0)] PruneHistory),
    #[n(15)]
    OrderDrain(#[n(0)] OrderDrain),
    #[n(16)]
    RemoveNode(#[n(0)] RemoveNode),
    #[n(17)]
    HandOut(#[n(0)] HandOut),
    #[n(18)]
    RaiseFeatureLevel(#[n(0)] RaiseFeatureLevel),
    #[n(19)]
    ReclaimNodes(#[n(0)] ReclaimNodes),
    #[n(20)]
    ReportJournal(#[n(0)] ReportJournal),
    #[n(21)]
    BeginLease(#[n(0)] BeginLease),
    #[n(22)]
    Fenced(#[n(0)] Fenced),
    #[n(23)]
    Supersede(#[n(0)] Supersede),
    #[n(24)]
    ReportSnapshots(#[n(0)] ReportSnapshots),
}

/// Commands are numbered from 0 without a gap.
pub const LAST_COMMAND: u32 = 24;

/// The feature level that brought a command; `None`: this program does not know it.
#[must_use]
pub fn level_of_command(number: u32) -> Option<u32> {
    match number {
        0..=17 => Some(0),
        18 => Some(1),
        _ if number <= LAST_COMMAND => Some(2),
        _ => None,
    }
}

impl Command {
    pub(crate) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        if let Some(superseded) = turn.state.meta.superseded.as_ref().filter(|_| !self.needs_no_write()) {
            return Err(Rejection::Superseded { generation: superseded.generation, by: superseded.by.clone() });
        }
        match self {
            Self::BeginTerm(command) => command.handle(turn),
            Self::SubmitJob(command) => command.handle(turn),
            Self::CancelJob(command) => command.handle(turn),
            Self::RegisterNode(command) => command.handle(turn),
            Self::MarkNode(command) => command.handle(turn),
            Self::DrainNode(command) => command.handle(turn),
            Self::LeaveNode(command) => command.handle(turn),
            Self::RecordResult(command) => command.handle(turn),
            Self::ConfirmRevoke(command) => command.handle(turn),
            Self::ExpireLease(command) => command.handle(turn),
            Self::FireTimers(command) => command.handle(turn),
            Self::ConfirmJob(command) => command.handle(turn),
            Self::ResolveStep(command) => command.handle(turn),
            Self::ResumeJob(command) => command.handle(turn),
            Self::PruneHistory(command) => command.handle(turn),
            Self::OrderDrain(command) => command.handle(turn),
            Self::RemoveNode(command) => command.handle(turn),
            Self::HandOut(command) => command.handle(turn),
            Self::Fenced(command) => command.handle(turn),
            Self::RaiseFeatureLevel(command) => command.handle(turn),
            Self::ReclaimNodes(command) => command.handle(turn),
            Self::ReportJournal(command) => command.handle(turn),
            Self::BeginLease(command) => command.handle(turn),
            Self::Supersede(command) => command.handle(turn),
            Self::ReportSnapshots(command) => command.handle(turn),
        }
    }
}

/// What whoever asked is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    TermBegun {
        epoch: LeaderEpoch,
    },
    Submitted {
        job: JobId,
        repeated: bool,
    },
    Cancelled {
        job: JobId,
        status: JobStatus,
    },
    Registered {
        node: NodeOrd,
        session: SessionId,
    },
    Answered(Answer),
    /// W3: whether the worker may start the `once` lease it asked for.
    Begun {
        granted: bool,
    },
    /// W3: the lease that a worker asked to start has returned to its queue: it is to be dropped, and may be offered again.
    Withdrawn,
    /// What an agent may be given, and under which leader.
    HandedOut {
        epoch: LeaderEpoch,
        leases: Vec<LeaseKey>,
    },
    /// A person's word was taken.
    Moved {
        job: JobId,
        status: JobStatus,
    },
    Done,
}

/// W4: the final answers to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Committed,
    Superseded(Stale),
}

/// What of a result was out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    Job,
    Attempt,
    Settled,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the leader that proposed this is not the leader any more (epoch is {epoch})")]
    StaleLeader { epoch: LeaderEpoch },
    /// E9: of the request, not of the leader.
    #[error("the request is for leader epoch {given}, and the current one is {}; read /role and ask again", .epoch.wire())]
    StaleRequest { given: u64, epoch: LeaderEpoch },
    #[error(
        "writes are refused: this cluster was restored elsewhere as generation {generation}, shown by {by}; use that cluster. To \
         keep this one, stop the other and restore a backup of this one; if it was a mistake, run `gridc cluster lift` after \
         --reset-journal on its workers"
    )]
    Superseded { generation: u32, by: String },
    #[error("this cluster is not superseded; there is nothing to lift")]
    NotSuperseded,
    #[error("{0} is not known")]
    NoJob(JobId),
    #[error("{job} has already ended: {status}")]
    Ended { job: JobId, status: JobStatus },
    #[error("{pending} jobs are waiting, and at most {limit} may; try again when some have ended")]
    QueueFull { pending: u32, limit: u32 },
    #[error(
        "{waiting} jobs are waiting for an operator or for offline nodes, the limit is {limit} (--max-waiting); confirm, \
         resolve or cancel some of them first"
    )]
    TooManyWaiting { waiting: u32, limit: u32 },
    #[error("{0}")]
    NotWaiting(String),
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
    KeyConflict { job: JobId, first: RequestHash, second: RequestHash },
    /// L8.
    #[error("{limit} idempotency keys are remembered, for 24 h each; submit without a key, or try again later")]
    TooManyKeys { limit: usize },
    #[error("{0} exists already; submit again")]
    IdTaken(JobId),
    #[error("the plan does not hold any more: the job, its nodes or a declaration has changed; plan it again")]
    PlanChanged,
    #[error("{0}")]
    NoTarget(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("node number {0} is not known")]
    NoNode(NodeOrd),
    #[error("the session has ended; the node's current session is {current}")]
    StaleSession { current: SessionId },
    #[error("the node is {status}, not what was expected")]
    StatusMoved { status: NodeStatus },
    #[error("{0}")]
    DuplicateNode(String),
    #[error(
        "{limit} agents are registered, the most at once; agents that have not asked for a day and that no job names are \
         removed automatically, others with `gridc node remove`"
    )]
    TooManyAgents { limit: u32 },
    #[error(
        "{limit} nodes are registered, the most at once; remove nodes that are gone with `gridc node remove`, or raise --max-nodes on \
         every controller"
    )]
    TooManyNodes { limit: u32 },
    #[error(
        "what the nodes say of themselves takes too many bytes in sum; give this node fewer or shorter labels and groups, at most \
         {FACTS_SHARE_BYTES} bytes in all, or remove nodes that are gone with `gridc node remove`"
    )]
    TooManyFacts,
    /// A person asked something of a node that its state forbids.
    #[error("{0}")]
    NodeStands(String),
}
