//! Holds the jobs that a backup brought back until an operator confirms them (E2).
//!
//! ```text
//!   unfinished --restored--> held --confirm--> as before
//!                              |--cancel--> cancelled
//!                              '--journals know all that is left--> ended
//! ```
//!
//! While a job is held nothing of it is offered and no timer ends it, but what the workers' journals know is taken: results
//! are recorded, and leases that a worker still has are adopted as running. What was outstanding in the backup returns to
//! its queue; `recall` decides whether it may be offered again.
//! Not here: when a restore happened (`BeginTerm`), what journals say (`recall`), admission and deadlines (`pause`).

use grid_types::decl::EffectClass;
use grid_types::job::{Condition, OnUnknown, Task};
use grid_types::{Attempt, Event, JobEpoch, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, Reason, StepIndex};
use minicbor::bytes::ByteVec;

use super::lease::Following;
use super::skip::len;
use crate::state::{CellState, Job, Node, RanState, Restored, Timer};
use crate::turn::Turn;

/// How far beyond a restored job's own epoch and attempts a lease of its lost future may lie (E2). A job has at most 100 runs and
/// 100 retries a step; what lies further ahead is forged, and would use up the numbers.
pub(crate) const MOST_AHEAD: u32 = 10_000;

impl Turn<'_> {
    /// Every unfinished job waits for an operator; `backup` is the time of what was restored.
    pub fn hold_all(&mut self, backup: &str) {
        for (ord, node) in &mut self.state.nodes {
            for past in node.past.values_mut() {
                // What was decided since an earlier restore may have run since this backup.
                past.decided.clear();
                past.is_complete = false;
                self.changes.nodes.insert(*ord);
            }
        }
        let restored = Restored::by(&self.state.meta);
        let unfinished: Vec<JobId> =
            self.state.jobs.values().filter(|job| !job.head.status.is_ended()).map(|job| job.head.id).collect();
        for id in unfinished {
            if let Some(job) = self.state.jobs.get_mut(&id) {
                job.head.held = Some(backup.to_owned());
                job.head.restored = Some(restored);
                job.head.complete_journals = None;
            }
            self.state.pending.remove(&id);
            self.touch_job(id);
            self.record_job_event(id, Event::JobHeld { backup: backup.to_owned() });
            let positions = self.state.jobs.get(&id).map_or(0, |job| job.expected.len());
            for position in 0..positions {
                self.hold_lease(id, position);
            }
        }
    }

    fn hold_lease(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let cell = &job.cells[position];
        if !matches!(cell.state, CellState::Leased { revoked: None, .. }) {
            return;
        }
        if cell.ahead.is_some() {
            return self.hold_ahead(id, position);
        }
        let task = job.task_of(cell);
        let is_once = task.is_none_or(|task| task.effect == EffectClass::Once);
        let is_wanted = job.may_go_on() || task.is_some_and(|task| task.condition == Condition::OnFailure);
        let (lease, ord) = (job.lease_of(cell), job.expected[position]);
        if let Some((lease, _)) = lease.filter(|_| is_once) {
            self.note_ran(ord, lease, RanState::Outstanding);
        }
        if is_once && !is_wanted {
            // It would not be offered again, and the row must not say that it was skipped.
            self.lose_lease(id, position, Reason::RestoredUnresolved);
        } else {
            self.take_back(id, position);
        }
    }

    /// An operator has looked: it goes on. `rerun_once`: also with `once` steps that may have run already.
    pub fn release(&mut self, id: JobId, rerun_once: bool) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        job.head.held = None;
        if let Some(restored) = &mut job.head.restored {
            restored.rerun_once = rerun_once;
        }
        self.recall.extend((0..job.cells.len()).map(|position| (id, position)));
        if job.head.status == JobStatus::Pending {
            self.state.pending.insert(id);
        }
        let gives_up = job.spec.on_unknown == OnUnknown::Fail;
        self.wake.extend(job.expected.iter().copied());
        self.touch_job(id);
        for position in 0..self.state.jobs.get(&id).map_or(0, |job| job.cells.len()) {
            let unresolved =
                self.state.jobs.get(&id).is_some_and(|job| job.cells[position].state == CellState::Unresolved);
            if unresolved && gives_up {
                self.drop_waiting(id, position, Following::CleanUp);
            }
        }
    }

    /// A step that is about to be offered may have run after the backup, unless a complete journal excludes it. The result says
    /// nothing about that, so it counts as a change (`condition: on_changed`).
    pub fn note_lost_change(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| job.head.restored.is_some()) else { return };
        let Some(node) = self.state.nodes.get(&job.expected[position]) else { return };
        let cell = &job.cells[position];
        let may_change = job.task_of(cell).is_some_and(Task::may_change);
        if may_change && !cell.changed && job.may_have_run_since(node, job.step_of(cell)) {
            if let Some(job) = self.state.jobs.get_mut(&id) {
                job.cells[position].changed = true;
            }
            self.touch_cell(id, position);
        }
    }

    /// The attempts before the one that a worker has may have run after the backup. Its result says nothing about them, so they
    /// count as a change (`condition: on_changed`).
    pub fn note_lost_attempts(&mut self, id: JobId, position: usize, epoch: JobEpoch, attempt: Attempt) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let cell = &job.cells[position];
        let has_earlier = epoch > job.head.run_epoch || attempt.0 > cell.attempt;
        if has_earlier && !cell.changed && job.task_of(cell).is_some_and(Task::may_change) {
            job.cells[position].changed = true;
            self.touch_cell(id, position);
        }
    }

    /// A worker has what is only about to be offered again: that offer is as good as made.
    pub fn adopt(&mut self, id: JobId, position: usize, epoch: JobEpoch, attempt: Attempt) {
        let wall_ms = self.state.meta.wall_ms;
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let ord = job.expected[position];
        let step = job.step_of(&job.cells[position]);
        let Some(node) = self.state.nodes.get_mut(&ord) else { return };
        let backoff = match job.cells[position].state {
            CellState::Queued => {
                node.waiting.remove(&id);
                job.blocked = job.blocked.saturating_sub(u32::from(job.waits_for(node)));
                None
            }
            CellState::Backoff { until_ms } => Some(until_ms),
            _ => return,
        };
        node.leased_jobs.insert(id);
        job.head.epoch = epoch;
        job.cells[position].attempt = attempt.0;
        // The worker has it, or may have had it: nothing of it starts a second time (W3).
        let begun = Some(ByteVec::from(node.nonce.clone()));
        job.cells[position].state =
            CellState::Leased { epoch, since_wall_ms: wall_ms, revoked: None, handed: None, begun };
        job.cells[position].entered = true;
        job.shift(step, Outcome::Pending, Outcome::Running, 1);
        if let Some(until_ms) = backoff {
            self.drop_timer(until_ms, Timer::Retry(id, ord));
        }
        self.decide(id, ord, step);
        self.touch_cell(id, position);
    }
}

impl Job {
    /// Whether a step of a restored job may have run on a node after the backup and before it was decided here.
    fn may_have_run_since(&self, node: &Node, step: StepIndex) -> bool {
        let Some(restored) = self.head.restored else { return false };
        let past = node.past.get(&self.head.id);
        let is_excluded = past.is_some_and(|past| {
            let is_unnamed = past.is_complete && !past.ran.contains_key(&step);
            past.decided.contains(&step) || (is_unnamed && node.asked >= restored.generation)
        });
        !is_excluded && !self.has_complete_journal(node.ord)
    }

    /// The position of the node, if this very lease would be offered there next.
    pub(crate) fn awaits(&self, node: NodeOrd, lease: LeaseKey) -> Option<usize> {
        let position = self.position(node)?;
        let cell = &self.cells[position];
        let waits = matches!(cell.state, CellState::Queued | CellState::Backoff { .. });
        let next = (self.head.epoch, self.step_of(cell), Attempt(cell.attempt));
        (waits && next == (lease.job_epoch, lease.step, lease.attempt)).then_some(position)
    }

    /// Whether a lease that is not out may still be offered: a worker has it from a time after the backup, or of a held job.
    /// It is left with its worker, which answers from its journal when it comes.
    #[must_use]
    pub fn may_come(&self, node: NodeOrd, lease: LeaseKey) -> bool {
        let moved_on = self.head.restored.is_some() && lease.job_epoch > self.head.epoch;
        if self.head.status.is_ended() || (lease.job_epoch != self.head.epoch && !moved_on) || !self.is_plausible(lease)
        {
            return false;
        }
        if self.head.status == JobStatus::Pending {
            return true;
        }
        let Some(position) = self.position(node) else { return false };
        let cell = &self.cells[position];
        let asked = (lease.step, lease.attempt.0);
        let here = (self.step_of(cell), cell.attempt);
        let phase = self.current_phase().map_or(0, len);
        match cell.state {
            CellState::Idle if self.head.gate.is_some() => lease.step >= self.first_step(),
            CellState::Idle => lease.step >= StepIndex(self.first_step().0 + phase),
            CellState::Leased { .. } | CellState::Unresolved => asked > here,
            CellState::Queued | CellState::Backoff { .. } | CellState::Parked => asked >= here,
        }
    }

    pub(crate) fn has_step(&self, lease: LeaseKey) -> bool {
        usize::try_from(lease.step.0).is_ok_and(|step| step < self.spec.step_count())
    }

    /// E2: whether a lease that this state does not know can be of the time after the backup.
    #[must_use]
    pub fn is_plausible(&self, lease: LeaseKey) -> bool {
        // Another restore of the lost time may have moved it on, by the clock.
        let newest = self.head.restored.map_or(self.head.epoch, |restored| self.head.epoch.max(restored.epochs_from));
        let epochs = lease.job_epoch.0.saturating_sub(newest.0);
        epochs <= MOST_AHEAD && lease.attempt.0 <= MOST_AHEAD && self.has_step(lease)
    }
}

#[cfg(test)]
mod tests;
