//! Takes what journals know of steps that a restored job has not reached (E2).
//!
//! The barrier of a phase may be open because of one node, while another one already ran later steps, in the time after
//! the backup. What its journal says about them is knowledge of the state, whatever is decided because of the first node:
//!
//! ```text
//!   the journal says         before the job gets there          when it gets there     when it passes the step by
//!   it runs                  leased ahead of the barrier        leased as any other    stays leased until it ends
//!   it succeeded             recorded                           passed                 stays recorded
//!   it failed for good       recorded                           counted (J1)           counted
//!   it failed, retries left  kept                               tried again            recorded as failed
//!   anything else            kept                               see `recall`           `once`: unknown
//! ```
//!
//! I5 holds as before for everything that is offered: nothing new begins ahead of a barrier, and no phase begins while a
//! step before it runs. W7: a node that runs such a step gets no other lease of the job. Only cancel and job timeout
//! revoke it; a trip does not, like any other lease that is out (J1).
//! Not here: what a journal said (`recall`), who may be adopted at the step that the job is at (`recall`, `hold`).

use grid_types::decl::EffectClass;
use grid_types::{Attempt, JobEpoch, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, Reason, StepIndex};
use minicbor::bytes::ByteVec;

use super::report::{Facts, Report};
use super::skip::len;
use crate::state::{Ahead, Cell, CellState, Job, Ran, RanEnd, RanState, Timer};
use crate::turn::Turn;

/// Whether the job will still reach a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// It may.
    NotYet,
    /// It passes the step by.
    By,
}

impl Turn<'_> {
    /// Takes what the node's journal knows of steps beyond the place of its cell.
    pub fn look_ahead(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| job.head.status == JobStatus::Running) else { return };
        let node = job.expected.get(position).and_then(|ord| self.state.nodes.get(ord));
        let is_asked = node.zip(job.head.restored).is_some_and(|(node, restored)| node.asked >= restored.generation);
        if is_asked && job.takes_part(position) {
            self.take_known(id, position, job.undecided_from(position), StepIndex(u32::MAX), Passing::NotYet);
        }
    }

    /// Takes what is known of a range of steps of one node.
    pub fn take_known(&mut self, id: JobId, position: usize, from: StepIndex, to: StepIndex, passing: Passing) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| job.head.restored.is_some()) else { return };
        let past = self.state.nodes.get(&job.expected[position]).and_then(|node| node.past.get(&id));
        let Some(past) = past.filter(|past| from < to && !past.ran.is_empty()) else { return };
        let named = past.ran.range(from..to).map(|(step, _)| *step).filter(|step| !job.is_done(*step, position));
        let known: Vec<(StepIndex, Ran)> = named
            .filter_map(|step| Some((step, past.known(step)?.clone())))
            .filter(|(_, ran)| ran.epoch >= job.head.run_epoch)
            .collect();
        let is_complete = past.is_complete;
        for (step, ran) in known {
            self.take_one(id, position, step, &ran, is_complete, passing);
        }
    }

    fn take_one(
        &mut self,
        id: JobId,
        position: usize,
        step: StepIndex,
        ran: &Ran,
        is_complete: bool,
        passing: Passing,
    ) {
        let passes_by = passing == Passing::By;
        let Some(job) = self.state.jobs.get(&id) else { return };
        let is_once = job.task_at(step).is_none_or(|task| task.effect == EffectClass::Once);
        match &ran.state {
            RanState::Recorded { outcome, .. } => {
                if passes_by {
                    self.count_recorded(id, position, step, *outcome);
                }
                return;
            }
            RanState::AtWorker if job.can_adopt(ran.epoch) && job.may_adopt_at(position) => {
                return self.adopt_ahead(id, position, step, ran.epoch, ran.attempt);
            }
            RanState::Ended(end) => {
                let is_believed = end.outcome == Outcome::Success || is_complete || (passes_by && !is_once);
                let is_final = passes_by || !job.tries_again(step, ran.attempt, end.outcome);
                if is_definite(end.outcome) && is_believed && is_final {
                    return self.record_ahead(id, position, step, ran, end.report(), passing);
                }
            }
            RanState::Outstanding | RanState::AtWorker => {}
        }
        if passes_by && is_once {
            let facts = Facts { started_wall_ms: self.state.meta.wall_ms, ..Facts::default() };
            let report = Report::said(Outcome::Unknown, Some(Reason::RestoredUnresolved), facts);
            self.record_ahead(id, position, step, ran, report, passing);
        }
    }

    /// The worker has it: it is out, as if the job had offered it.
    fn adopt_ahead(&mut self, id: JobId, position: usize, step: StepIndex, epoch: JobEpoch, attempt: Attempt) {
        let wall_ms = self.state.meta.wall_ms;
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let ord = job.expected[position];
        let Some(node) = self.state.nodes.get_mut(&ord) else { return };
        match job.cells[position].state {
            CellState::Idle => {}
            CellState::Parked => job.unpark(position),
            CellState::Queued => {
                node.waiting.remove(&id);
                job.blocked = job.blocked.saturating_sub(u32::from(job.waits_for(node)));
            }
            CellState::Backoff { until_ms } => drop(self.state.timers.remove(&(until_ms, Timer::Retry(id, ord)))),
            CellState::Leased { .. } | CellState::Unresolved => return,
        }
        node.leased_jobs.insert(id);
        let begun = Some(ByteVec::from(node.nonce.clone()));
        job.head.epoch = epoch;
        let cell = &mut job.cells[position];
        // Only a node that has something to do in the phase counts attempts there.
        let is_open = cell.attempt > 0;
        cell.ahead = Some(Ahead { step, attempt, is_open });
        cell.state = CellState::Leased { epoch, since_wall_ms: wall_ms, revoked: None, handed: None, begun };
        job.shift(step, Outcome::Pending, Outcome::Running, 1);
        if is_open {
            job.reaches_ahead(position);
        }
        self.decide(id, ord, step);
        self.touch_cell(id, position);
    }

    /// The row says how it ended, before the job gets there.
    fn record_ahead(
        &mut self,
        id: JobId,
        position: usize,
        step: StepIndex,
        ran: &Ran,
        report: Report,
        passing: Passing,
    ) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let (ord, outcome) = (job.expected[position], report.outcome);
        let lease = LeaseKey { job: id, job_epoch: job.head.epoch, step, attempt: ran.attempt };
        job.shift(step, Outcome::Pending, outcome, 1);
        self.keep_ahead(ord, lease, report, position, passing);
        self.touch_job(id);
    }

    /// Stores how a lease ended that the job has not reached, and that it is decided.
    fn keep_ahead(&mut self, ord: NodeOrd, lease: LeaseKey, report: Report, position: usize, passing: Passing) {
        let (id, step, outcome) = (lease.job, lease.step, report.outcome);
        self.push_result(ord, lease, report);
        let state = RanState::Recorded { outcome, is_counted: false };
        self.set_known(id, ord, step, Ran { epoch: lease.job_epoch, attempt: lease.attempt, state });
        if outcome == Outcome::Unknown
            && let Some(job) = self.state.jobs.get_mut(&id)
        {
            job.head.unknown.insert((step, ord), lease.attempt);
        }
        if outcome.is_failure() {
            self.record_failure(id, step, ord, outcome);
        }
        if passing == Passing::By {
            self.count_recorded(id, position, step, outcome);
        }
    }

    /// J1: counts a recorded failure, now that the job has got there or passes it by.
    pub fn count_recorded(&mut self, id: JobId, position: usize, step: StepIndex, outcome: Outcome) {
        let Some(ord) = self.state.jobs.get(&id).map(|job| job.expected[position]) else { return };
        let past = self.state.nodes.get_mut(&ord).and_then(|node| node.past.get_mut(&id));
        let Some(ran) = past.and_then(|past| past.ran.get_mut(&step)) else { return };
        let RanState::Recorded { is_counted, .. } = &mut ran.state else { return };
        if outcome.is_failure() && !std::mem::replace(is_counted, true) {
            self.changes.nodes.insert(ord);
            self.fail_step(id, position, step, outcome, outcome);
        }
    }

    /// How a step ended there before the job reached it, if its row says so.
    pub fn recorded(&self, id: JobId, position: usize, step: StepIndex) -> Option<Outcome> {
        let job = self.state.jobs.get(&id).filter(|job| job.head.restored.is_some())?;
        self.state.nodes.get(&job.expected[position])?.past.get(&id)?.recorded(step)
    }

    /// A lease ahead of the barrier has ended.
    pub fn settle_ahead(&mut self, id: JobId, position: usize, report: Report) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let Some((lease, revoked)) = job.lease_of(&job.cells[position]) else { return };
        let (ord, outcome) = (job.expected[position], report.outcome);
        // The phase of the step will not be walked, or nothing is tried again there.
        let passes_by = revoked.is_some() || job.head.tripped.is_some() || job.head.status.is_ended();
        let waits = job.tries_again(lease.step, lease.attempt, outcome) || !is_definite(outcome);
        let to = if waits && !passes_by { Outcome::Pending } else { outcome };
        job.shift(lease.step, Outcome::Running, to, 1);
        let Some(ahead) = job.cells[position].ahead.take() else { return };
        job.cells[position].state = CellState::Idle;
        if let Some(node) = self.state.nodes.get_mut(&ord) {
            node.leased_jobs.remove(&id);
        }
        self.wake.insert(ord);
        if to == Outcome::Pending {
            let state = RanState::Ended(RanEnd::of(&report));
            self.set_known(id, ord, lease.step, Ran { epoch: lease.job_epoch, attempt: lease.attempt, state });
        } else {
            let passing = if passes_by { Passing::By } else { Passing::NotYet };
            self.keep_ahead(ord, lease, report, position, passing);
        }
        self.record_if_drained(ord);
        self.touch_cell(id, position);
        self.walk_on(id, position, ahead.is_open);
    }

    /// E2: another restore: whether it still runs is to be asked again.
    pub fn hold_ahead(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let Some((lease, None)) = job.lease_of(&job.cells[position]) else { return };
        let (ord, is_once) = (job.expected[position], job.runs_once(&job.cells[position]));
        if is_once && job.head.tripped.is_some() {
            // Its phase may have been passed by already.
            return self.lose_lease(id, position, Reason::RestoredUnresolved);
        }
        let Some(ahead) = job.cells[position].ahead.take() else { return };
        job.cells[position].state = CellState::Idle;
        job.shift(lease.step, Outcome::Running, Outcome::Pending, 1);
        if let Some(node) = self.state.nodes.get_mut(&ord) {
            node.leased_jobs.remove(&id);
        }
        let passed_by = self.state.jobs.get(&id).filter(|job| job.head.tripped.is_some());
        if let Some(reason) = passed_by.and_then(|job| job.head.tripped.as_ref()).map(crate::state::Trip::reason) {
            self.skip_steps(id, position, lease.step, 1, &reason);
        } else if is_once {
            self.note_ran(ord, lease, RanState::Outstanding);
        }
        self.touch_cell(id, position);
        self.walk_on(id, position, ahead.is_open);
    }

    /// The node goes on where its walk was when it was found to run something else.
    fn walk_on(&mut self, id: JobId, position: usize, is_open: bool) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        if is_open && job.head.status.is_ended() {
            self.close_cell(id, position);
        } else if is_open && job.window().is_some() && !job.cells[position].entered {
            self.park(id, position);
        } else if is_open {
            self.walk_cell(id, position, 0);
        } else if job.open == 0 {
            self.decided.insert(id);
        }
    }

    fn set_known(&mut self, id: JobId, ord: NodeOrd, step: StepIndex, ran: Ran) {
        let Some(node) = self.state.nodes.get_mut(&ord) else { return };
        let past = node.past.entry(id).or_default();
        past.decided.remove(&step);
        past.ran.insert(step, ran);
        self.changes.nodes.insert(ord);
    }
}

fn is_definite(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Success | Outcome::Failed | Outcome::TimedOut)
}

impl Job {
    /// From where on nothing of a node is decided, nor asked by `recall` for the place of its cell.
    fn undecided_from(&self, position: usize) -> StepIndex {
        let cell = &self.cells[position];
        let first = self.first_step();
        match cell.state {
            _ if !cell.is_open() && self.head.gate.is_some() => first,
            _ if !cell.is_open() => StepIndex(first.0 + self.current_phase().map_or(0, len)),
            CellState::Parked => self.place_of(cell),
            _ => StepIndex(self.place_of(cell).0 + 1),
        }
    }

    /// Whether the cell has no lease of its own, and nobody has to judge one.
    fn may_adopt_at(&self, position: usize) -> bool {
        let is_free = !matches!(self.cells[position].state, CellState::Leased { .. } | CellState::Unresolved);
        is_free && self.head.status == JobStatus::Running
    }

    /// Whether the job asked for another attempt after this one. W8: of a `once` step only after a definite failure.
    fn tries_again(&self, step: StepIndex, attempt: Attempt, outcome: Outcome) -> bool {
        let Some(task) = self.task_at(step) else { return false };
        let may = match outcome {
            Outcome::Failed => true,
            Outcome::TimedOut => task.effect != EffectClass::Once,
            _ => false,
        };
        may && attempt.0 <= task.max_retries
    }

    /// Whether anything is leased ahead of its barrier.
    pub(crate) fn runs_ahead(&self) -> bool {
        self.head.restored.is_some() && self.cells.iter().any(|cell| cell.ahead.is_some())
    }

    /// Whether a step before this one is leased ahead of its barrier: the phase of this one waits for it (I5).
    pub(crate) fn runs_before(&self, step: StepIndex) -> bool {
        let is_before = |cell: &Cell| cell.ahead.is_some_and(|ahead| ahead.step < step);
        self.head.restored.is_some() && self.cells.iter().any(is_before)
    }
}

impl Cell {
    /// At the beginning of a phase. What is leased ahead stays so.
    pub(crate) fn begin_phase(&mut self, is_member: bool) {
        let ahead = self.ahead.map(|ahead| Ahead { is_open: is_member, ..ahead });
        let state = if ahead.is_some() { std::mem::take(&mut self.state) } else { CellState::Idle };
        *self = Self { attempt: u32::from(is_member), state, ahead, ..Self::default() };
    }

    /// Nothing is left for its node in this phase. What is leased ahead stays so.
    pub(crate) fn close(&mut self) {
        self.begin_phase(false);
    }
}

impl RanEnd {
    fn of(report: &Report) -> Self {
        Self {
            outcome: report.outcome,
            error: report.error.clone(),
            duration_ms: report.duration_ms,
            started_wall_ms: report.started_wall_ms,
            output_bytes: report.output_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
