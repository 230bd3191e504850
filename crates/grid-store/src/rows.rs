//! Defines the rows that a reader returns: ids, epochs, codes and times in milliseconds.
//!
//! A row says what is stored; how that looks as text or JSON is not known here. `grid-controller::documents` makes the
//! documents of the HTTP API from rows. Names of nodes are plain text, as SQLite returns them: a page may have 10,000.

use std::collections::BTreeMap;

use grid_core::Tally;
use grid_types::job::JobSpec;
use grid_types::node::{NodeFacts, NodeStatus};
use grid_types::{
    Event, JobEpoch, JobId, JobStatus, LeaderEpoch, Name, NodeId, NodeOrd, Outcome, Reason, Revoked, RunKind, SessionId,
};

/// Rows of a list, and where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, N> {
    pub items: Vec<T>,
    /// None: this is the last page.
    pub next: Option<N>,
}

/// A job as one of its runs has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub id: JobId,
    pub namespace: Name,
    pub spec: JobSpec,
    pub status: JobStatus,
    pub reason: Option<Reason>,
    /// The backup that it was restored from, if it waits to be confirmed (E2).
    pub held: Option<String>,
    /// The phase that it is in, from 0.
    pub phase: u32,
    /// In the order of their names. None: they are too many for a list.
    pub expected: Option<Vec<String>>,
    pub expected_count: u64,
    /// Nodes on which a step was skipped because they were offline.
    pub skipped_offline: u64,
    /// The controller that led when the job last changed.
    pub owner: Option<String>,
    pub epoch: JobEpoch,
    pub leader_epoch: LeaderEpoch,
    /// By step; empty before the start.
    pub tallies: Vec<Tally>,
    /// By step and name of the node. None: it is a row of a list, or they are too many.
    pub results: Option<Vec<ResultRow>>,
    pub run: u32,
    /// Newest first. None: it is a row of a list.
    pub runs: Option<Vec<RunRow>>,
    pub created_wall_ms: u64,
    pub updated_wall_ms: u64,
}

impl JobRow {
    /// Results with this outcome, over all steps and expected nodes.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.tallies.iter().map(|tally| u64::from(tally.count(outcome))).sum()
    }
}

/// One run of a job (J8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    pub job: JobId,
    pub run: u32,
    pub kind: RunKind,
    pub status: JobStatus,
    pub reason: Option<Reason>,
    /// Every outcome, zeros included.
    pub counts: Vec<(Outcome, u64)>,
    pub started_wall_ms: Option<u64>,
    pub ended_wall_ms: Option<u64>,
}

/// One step of a job on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRow {
    pub job: JobId,
    pub step: u32,
    pub node: String,
    pub result: StepResult,
}

/// Results by step and name of the node, which are also the cursor.
pub type ResultPage = Page<ResultRow, (u32, String)>;

/// How a step ended on a node, or its current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    pub status: Outcome,
    /// In all runs up to the one that is shown.
    pub attempts: u32,
    /// Of the last attempt that ran.
    pub duration_ms: Option<u64>,
    pub started_wall_ms: Option<u64>,
    /// The error that the worker reported.
    pub error: Option<String>,
    pub note: Option<Note>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub changed: Option<bool>,
}

impl StepResult {
    /// A result that nothing else is known about.
    pub(crate) fn bare(status: Outcome, note: Option<Note>) -> Self {
        Self {
            status,
            attempts: 0,
            duration_ms: None,
            started_wall_ms: None,
            error: None,
            note,
            exit_code: None,
            signal: None,
            changed: None,
        }
    }
}

/// Why a step has its outcome, or what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Recorded with the outcome.
    Reason(Reason),
    /// The node waits for a place in the window of its phase (J2).
    Parked,
    /// Its outcome is unknown, and an operator has to resolve it (W8).
    Unresolved,
    /// Its job is held after a restore (E2).
    Held,
    /// The attempt waits for a free slot, or for the node itself.
    Queued { attempt: u32 },
    /// The attempt waits for its time.
    Backoff { attempt: u32, until_wall_ms: u64 },
    /// The worker has to confirm that it stopped the attempt.
    Stopping(Revoked),
}

/// Nodes whose output of a step is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputGroup {
    /// In the order of their names.
    pub nodes: Vec<String>,
    /// The end of the output.
    pub tail: Vec<u8>,
    /// Of the whole output.
    pub total_bytes: u64,
}

/// A node that was not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    pub id: NodeId,
    pub ord: NodeOrd,
    pub facts: NodeFacts,
    pub status: NodeStatus,
    pub session: SessionId,
    pub drained: bool,
    pub agent: bool,
    /// Outstanding ones.
    pub leases: u32,
    /// Its last change of state; a leader knows a later time.
    pub seen_wall_ms: u64,
    pub registered_wall_ms: u64,
    pub leader_epoch: LeaderEpoch,
}

/// A recorded event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    pub id: u64,
    pub wall_ms: u64,
    /// As numbered outside of the cluster.
    pub leader_epoch: u64,
    pub event: Event,
    pub job: Option<JobId>,
    pub node: Option<String>,
    pub namespace: Option<String>,
    /// Of the job, as long as it is stored.
    pub name: Option<String>,
    /// Of the job, as long as it is stored.
    pub labels: Option<BTreeMap<String, String>>,
}
