//! Defines the commands: the changes that the log can ask for. One file each, with struct, handler and tests.
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
mod rejection;
mod remove_node;
mod reply;
mod report_journal;
mod report_snapshots;
mod resolve_step;
mod resume_job;
mod submit_job;
mod supersede;

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
pub use rejection::Rejection;
pub use remove_node::RemoveNode;
pub use reply::{Answer, Reply, Stale};
pub use report_journal::{JournalOfJob, ReportJournal};
pub use report_snapshots::ReportSnapshots;
pub use resolve_step::{ResolveStep, Verdict};
pub use resume_job::ResumeJob;
pub use submit_job::SubmitJob;
pub use supersede::{Shown, Supersede};

use crate::turn::Turn;

/// A change that an entry of the log asks for.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Command {
    /// A new leader begins its term (E1).
    #[n(0)]
    BeginTerm(#[n(0)] BeginTerm),
    /// A job is submitted.
    #[n(1)]
    SubmitJob(#[n(0)] SubmitJob),
    /// An operator cancels a job.
    #[n(2)]
    CancelJob(#[n(0)] CancelJob),
    /// A worker or an agent registers (W1).
    #[n(3)]
    RegisterNode(#[n(0)] RegisterNode),
    /// A node's liveness has changed (V3).
    #[n(4)]
    MarkNode(#[n(0)] MarkNode),
    /// A worker announces that it drains.
    #[n(5)]
    DrainNode(#[n(0)] DrainNode),
    /// A worker leaves.
    #[n(6)]
    LeaveNode(#[n(0)] LeaveNode),
    /// A worker reports how a lease ended.
    #[n(7)]
    RecordResult(#[n(0)] RecordResult),
    /// A worker confirms that a revoked lease does not run any more (W9).
    #[n(8)]
    ConfirmRevoke(#[n(0)] ConfirmRevoke),
    /// The leader's backstop: a lease has run out of time (W6).
    #[n(9)]
    ExpireLease(#[n(0)] ExpireLease),
    /// Leader time has reached something that is due.
    #[n(10)]
    FireTimers(#[n(0)] FireTimers),
    /// An operator confirms a phase or a restored job.
    #[n(11)]
    ConfirmJob(#[n(0)] ConfirmJob),
    /// An operator decides how an unknown step ended (W8).
    #[n(12)]
    ResolveStep(#[n(0)] ResolveStep),
    /// An ended job continues, as a whole or where it failed.
    #[n(13)]
    ResumeJob(#[n(0)] ResumeJob),
    /// History that is too old is removed (L6).
    #[n(14)]
    PruneHistory(#[n(0)] PruneHistory),
    /// An operator drains a node or ends its drain.
    #[n(15)]
    OrderDrain(#[n(0)] OrderDrain),
    /// An operator removes a node.
    #[n(16)]
    RemoveNode(#[n(0)] RemoveNode),
    /// Leases are handed to an agent, which keeps no journal (W10).
    #[n(17)]
    HandOut(#[n(0)] HandOut),
    /// Every member knows a higher feature level (L2).
    #[n(18)]
    RaiseFeatureLevel(#[n(0)] RaiseFeatureLevel),
    /// The records of removed nodes that nothing refers to are dropped.
    #[n(19)]
    ReclaimNodes(#[n(0)] ReclaimNodes),
    /// A worker says what its journal knows of restored jobs (E2).
    #[n(20)]
    ReportJournal(#[n(0)] ReportJournal),
    /// A worker asks to start a `once` lease (W3).
    #[n(21)]
    BeginLease(#[n(0)] BeginLease),
    /// A command that counts only under one leader epoch (E9).
    #[n(22)]
    Fenced(#[n(0)] Fenced),
    /// A later restore of this cluster was shown, or an operator lifts that (E2).
    #[n(23)]
    Supersede(#[n(0)] Supersede),
    /// A controller's snapshots fail or work again.
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
