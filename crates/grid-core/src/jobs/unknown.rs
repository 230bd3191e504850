//! Settles steps whose outcome was unknown, from the worker's journal or by an operator (W8).
//!
//! Under `on_unknown: fail` an unknown counts as failed at once, and a later word of the journal only corrects the row and
//! the count: the node stays excluded, and the reasons of what was skipped there say no more than that it was unknown. Under `on_unknown: wait` its cell stays open, unresolved, and goes on from there.

use grid_types::{Attempt, JobId, LeaseKey, NodeOrd, Outcome, StepIndex};

use super::lease::may_retry;
use super::report::Report;
use crate::state::{CellState, Job};
use crate::turn::Turn;

impl Turn<'_> {
    /// W8: the worker's journal says after all how an `unknown` ended.
    pub fn settle_unknown(&mut self, id: JobId, ord: NodeOrd, lease: LeaseKey, report: Report) {
        let waits = self.state.jobs.get(&id).and_then(|job| job.position(ord)).filter(|position| {
            let job = &self.state.jobs[&id];
            let cell = &job.cells[*position];
            cell.state == CellState::Unresolved && job.step_of(cell) == lease.step
        });
        if let Some(position) = waits {
            return self.resolve_by_journal(id, position, report);
        }
        let outcome = report.outcome;
        self.push_result(ord, lease, report);
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        job.head.unknown.remove(&(lease.step, ord));
        job.shift(lease.step, Outcome::Unknown, outcome, 1);
        if outcome.is_failure() {
            self.record_failure(id, lease.step, ord, outcome);
        } else if let Some(steps) = job.head.failed.get_mut(&ord) {
            *steps = steps.saturating_sub(1);
            if *steps == 0 {
                job.head.failed.remove(&ord);
            }
        }
        self.changes.jobs.insert(id);
    }

    /// A definite failure may be tried again, if the job asked for it: as if it had been reported in time.
    fn resolve_by_journal(&mut self, id: JobId, position: usize, report: Report) {
        let outcome = report.outcome;
        let again = self.state.jobs.get(&id).is_some_and(|job| may_retry(job, &job.cells[position], outcome));
        if !again {
            return self.resolve(id, position, report);
        }
        let Some((ord, lease)) = self.close_unresolved(id, position) else { return };
        self.push_result(ord, lease, report);
        self.back_off(id, position, Outcome::Unknown, outcome);
    }

    /// It is known after all how an unresolved step ended: the node goes on from there.
    pub fn resolve(&mut self, id: JobId, position: usize, report: Report) {
        let Some((ord, lease)) = self.close_unresolved(id, position) else { return };
        let outcome = report.outcome;
        self.push_result(ord, lease, report);
        if outcome.is_failure() {
            self.fail_for_good(id, position, Outcome::Unknown, outcome);
        } else if let Some(job) = self.state.jobs.get_mut(&id) {
            job.shift(lease.step, Outcome::Unknown, outcome, 1);
        }
        self.step_over(id, position);
    }

    /// W8: another attempt of an unresolved step, because an operator asked for it.
    pub fn run_again(&mut self, id: JobId, position: usize) {
        let Some((_, lease)) = self.close_unresolved(id, position) else { return };
        if let Some(job) = self.state.jobs.get_mut(&id) {
            job.shift(lease.step, Outcome::Unknown, Outcome::Pending, 1);
            job.cells[position].attempt += 1;
            job.cells[position].last = Some(Outcome::Unknown);
        }
        self.queue(id, position);
    }

    fn close_unresolved(&mut self, id: JobId, position: usize) -> Option<(NodeOrd, LeaseKey)> {
        let job = self.state.jobs.get_mut(&id)?;
        let ord = job.expected[position];
        let (step, attempt) = (job.step_of(&job.cells[position]), Attempt(job.cells[position].attempt));
        job.cells[position].state = CellState::Idle;
        job.unresolved = job.unresolved.saturating_sub(1);
        job.head.unknown.remove(&(step, ord));
        let lease = LeaseKey { job: id, job_epoch: job.head.epoch, step, attempt };
        self.touch_cell(id, position);
        Some((ord, lease))
    }
}

impl Job {
    /// W8: whether a report says after all how an `unknown` step ended.
    pub(crate) fn settles_unknown(&self, node: NodeOrd, lease: LeaseKey, outcome: Outcome) -> bool {
        let known = self.head.unknown.get(&(lease.step, node));
        // Of this run: an earlier one counted its attempts from 1, too.
        let of_this_run = lease.job_epoch >= self.head.run_epoch;
        known == Some(&lease.attempt) && of_this_run && outcome != Outcome::Unknown && !self.head.status.is_ended()
    }

    /// Whether a step has failed on the node. Outcomes that are still unknown count as failures too (J1), but the journal
    /// may say later that they were none.
    pub(crate) fn failure_is_known(&self, node: NodeOrd) -> bool {
        let failed = self.head.failed.get(&node).map_or(0, |failed| usize::try_from(*failed).unwrap_or(usize::MAX));
        failed > 0 && (self.head.unknown.is_empty() || failed > self.unknown_steps(node, 0, self.spec.step_count()))
    }

    /// The same of the steps of the current phase. A pipeline that is broken stays so although nothing failed there.
    pub(crate) fn pipeline_failure_is_known(&self, position: usize) -> bool {
        let (node, first) = (self.expected[position], self.first_step());
        let tasks = self.current_phase().map_or(0, |phase| phase.tasks.len());
        self.head.failed.contains_key(&node) && self.unknown_steps(node, first.0, tasks) == 0
    }

    /// Whether any node is known to have failed. Asked between phases: then every unknown outcome counts as a failure.
    pub(crate) fn any_failure_is_known(&self) -> bool {
        let failed: u64 = self.head.failed.values().map(|steps| u64::from(*steps)).sum();
        failed > u64::try_from(self.head.unknown.len()).unwrap_or(u64::MAX)
    }

    fn unknown_steps(&self, node: NodeOrd, first: u32, steps: usize) -> usize {
        let steps = (first..).map(StepIndex).take(steps);
        steps.filter(|step| self.head.unknown.contains_key(&(*step, node))).count()
    }
}
