//! Walks through a job: which phase, which step on which node, and when it is over.
//!
//! ```text
//!   start ─► enter phase ─► each node walks its sub-steps ─► decided ─► next phase … ─► conclude ─► retire
//!                 └─ condition not met: skipped for all ─┘
//! ```
//!
//! I5: a phase is entered only when no cell of the one before is open. I6: a node's next sub-step is looked for only
//! when the one before is settled. I8: after a trip only `on_failure` work is queued.
//! Not here: failures and what they stop (`trip`), which nodes a phase is for (`members`), how a queued cell gets its lease and loses it (`lease`), who is let into
//! a phase (`window`), rows of what is skipped (`skip`), verdicts (`ending`).

use std::sync::Arc;

use grid_types::job::{Condition, Task};
use grid_types::{Attempt, Event, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, Reason, StepIndex};

use super::report::{Facts, Report};
use super::skip::len;
use crate::state::{Cell, CellState, Job, Timer};
use crate::turn::Turn;

impl Turn<'_> {
    /// J6: freezes the expected nodes and enters the first phase.
    pub fn start_job(&mut self, id: JobId) {
        self.state.pending.remove(&id);
        let now_ms = self.now_ms();
        let Some(spec) = self.state.jobs.get(&id).map(|job| Arc::clone(&job.spec)) else { return };
        // A resumed job and one that is bound to a plan have them already.
        let frozen = self.state.jobs.get(&id).map(|job| job.expected.clone()).filter(|expected| !expected.is_empty());
        let expected = frozen.unwrap_or_else(|| self.state.resolve(&spec));
        let nodes = u32::try_from(expected.len()).unwrap_or(u32::MAX);
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let deadline_ms = now_ms.saturating_add(job.spec.timeout_ms());
        job.cells = vec![Cell::default(); expected.len()];
        job.expected = expected;
        job.count_afresh();
        job.head.status = JobStatus::Running;
        job.head.started_wall_ms = Some(self.state.meta.wall_ms);
        job.head.deadline_ms = Some(deadline_ms);
        self.state.running.insert(id);
        self.set_timer(deadline_ms, Timer::JobDeadline(id));
        self.changes.started.insert(id);
        self.touch_job(id);
        self.record_job_event(id, Event::JobStarted { nodes });
        if nodes == 0 {
            let target = spec.target.clone();
            self.end_job(id, JobStatus::Failed, Some(Reason::TargetGone { target }));
        } else {
            self.enter_phase(id, 0);
        }
    }

    /// A job without open cells: its phase is decided, or the last worker has confirmed a cancel.
    pub fn phase_decided(&mut self, id: JobId) {
        let is_decided = |job: &&crate::state::Job| job.open == 0 && job.head.gate.is_none();
        let Some(job) = self.state.jobs.get(&id).filter(is_decided) else { return };
        match job.head.status {
            JobStatus::Pending => {}
            // A worker has yet to confirm that nothing of it runs.
            _ if job.head.status.is_ended() && job.runs_ahead() => {}
            JobStatus::Running => {
                let next = job.head.phase + 1;
                self.note_unreached(id);
                self.enter_phase(id, next);
            }
            JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled => self.retire(id),
        }
    }

    pub fn enter_phase(&mut self, id: JobId, mut phase: u32) {
        loop {
            let Some(job) = self.state.jobs.get_mut(&id) else { return };
            let spec = Arc::clone(&job.spec);
            if job.runs_before(spec.first_step(usize::try_from(phase).unwrap_or(usize::MAX))) {
                // I5: the phase before is passed by, but for what its worker has (E2).
                self.decided.remove(&id);
                return self.touch_job(id);
            }
            let Some(entered) = usize::try_from(phase).ok().and_then(|p| spec.phases.get(p)) else {
                return self.conclude(id);
            };
            let passes_by = job.passes_by(entered.condition);
            let is_next = phase > job.head.phase && passes_by.is_some();
            if is_next && self.state.jobs.get(&id).is_some_and(|job| job.awaited(self.state).is_some()) {
                // E2: a journal may know that it ran. The first phase is passed by only if it never runs.
                self.decided.remove(&id);
                return self.touch_job(id);
            }
            let Some(job) = self.state.jobs.get_mut(&id) else { return };
            job.head.phase = phase;
            job.head.first = None;
            job.head.offline_before = job.head.offline_skips;
            if let Some(reason) = passes_by {
                let from = job.first_step();
                self.skip_for_all(id, from, StepIndex(from.0 + len(entered)), &reason);
            } else if self.passes_gate(id, phase, entered) {
                self.fill_phase(id);
            } else {
                self.decided.remove(&id);
                return;
            }
            self.touch_job(id);
            if self.state.jobs.get(&id).is_none_or(|job| job.open > 0) {
                return;
            }
            self.decided.remove(&id);
            self.note_unreached(id);
            phase += 1;
        }
    }

    /// A phase that was to run and ran nowhere, because the nodes left were offline, has not been done. J9: a clean-up may
    /// reach nobody.
    fn note_unreached(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get_mut(&id).filter(|job| !job.cleans_up()) else { return };
        let first = job.first_step();
        let steps = usize::try_from(first.0).unwrap_or(usize::MAX)..;
        let tasks = job.current_phase().map_or(0, |phase| phase.tasks.len());
        let ran = job.head.tallies.get(steps).is_some_and(|tallies| {
            tallies.iter().take(tasks).any(|tally| u64::from(tally.count(Outcome::Skipped)) < tally.total())
        });
        if !ran && job.head.offline_skips > job.head.offline_before {
            job.head.unreached.get_or_insert(first);
        }
    }

    /// Every node of the phase looks for its first sub-step, as soon as the window has a place for it.
    fn fill_phase(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        if !job.cleans_up() && job.expected.iter().all(|node| job.head.excluded.contains(node)) {
            job.head.unreached.get_or_insert(job.first_step());
        }
        let rolls = job.window().is_some();
        let members: Vec<bool> = (0..job.expected.len()).map(|position| job.is_member(position)).collect();
        for (cell, member) in job.cells.iter_mut().zip(&members) {
            cell.begin_phase(*member);
            job.open += u32::from(*member);
        }
        self.choose_first(id, &members);
        for (position, member) in members.into_iter().enumerate() {
            let runs_ahead = self.state.jobs.get(&id).is_some_and(|job| job.cells[position].ahead.is_some());
            if member && rolls && !runs_ahead {
                self.park(id, position);
            } else if member {
                self.walk_cell(id, position, 0);
            } else {
                let reason = self.state.jobs.get(&id).and_then(|job| job.left_out(position));
                self.skip_rest(id, position, 0, &reason.unwrap_or(Reason::NodeExcluded));
            }
        }
    }

    /// Looks for the cell's next sub-step, `ahead` of where it is; queues it, or closes the cell if there is none.
    pub fn walk_cell(&mut self, id: JobId, position: usize, ahead: u32) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let spec = Arc::clone(&job.spec);
        let Some(phase) = usize::try_from(job.head.phase).ok().and_then(|p| spec.phases.get(p)) else { return };
        let first = job.first_step();
        let from = job.cells[position].sub + ahead;
        for (sub, task) in (0u32..).zip(&phase.tasks).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            let Some(job) = self.state.jobs.get_mut(&id) else { return };
            let cell = &mut job.cells[position];
            if sub != cell.sub {
                (cell.sub, cell.attempt, cell.last) = (sub, 1, None);
            }
            let step = StepIndex(first.0 + sub);
            let changed = job.changed_earlier(step, position);
            job.cells[position].changed |= changed;
            if job.is_done(step, position) {
                job.cells[position].changed |= task.may_change();
                continue;
            }
            if job.reaches_ahead(position) {
                return self.touch_cell(id, position);
            }
            if let Some(outcome) = self.recorded(id, position, step) {
                self.count_recorded(id, position, step, outcome);
                if let Some(job) = self.state.jobs.get_mut(&id) {
                    job.cells[position].changed |= task.may_change();
                }
                continue;
            }
            let Some(job) = self.state.jobs.get(&id) else { return };
            // What an earlier run found unchanged may change now, if anything of the pipeline runs.
            let runs_now = job.cells[position].entered
                || (first.0..step.0).any(|before| self.recorded(id, position, StepIndex(before)).is_some());
            let unchanged = !runs_now && job.was_unchanged(step, position);
            let unchanged = unchanged.then_some(Reason::NothingChangedHere);
            if let Some(reason) = unchanged.or_else(|| job.skips(position, task)) {
                self.skip_steps(id, position, step, 1, &reason);
                let cell = self.state.jobs.get(&id).map(|job| &job.cells[position]);
                if cell.is_some_and(|cell| cell.ahead.is_none() && matches!(cell.state, CellState::Leased { .. })) {
                    // E2: its worker runs it, and goes on from here when it has ended.
                    return self.touch_cell(id, position);
                }
            } else if job.cells[position].ahead.is_some() {
                // W7: it goes on when its node has ended what it runs.
                return self.touch_cell(id, position);
            } else {
                return self.queue(id, position);
            }
        }
        self.close_cell(id, position);
    }

    /// Who is there and cannot run the task it waits for has failed it without a lease. Asked of nodes that are there only:
    /// of one that is away nobody knows what it will run when it is back (J4).
    pub fn refuse_what_it_lacks(&mut self, ord: NodeOrd) {
        let Some(node) = self.state.nodes.get(&ord) else { return };
        let lacks = |id: &JobId| {
            let job = self.state.jobs.get(id).filter(|job| job.may_be_offered(node))?;
            let position = job.position(ord)?;
            let task = job.task_of(&job.cells[position])?;
            (!node.runs(&task.backend, &task.action)).then_some((*id, position))
        };
        for (id, position) in node.waiting.iter().filter_map(lacks).collect::<Vec<_>>() {
            self.refuse(id, position);
        }
    }

    fn refuse(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let (ord, cell) = (job.expected[position], &mut job.cells[position]);
        cell.state = CellState::Idle;
        let attempt = Attempt(cell.attempt.saturating_sub(1));
        let cell = &job.cells[position];
        let lease = LeaseKey { job: id, job_epoch: job.head.epoch, step: job.step_of(cell), attempt };
        let reason = job
            .task_of(cell)
            .map(|task| Reason::BackendMissing { backend: task.backend.clone(), action: task.action.clone() });
        let facts = Facts { started_wall_ms: self.state.meta.wall_ms, ..Facts::default() };
        if let Some(node) = self.state.nodes.get_mut(&ord) {
            node.waiting.remove(&id);
        }
        self.touch_cell(id, position);
        self.push_result(ord, lease, Report::said(Outcome::Failed, reason, facts));
        self.fail_for_good(id, position, Outcome::Pending, Outcome::Failed);
        self.step_over(id, position);
    }

    /// The worker of a node was restarted. If it runs a task again, the result says what the second execution changed, and
    /// nothing about the first one, so the first one counts as a change (`condition: on_changed`).
    pub fn note_interrupted(&mut self, id: JobId, ord: NodeOrd) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let Some(position) = job.position(ord) else { return };
        let cell = &job.cells[position];
        if !cell.changed && cell.ahead.is_none() && job.task_of(cell).is_some_and(Task::may_change) {
            job.cells[position].changed = true;
            self.touch_cell(id, position);
        }
    }

    /// The cell's step is settled: on to the next, unless the job has ended meanwhile.
    pub fn step_over(&mut self, id: JobId, position: usize) {
        match self.state.jobs.get(&id).map(|job| job.head.status.is_ended()) {
            Some(false) => self.walk_cell(id, position, 1),
            // What would have followed was skipped when the job ended.
            Some(true) => self.close_cell(id, position),
            None => {}
        }
    }

    pub fn close_cell(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        job.cells[position].close();
        job.open = job.open.saturating_sub(1);
        if job.open == 0 {
            self.decided.insert(id);
        } else if !job.parked.is_empty() || job.head.first.is_some() {
            self.windows.insert(id);
        }
        self.touch_cell(id, position);
    }
}

impl Job {
    /// Why a task is skipped on one node, if it is. In a pipeline the task's condition looks at that node (J5); a
    /// leaf's has been asked of the job already.
    pub(crate) fn skips(&self, position: usize, task: &Task) -> Option<Reason> {
        self.skips_after(position, task, self.cells[position].changed)
    }

    /// The same, if earlier tasks of the pipeline have changed something on the node, or not.
    pub(crate) fn skips_after(&self, position: usize, task: &Task, changed: bool) -> Option<Reason> {
        let broken = self.cells[position].broken;
        let failed = broken || self.head.failed.contains_key(&self.expected[position]);
        let condition = task.condition;
        if condition == Condition::OnFailure {
            return (!failed).then_some(Reason::NothingFailedHere);
        }
        match &self.head.tripped {
            _ if broken && self.pipeline_failure_is_known(position) => Some(Reason::PipelineBroken),
            _ if broken => Some(Reason::UnknownInPipeline),
            Some(why) if !self.goes_on(&self.cells[position]) => Some(why.reason()),
            _ if condition == Condition::OnChanged => (!changed).then_some(Reason::NothingChangedHere),
            _ if condition != Condition::OnSuccess || !failed => None,
            _ if self.failure_is_known(self.expected[position]) => Some(Reason::StepFailedHere),
            _ => Some(Reason::UnknownHere),
        }
    }
}

#[cfg(test)]
mod tests;
