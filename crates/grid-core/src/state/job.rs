//! Holds a job while it lives: its head (`head`), and where each of its nodes is in the current phase (`cell`).
//!
//! Only the current phase has cells: a job over 100,000 nodes holds 100,000 of them, whatever its number of steps.
//! Outcomes of earlier phases are history rows; what remains here of them are counts.

use std::collections::BTreeSet;
use std::sync::Arc;

use grid_types::decl::EffectClass;
use grid_types::job::{JobSpec, Offline, Phase, Task};
use grid_types::{JobEpoch, LeaderEpoch, LeaseKey, NodeOrd, Outcome, Revoked, StepIndex};

use super::{Cell, CellState, JobHead, Node, Scope, Tally, Trip};

/// A job that has not ended, or whose last leases are not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its changing facts.
    pub head: JobHead,
    /// What it does. Shared with the offers that are made of it.
    pub spec: Arc<JobSpec>,
    /// Frozen at the start, ascending (J6).
    pub expected: Vec<NodeOrd>,
    /// What a run covers.
    pub scope: Scope,
    /// One for each of `expected`.
    pub cells: Vec<Cell>,
    /// Derived: cells that are not idle.
    pub open: u32,
    /// Derived: positions that wait for a place in the phase's window (J2).
    pub parked: BTreeSet<u32>,
    /// Derived: positions that would, but for their node, which is away and waited for.
    pub away: BTreeSet<u32>,
    /// Derived: positions that wait until the first nodes of the phase are confirmed (J13), there or not.
    pub held_back: BTreeSet<u32>,
    /// Derived: cells that wait for a node to come back (`offline: wait`).
    pub blocked: u32,
    /// Derived: cells whose outcome an operator has to resolve (`on_unknown: wait`).
    pub unresolved: u32,
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
            held_back: BTreeSet::new(),
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

    /// The phase that it is in; none before the first and after the last.
    #[must_use]
    pub fn current_phase(&self) -> Option<&Phase> {
        self.spec.phases.get(usize::try_from(self.head.phase).ok()?)
    }

    /// The flat index of the first step of the current phase.
    #[must_use]
    pub fn first_step(&self) -> StepIndex {
        self.spec.first_step(usize::try_from(self.head.phase).unwrap_or(usize::MAX))
    }

    /// Whether an earlier run skipped the step on a node because nothing had changed there (`condition: on_changed`). It says
    /// nothing any more once a task before it runs in this run.
    pub(crate) fn was_unchanged(&self, step: StepIndex, position: usize) -> bool {
        self.scope.unchanged.get(&step).is_some_and(|unchanged| unchanged.has(position))
    }

    /// Whether an attempt of an earlier run may have changed something on a node, at a step of the current phase before this
    /// one (`condition: on_changed`). That its step succeeds now without a change does not undo it.
    pub(crate) fn changed_earlier(&self, step: StepIndex, position: usize) -> bool {
        let before = self.scope.changed.iter().flat_map(|changed| changed.range(self.first_step()..step));
        before.into_iter().any(|(_, changed)| changed.has(position))
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

    /// Everything it has open waits for an operator or for nodes to come back (J3).
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        let has_to_wait = self.head.held.is_some() || self.head.waiting_phase().is_some();
        has_to_wait || (self.open > 0 && self.open == self.outside() + self.blocked + self.unresolved)
    }

    /// Whether it waits for an operator.
    #[must_use]
    pub fn waits_for_a_person(&self) -> bool {
        let has_to_wait = self.head.held.is_some() || self.head.waiting_phase().is_some();
        has_to_wait || (self.is_stalled() && self.unresolved > 0)
    }

    /// The position of a node in `expected`.
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

    /// The task that a cell is at.
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

    /// How many rows of all steps have this outcome.
    #[must_use]
    pub fn total(&self, outcome: Outcome) -> u64 {
        self.head.tallies.iter().map(|t| u64::from(t.count(outcome))).sum()
    }
}
