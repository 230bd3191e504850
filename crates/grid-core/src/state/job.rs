//! A job while it lives, and where each of its nodes is in the current phase.
//!
//! ```text
//!   cell:  Idle → [Parked →] Queued → Leased → Idle     (nothing left for this node in this phase)
//!                              ^        |  \
//!                              |        |   '--revoked, confirmed--> Idle
//!                              |        '--unknown--> [Unresolved --resolve--> Idle, or Queued]
//!                              '-Backoff'
//! ```
//!
//! Only the current phase has cells: a job over 100,000 nodes holds 100,000 of them, whatever its number of steps.
//! Outcomes of earlier phases are history rows; what remains here of them are counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grid_types::decl::EffectClass;
use grid_types::job::{JobSpec, Offline, Phase, Task};
use grid_types::{
    Attempt, JobEpoch, JobId, JobStatus, LeaderEpoch, LeaseKey, Name, NodeOrd, Outcome, Reason, Revoked, RunKind,
    StepIndex,
};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{Bits, Meta, Node, Scope};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub head: JobHead,
    pub spec: Arc<JobSpec>,
    /// Frozen at the start, ascending (J6).
    pub expected: Vec<NodeOrd>,
    pub scope: Scope,
    /// One for each of `expected`.
    pub cells: Vec<Cell>,
    /// Derived: cells that are not idle.
    pub open: u32,
    /// Derived: positions that wait for a place in the phase's window (J2).
    pub parked: BTreeSet<u32>,
    /// Derived: positions that would, but for their node, which is away and waited for.
    pub away: BTreeSet<u32>,
    /// Derived: cells that wait for a node to come back (`offline: wait`).
    pub blocked: u32,
    /// Derived: cells that wait for a person to say how they ended (`on_unknown: wait`).
    pub unresolved: u32,
}

/// What changes of a job besides its cells.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobHead {
    #[n(0)]
    pub id: JobId,
    #[n(1)]
    pub namespace: Name,
    #[n(2)]
    pub status: JobStatus,
    #[n(26)]
    pub reason: Option<Reason>,
    #[n(4)]
    pub epoch: JobEpoch,
    /// That wrote it last.
    #[n(5)]
    pub leader_epoch: LeaderEpoch,
    #[n(6)]
    pub created_wall_ms: u64,
    #[n(7)]
    pub updated_wall_ms: u64,
    /// In leader time; none before the start.
    #[n(8)]
    pub deadline_ms: Option<u64>,
    #[n(9)]
    pub phase: u32,
    /// Why only `on_failure` phases may still run.
    #[n(10)]
    pub tripped: Option<Trip>,
    /// J1: nodes on which a step has failed for good, and how many steps have.
    #[n(11)]
    pub failed: BTreeMap<NodeOrd, u32>,
    /// Rows skipped because their node was offline, outside of clean-ups.
    #[n(12)]
    pub offline_skips: u32,
    /// Per step.
    #[n(13)]
    pub tallies: Vec<Tally>,
    /// W8: outcomes that the worker's journal may still settle.
    #[n(14)]
    pub unknown: BTreeMap<(StepIndex, NodeOrd), Attempt>,
    /// Nodes that take no part in later phases: something failed there, whatever became known of it later.
    #[n(18)]
    pub excluded: BTreeSet<NodeOrd>,
    /// `offline_skips` when the current phase began.
    #[n(19)]
    pub offline_before: u32,
    /// The first step of a phase that reached nobody.
    #[n(20)]
    pub unreached: Option<StepIndex>,
    /// The phase that waits for a person's word.
    #[n(15)]
    pub gate: Option<u32>,
    /// Phases below this one need no further word.
    #[n(16)]
    pub confirmed: u32,
    /// What was left until the deadline when the wait for a person began (J3).
    #[n(17)]
    pub remaining_ms: Option<u64>,
    /// The epoch in which the current run began: rows of earlier ones count only where they are done.
    #[n(21)]
    pub run_epoch: JobEpoch,
    /// Leader time when it left the state for history; 0 before.
    #[n(24)]
    #[cbor(default)]
    pub ended_ms: u64,
    /// J8: the number of the current run, from 1.
    #[n(30)]
    pub run: u32,
    /// When this run started and ended, for display.
    #[n(31)]
    pub started_wall_ms: Option<u64>,
    #[n(32)]
    pub ended_wall_ms: Option<u64>,
    #[n(33)]
    pub run_kind: RunKind,
    /// `StepFailed` events of this run.
    #[n(27)]
    #[cbor(default)]
    pub failure_events: u32,
    /// J11: positions in `expected` that were offline when their turn came, and so were skipped, in this run.
    #[n(29)]
    #[cbor(default)]
    pub skipped_offline: Bits,
    /// It was restored from a backup of this time and waits for a person (E2).
    #[n(25)]
    pub held: Option<String>,
    /// It is from before the restore that began this generation: what ran of it since the backup, only journals know (E2).
    #[n(28)]
    pub restored: Option<Restored>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Restored {
    #[n(0)]
    pub generation: u32,
    /// An operator allowed `once` steps that may have run already to run again.
    #[n(1)]
    pub rerun_once: bool,
    /// The next job epoch is at least this: beyond those that were given after the backup, whose leases workers may know.
    #[n(2)]
    pub epochs_from: JobEpoch,
}

/// No job moves through four epochs a second.
const EPOCHS_A_SECOND: u32 = 4;

impl Restored {
    /// As of the restore that began this generation. Epochs of leaders begin with its time in seconds.
    pub(crate) fn by(meta: &Meta, rerun_once: bool) -> Self {
        let LeaderEpoch { generation, n } = meta.leadership.epoch;
        Self { generation, rerun_once, epochs_from: JobEpoch(n.saturating_mul(EPOCHS_A_SECOND)) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Trip {
    #[n(0)]
    FailFast {
        #[n(0)]
        step: StepIndex,
        #[n(1)]
        node: NodeOrd,
    },
    #[n(1)]
    JobTimeout,
}

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
}

/// A lease of a step that the job has not reached, because its barrier is still open elsewhere (E2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Ahead {
    #[n(0)]
    pub step: StepIndex,
    #[n(1)]
    pub attempt: Attempt,
    /// The node still has something to do in the current phase.
    #[n(2)]
    pub is_open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub enum CellState {
    #[default]
    #[n(0)]
    Idle,
    #[n(1)]
    Queued,
    #[n(2)]
    Backoff {
        #[n(0)]
        until_ms: u64,
    },
    #[n(3)]
    Leased {
        #[n(0)]
        epoch: JobEpoch,
        #[n(1)]
        since_wall_ms: u64,
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
    /// Nobody knows how it ended, and a person is to say it.
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

/// Rows of one step per outcome; they always add up to the expected nodes (I9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Tally(#[n(0)] [u32; 8]);

impl Tally {
    #[must_use]
    pub fn all_pending(nodes: u32) -> Self {
        Self([nodes, 0, 0, 0, 0, 0, 0, 0])
    }

    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u32 {
        self.0[outcome as usize]
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    pub(crate) fn shift(&mut self, from: Outcome, to: Outcome, rows: u32) {
        self.0[from as usize] = self.0[from as usize].saturating_sub(rows);
        self.0[to as usize] += rows;
    }
}

impl JobHead {
    /// Of a run that is accepted now and waits to be started.
    pub(crate) fn new(id: JobId, namespace: Name, epoch: JobEpoch, meta: &Meta) -> Self {
        Self {
            id,
            namespace,
            status: JobStatus::Pending,
            reason: None,
            epoch,
            leader_epoch: meta.leadership.epoch,
            created_wall_ms: meta.wall_ms,
            updated_wall_ms: meta.wall_ms,
            deadline_ms: None,
            phase: 0,
            tripped: None,
            failed: BTreeMap::new(),
            offline_skips: 0,
            skipped_offline: Bits::default(),
            tallies: Vec::new(),
            unknown: BTreeMap::new(),
            excluded: BTreeSet::new(),
            offline_before: 0,
            unreached: None,
            gate: None,
            confirmed: 0,
            remaining_ms: None,
            run_epoch: epoch,
            ended_ms: 0,
            held: None,
            failure_events: 0,
            restored: None,
            run: 1,
            started_wall_ms: None,
            ended_wall_ms: None,
            run_kind: RunKind::Submit,
        }
    }
}

impl Job {
    pub(crate) fn new(head: JobHead, spec: Arc<JobSpec>) -> Self {
        let (expected, cells) = (Vec::new(), Vec::new());
        Self {
            head,
            spec,
            expected,
            scope: Scope::default(),
            cells,
            open: 0,
            parked: BTreeSet::new(),
            away: BTreeSet::new(),
            blocked: 0,
            unresolved: 0,
        }
    }

    /// The epoch that follows.
    pub(crate) fn next_epoch(&self) -> JobEpoch {
        self.head.epoch.next().max(self.head.restored.map_or(JobEpoch(0), |restored| restored.epochs_from))
    }

    /// Whether a cell queued on this node waits for it to come back.
    pub(crate) fn waits_for(&self, node: &Node) -> bool {
        self.may_wait() && node.status.is_away()
    }

    /// Whether nodes that are away are waited for: not after the job's time is over, and not by a clean-up (J9).
    pub(crate) fn may_wait(&self) -> bool {
        let has_time = self.head.tripped != Some(Trip::JobTimeout);
        self.spec.offline == Offline::Wait && has_time && !self.cleans_up()
    }

    /// Whether what is queued there may become a lease, or be passed over.
    pub(crate) fn may_be_offered(&self, node: &Node) -> bool {
        self.head.held.is_none() && !self.waits_for(node) && !self.awaits_journal(node)
    }

    #[must_use]
    pub fn current_phase(&self) -> Option<&Phase> {
        self.spec.phases.get(usize::try_from(self.head.phase).ok()?)
    }

    /// The flat index of the first step of the current phase.
    #[must_use]
    pub fn first_step(&self) -> StepIndex {
        self.spec.first_step(usize::try_from(self.head.phase).unwrap_or(usize::MAX))
    }

    /// Whether an earlier run has done the step there.
    #[must_use]
    pub fn is_done(&self, step: StepIndex, position: usize) -> bool {
        self.scope.done.get(&step).is_some_and(|done| done.has(position))
    }

    /// Whether the node at a position takes part in this run: a retry leaves the others alone.
    #[must_use]
    pub fn takes_part(&self, position: usize) -> bool {
        self.scope.only.as_ref().is_none_or(|only| only.has(position))
    }

    /// Everything it has open waits for a person or for nodes to come back (J3).
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        let told_to_wait = self.head.held.is_some() || self.head.gate.is_some();
        told_to_wait || (self.open > 0 && self.open == self.outside() + self.blocked + self.unresolved)
    }

    /// Whether what it waits for is a person.
    #[must_use]
    pub fn waits_for_a_person(&self) -> bool {
        let told_to_wait = self.head.held.is_some() || self.head.gate.is_some();
        told_to_wait || (self.is_stalled() && self.unresolved > 0)
    }

    #[must_use]
    pub fn position(&self, node: NodeOrd) -> Option<usize> {
        self.expected.binary_search(&node).ok()
    }

    /// The step that a cell has leased, or wants next.
    #[must_use]
    pub fn step_of(&self, cell: &Cell) -> StepIndex {
        cell.ahead.map_or_else(|| self.place_of(cell), |ahead| ahead.step)
    }

    /// Where the walk of a cell is, whatever it has leased.
    pub(crate) fn place_of(&self, cell: &Cell) -> StepIndex {
        StepIndex(self.first_step().0 + cell.sub)
    }

    #[must_use]
    pub fn task_of(&self, cell: &Cell) -> Option<&Task> {
        match cell.ahead {
            Some(ahead) => self.task_at(ahead.step),
            None => self.current_phase()?.tasks.get(usize::try_from(cell.sub).ok()?),
        }
    }

    pub(crate) fn task_at(&self, step: StepIndex) -> Option<&Task> {
        self.spec.steps().nth(usize::try_from(step.0).ok()?).map(|(_, task)| task)
    }

    /// The lease that a cell has out, and why it was revoked if it was.
    #[must_use]
    pub fn lease_of(&self, cell: &Cell) -> Option<(LeaseKey, Option<Revoked>)> {
        let CellState::Leased { epoch, revoked, .. } = cell.state else { return None };
        let key = LeaseKey { job: self.head.id, job_epoch: epoch, step: self.step_of(cell), attempt: cell.attempt() };
        Some((key, revoked))
    }

    /// Whether the walk of a cell has come to what the cell has leased ahead. From here on it is leased as any other.
    pub(crate) fn reaches_ahead(&mut self, position: usize) -> bool {
        let place = self.place_of(&self.cells[position]);
        let cell = &mut self.cells[position];
        let Some(ahead) = cell.ahead.filter(|ahead| ahead.step == place) else { return false };
        (cell.attempt, cell.entered, cell.ahead) = (ahead.attempt.0, true, None);
        true
    }

    /// The lease out to a node.
    #[must_use]
    pub fn lease_at(&self, node: NodeOrd) -> Option<(LeaseKey, Option<Revoked>)> {
        self.lease_of(self.cells.get(self.position(node)?)?)
    }

    /// W10: under which leader the agent was last given the lease that is out to it.
    #[must_use]
    pub fn handed(&self, node: NodeOrd) -> Option<LeaderEpoch> {
        match self.cells.get(self.position(node)?)?.state {
            CellState::Leased { handed, .. } => handed,
            _ => None,
        }
    }

    /// W3: the nonce of the worker process that was granted to start the lease out to a node.
    #[must_use]
    pub fn begun(&self, node: NodeOrd) -> Option<&[u8]> {
        match &self.cells.get(self.position(node)?)?.state {
            CellState::Leased { begun, .. } => begun.as_ref().map(|nonce| nonce.as_slice()),
            _ => None,
        }
    }

    /// Whether the step of a cell must never run twice.
    pub(crate) fn runs_once(&self, cell: &Cell) -> bool {
        self.task_of(cell).is_none_or(|task| task.effect == EffectClass::Once)
    }

    /// Whether a lease is out to a node of which nothing can have run: its worker has not begun a `once` lease (W3), or
    /// its agent never received it (W10).
    #[must_use]
    pub fn never_ran(&self, node: &Node) -> bool {
        let Some(cell) = self.position(node.ord).and_then(|position| self.cells.get(position)) else { return false };
        let CellState::Leased { handed, begun, .. } = &cell.state else { return false };
        handed.is_none() && begun.is_none() && (node.agent || self.runs_once(cell))
    }

    /// W10: whether a lease is out to an agent that never received it.
    #[must_use]
    pub fn never_reached(&self, node: &Node) -> bool {
        node.agent && self.never_ran(node)
    }

    /// Fixes the nodes before the start.
    pub(crate) fn freeze(&mut self, expected: Vec<NodeOrd>) {
        self.cells = vec![Cell::default(); expected.len()];
        self.expected = expected;
        self.count_afresh();
    }

    /// Every row pending, but for those that an earlier run has done.
    pub(crate) fn count_afresh(&mut self) {
        let nodes = u32::try_from(self.expected.len()).unwrap_or(u32::MAX);
        self.head.tallies = vec![Tally::all_pending(nodes); self.spec.step_count()];
        for (step, done) in self.scope.done.clone() {
            self.shift(step, Outcome::Pending, Outcome::Success, done.count());
        }
    }

    pub(crate) fn shift(&mut self, step: StepIndex, from: Outcome, to: Outcome, rows: u32) {
        if let Some(tally) = usize::try_from(step.0).ok().and_then(|i| self.head.tallies.get_mut(i)) {
            tally.shift(from, to, rows);
        }
    }

    #[must_use]
    pub fn total(&self, outcome: Outcome) -> u64 {
        self.head.tallies.iter().map(|t| u64::from(t.count(outcome))).sum()
    }
}
