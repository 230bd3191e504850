//! Counts failures, and trips a job: from then on only `on_failure` work is queued.
//!
//! ```text
//!   running ── more failures than tolerated (J1) ──► tripped: fail-fast ── clean-up phases ──► failed
//!       └───── its deadline has passed ────────────► tripped: timeout ───┘
//! ```
//!
//! I8: after a trip only `on_failure` work is queued. J10: atomic pipelines that have begun run to their end.
//! Not here: what each node does next (`walk`), rows of what is skipped (`skip`), verdicts (`ending`).

use grid_types::{JobId, JobStatus, Outcome, Reason, Revoked, StepIndex};

use super::lease::Following;
use crate::state::{Cell, CellState, Job, Trip};
use crate::turn::Turn;

impl Turn<'_> {
    /// J1: counts a failure that no retry will mend, and trips the job when that is one too many.
    pub fn fail_for_good(&mut self, id: JobId, position: usize, from: Outcome, outcome: Outcome) {
        let step = self.state.jobs.get(&id).map(|job| job.step_of(&job.cells[position]));
        if let Some(step) = step {
            self.fail_step(id, position, step, from, outcome);
        }
    }

    /// The same of a step that need not be the one that its cell is at.
    pub fn fail_step(&mut self, id: JobId, position: usize, step: StepIndex, from: Outcome, outcome: Outcome) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let node = job.expected[position];
        job.shift(step, from, outcome, 1);
        let is_here = job.cells[position].attempt > 0 && job.place_of(&job.cells[position]) == step;
        job.cells[position].broken |= is_here;
        *job.head.failed.entry(node).or_default() += 1;
        job.head.excluded.insert(node);
        let too_many = job.spec.tolerance().is_exceeded(job.head.failed.len(), job.expected.len());
        self.touch_job(id);
        // An unresolved step was recorded when it became unknown.
        if from != outcome {
            self.record_failure(id, step, node, outcome);
        }
        if too_many {
            self.trip(id, Trip::FailFast { step, node, outcome: Some(outcome) });
        }
    }

    /// From now on only `on_failure` work: queued steps and pending retries are dropped, running ones finish. J10: so do
    /// atomic pipelines that have begun.
    pub fn trip(&mut self, id: JobId, why: Trip) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        if job.head.tripped.is_some() || job.head.status != JobStatus::Running {
            return;
        }
        let positions = job.expected.len();
        job.head.tripped = Some(why);
        self.admit_the_others(id);
        self.touch_job(id);
        self.tell_trip(id);
        for position in 0..positions {
            self.drop_by_trip(id, position);
        }
    }

    fn drop_by_trip(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let Some(node) = self.state.nodes.get(&job.expected[position]) else { return };
        let cell = &job.cells[position];
        if job.finishes(cell) || job.may_have_run(node) {
            return;
        }
        if cell.state == CellState::Parked && job.is_awaited(node) {
            // E2: its journal says whether it has run or is skipped; it needs no place in the window for that.
            job.unpark(position);
            return self.queue(id, position);
        }
        self.drop_waiting(id, position, Following::CleanUp);
    }

    /// The job has run too long: what runs is taken back, unless it is cleaning up already; then the timeouts of its
    /// tasks bound it.
    pub fn time_out(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get_mut(&id).filter(|job| job.head.status == JobStatus::Running) else {
            return;
        };
        let cleans_up = job.head.tripped.is_some() && job.may_go_on();
        job.head.tripped = Some(Trip::JobTimeout);
        job.blocked = 0;
        let queued = job.expected.iter().zip(&job.cells).filter(|(_, cell)| cell.state == CellState::Queued);
        self.wake.extend(queued.map(|(node, _)| *node));
        self.admit_the_others(id);
        self.await_nobody(id);
        self.touch_job(id);
        self.tell_trip(id);
        if !cleans_up {
            self.withdraw(id, Revoked::JobTimeout);
            self.settle_unreached(id);
        }
    }
}

impl Job {
    /// Whether the current phase may still do new work: not after a trip, unless it is there for that.
    pub(crate) fn may_go_on(&self) -> bool {
        self.head.tripped.is_none() || self.cleans_up()
    }

    /// The same, on one node.
    pub(crate) fn goes_on(&self, cell: &Cell) -> bool {
        self.may_go_on() || self.finishes(cell)
    }

    /// J10: the node has begun an atomic pipeline and is walked to its end although fail-fast tripped.
    pub(crate) fn finishes(&self, cell: &Cell) -> bool {
        let atomic = self.current_phase().is_some_and(|phase| phase.atomic);
        atomic && cell.entered && matches!(self.head.tripped, Some(Trip::FailFast { .. }))
    }
}

impl Trip {
    /// Why what follows is skipped.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::FailFast { .. } => Reason::FailFast,
            Self::JobTimeout => Reason::JobTimeout,
        }
    }
}
