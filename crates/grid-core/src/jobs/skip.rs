//! Records steps that will not run: one row for a sequence of them, for one node or for all.
//!
//! I9: a skipped row was pending before, and is counted once.

use grid_types::job::Phase;
use grid_types::{JobId, Outcome, Reason, StepIndex};

use super::ahead::Passing;
use crate::changes::{History, SkipRow};
use crate::turn::Turn;

impl Turn<'_> {
    /// Steps of one node that will not run; its rows there were pending.
    pub fn skip_steps(&mut self, id: JobId, position: usize, from: StepIndex, count: u32, reason: &Reason) {
        let to = StepIndex(from.0 + count);
        self.take_known(id, position, from, to, Passing::By);
        let Some(job) = self.state.jobs.get(&id) else { return };
        let leased = job.lease_of(&job.cells[position]).map(|(lease, _)| lease.step);
        let is_open = |step: &StepIndex| {
            !job.is_done(*step, position)
                && leased != Some(*step)
                && (job.head.restored.is_none() || self.recorded(id, position, *step).is_none())
        };
        let open: Vec<_> = (from.0..to.0).map(StepIndex).filter(is_open).collect();
        // One row for all of them, unless some have an outcome.
        for run in open.chunk_by(|a, b| a.0 + 1 == b.0) {
            if let [first, .., last] | [first @ last] = run {
                self.skip_run(id, position, *first, StepIndex(last.0 + 1), reason);
            }
        }
    }

    fn skip_run(&mut self, id: JobId, position: usize, from: StepIndex, to: StepIndex, reason: &Reason) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        for step in from.0..to.0 {
            job.shift(StepIndex(step), Outcome::Pending, Outcome::Skipped, 1);
        }
        let row = SkipRow {
            job: id,
            job_epoch: job.head.epoch,
            from,
            to,
            node: Some(job.expected[position]),
            reason: reason.clone(),
            leader_epoch: self.state.meta.leadership.epoch,
        };
        self.push_skip(row);
    }

    /// What is left of the phase on one node, from `ahead` of where its cell is.
    pub fn skip_rest(&mut self, id: JobId, position: usize, ahead: u32, reason: &Reason) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let Some(phase) = job.current_phase() else { return };
        let sub = job.cells[position].sub + ahead;
        let count = len(phase).saturating_sub(sub);
        let from = StepIndex(job.first_step().0 + sub);
        if count > 0 {
            self.skip_steps(id, position, from, count, reason);
        }
    }

    /// Steps that no expected node has entered.
    pub fn skip_for_all(&mut self, id: JobId, from: StepIndex, to: StepIndex, reason: &Reason) {
        let restored = self.state.jobs.get(&id).filter(|job| job.head.restored.is_some());
        for position in 0..restored.map_or(0, |job| job.cells.len()) {
            self.take_known(id, position, from, to, Passing::By);
        }
        let Some(job) = self.state.jobs.get_mut(&id).filter(|job| from < to && !job.expected.is_empty()) else {
            return;
        };
        for step in from.0..to.0 {
            // All but those that an earlier run has done.
            let tally = job.head.tallies.get(usize::try_from(step).unwrap_or(usize::MAX)).copied().unwrap_or_default();
            job.shift(StepIndex(step), Outcome::Pending, Outcome::Skipped, tally.count(Outcome::Pending));
        }
        let row = SkipRow {
            job: id,
            job_epoch: job.head.epoch,
            from,
            to,
            node: None,
            reason: reason.clone(),
            leader_epoch: self.state.meta.leadership.epoch,
        };
        self.push_skip(row);
    }

    /// Neighbours of one node for one reason are one row.
    fn push_skip(&mut self, row: SkipRow) {
        if let Some(History::Skip(last)) = self.changes.history.last_mut() {
            let same = (last.job, last.job_epoch, last.node) == (row.job, row.job_epoch, row.node);
            if same && last.to == row.from && last.reason == row.reason {
                last.to = row.to;
                return;
            }
        }
        self.changes.history.push(History::Skip(row));
    }
}

/// Tasks of a phase, as steps are counted.
pub(crate) fn len(phase: &Phase) -> u32 {
    u32::try_from(phase.tasks.len()).unwrap_or(u32::MAX)
}
