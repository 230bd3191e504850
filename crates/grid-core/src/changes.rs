//! Defines what an applied batch has to store: which live things changed, and new history.
//!
//! Keys only for live things: the store reads their newest value from `State` when it writes, so that ten changes of
//! one row in one batch are one write. History is appended in the order it happened.
//! L2: rows hold codes and data. Texts in them came in through an entry; the program's own words are made by readers
//! (`grid_types::{Reason, Event}`), because two versions would word them differently and history is hashed (L7).

use std::collections::BTreeSet;

use blake3::Hasher;
use grid_types::decl::EffectClass;
use grid_types::job::Task;
use grid_types::{
    Attempt, Detail, Event, JobEpoch, JobId, LeaderEpoch, Name, NodeId, NodeOrd, Outcome, Reason, StepIndex,
};
use minicbor::Encode;

use crate::encoding::to_vec;
use crate::state::{Job, KeyRow, Meta};

/// What the store writes for one entry. Changes of several entries make one batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Leader time of the entry (W6).
    pub now_ms: u64,
    /// Live nodes whose record changed.
    pub nodes: BTreeSet<NodeOrd>,
    /// Heads of jobs, live or just retired.
    pub jobs: BTreeSet<JobId>,
    /// Jobs whose spec is new.
    pub submitted: BTreeSet<JobId>,
    /// Jobs whose expected nodes were frozen.
    pub started: BTreeSet<JobId>,
    /// Cells by (job, position in `expected`).
    pub cells: BTreeSet<(JobId, u32)>,
    /// Jobs that left `State` in this batch, whole as they left it.
    pub retired: Vec<Job>,
    /// Nodes that left `State`; in none of `nodes`.
    pub reclaimed: Vec<NodeOrd>,
    /// E2: numbers of events begin here, because those up to it may have been given after the backup that was restored.
    pub events_from: Option<u64>,
    /// Jobs of which nothing is to be kept.
    pub pruned: Vec<JobId>,
    /// Events that belong to no job and are older than this, in leader time, are not to be kept.
    pub events_before_ms: Option<u64>,
    /// Idempotency keys of new jobs.
    pub keys_added: Vec<KeyRow>,
    /// Idempotency keys whose 24 h are over.
    pub keys_dropped: Vec<KeyRow>,
    /// Rows that are appended, in the order in which things happened.
    pub history: Vec<History>,
}

/// One row of history. Rows are appended and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode)]
pub enum History {
    /// An attempt has ended.
    #[n(0)]
    Result(#[n(0)] ResultRow),
    /// Steps will not run.
    #[n(1)]
    Skip(#[n(0)] SkipRow),
    /// Something happened that an operator may want to know.
    #[n(2)]
    Event(#[n(0)] EventRow),
}

impl History {
    /// L7: every row rolls into the hash of history, which is part of the state.
    pub(crate) fn roll_into(rows: &[Self], meta: &mut Meta) {
        for row in rows {
            let mut hasher = Hasher::new();
            hasher.update(&meta.history_hash);
            hasher.update(&to_vec(row));
            meta.history_hash = *hasher.finalize().as_bytes();
        }
    }
}

/// One attempt of one step on one node has ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode)]
pub struct ResultRow {
    /// The job of the attempt.
    #[n(0)]
    pub job: JobId,
    /// The job epoch of its lease.
    #[n(1)]
    pub job_epoch: JobEpoch,
    /// The step that was run.
    #[n(2)]
    pub step: StepIndex,
    /// The node that ran it.
    #[n(3)]
    pub node: NodeOrd,
    /// 0: it failed without ever being offered.
    #[n(4)]
    pub attempt: Attempt,
    /// How it ended.
    #[n(5)]
    pub outcome: Outcome,
    /// Why, if anything but the task itself decided it.
    #[n(6)]
    pub reason: Option<Reason>,
    /// The worker's own words.
    #[n(7)]
    pub error: Option<String>,
    /// How long it ran, by the worker's monotonic clock.
    #[n(8)]
    pub duration_ms: u64,
    /// When it started, by the worker's wall clock, for display.
    #[n(9)]
    pub started_wall_ms: u64,
    /// The last bytes of its output.
    #[n(10)]
    #[cbor(with = "minicbor::bytes")]
    pub output_tail: Vec<u8>,
    /// How many bytes of output there were in all.
    #[n(11)]
    pub output_bytes: u64,
    /// The leader that recorded it.
    #[n(12)]
    pub leader_epoch: LeaderEpoch,
    /// What else the worker knows.
    #[n(13)]
    pub detail: Option<Detail>,
}

/// What a result says about its attempt, as far as a later run has to know whether it may have changed something on its node
/// (`condition: on_changed`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastAttempt {
    /// The attempt, from 1; 0 if nothing was tried.
    pub attempt: Attempt,
    /// How it ended.
    pub outcome: Outcome,
    /// When its process started; 0 if it is not known that it did.
    pub started_wall_ms: u64,
    /// Whether it changed something, if its worker said so.
    pub changed: Option<bool>,
}

impl PastAttempt {
    /// Whether it may have changed something. The worker is believed about a success only: before any other attempt that it
    /// reports about it may have been interrupted in another one.
    #[must_use]
    pub fn may_have_changed(&self, task: &Task) -> bool {
        let may_have_started = self.started_wall_ms > 0 || self.outcome == Outcome::Unknown;
        // An idempotent lease starts without a fsynced record, so "not started" proves nothing about it (W3).
        let may_have_run = self.attempt.0 > 0 && (may_have_started || task.effect != EffectClass::Once);
        let is_unchanged = self.outcome == Outcome::Success && self.changed == Some(false);
        may_have_run && task.may_change() && !is_unchanged
    }
}

impl From<&ResultRow> for PastAttempt {
    fn from(row: &ResultRow) -> Self {
        let changed = row.detail.and_then(|detail| detail.changed);
        Self { attempt: row.attempt, outcome: row.outcome, started_wall_ms: row.started_wall_ms, changed }
    }
}

/// Steps that will not run: of one node, or of every expected node that has no other outcome there.
#[derive(Debug, Clone, PartialEq, Eq, Encode)]
pub struct SkipRow {
    /// The job of the steps.
    #[n(0)]
    pub job: JobId,
    /// The job epoch in which they were skipped.
    #[n(1)]
    pub job_epoch: JobEpoch,
    /// The first step.
    #[n(2)]
    pub from: StepIndex,
    /// One past the last.
    #[n(3)]
    pub to: StepIndex,
    /// The node; none: every expected node.
    #[n(4)]
    pub node: Option<NodeOrd>,
    /// Why they will not run.
    #[n(5)]
    pub reason: Reason,
    /// The leader that recorded it.
    #[n(6)]
    pub leader_epoch: LeaderEpoch,
}

/// Something an operator may want to know happened.
#[derive(Debug, Clone, PartialEq, Eq, Encode)]
pub struct EventRow {
    /// When it happened, by the leader's wall clock, for display.
    #[n(0)]
    pub wall_ms: u64,
    /// What happened, as codes and data.
    #[n(1)]
    pub event: Event,
    /// The leader that recorded it.
    #[n(4)]
    pub leader_epoch: LeaderEpoch,
    /// The job that it is about.
    #[n(5)]
    pub job: Option<JobId>,
    /// The node that it is about.
    #[n(6)]
    pub node: Option<NodeId>,
    /// Of the job.
    #[n(7)]
    pub namespace: Option<Name>,
}
