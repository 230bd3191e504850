//! Grants and takes back leases: the right of one node to run one attempt of one step.
//!
//! ```text
//!   Queued --slot free, node online--> Leased --result--> settled, or Backoff --due--> Queued
//!      |                                  |  \--node dead, lost journal, expired--> unknown, or Queued if it never ran
//!      '--node offline--> skipped, failed '--revoked--confirmed--> cancelled or timed_out
//! ```
//!
//! I3: what is not the current lease of its cell changes nothing; callers have checked that.
//! Not here: what a node does next (`walk`), sending (`grid-controller`), the worker's own timeout (`grid-worker`).

use grid_types::decl::EffectClass;
use grid_types::job::{Condition, Offline, OnUnknown, Task};
use grid_types::{Attempt, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, Reason, Revoked};

use super::backoff::backoff_ms;
use super::report::{Facts, Report};
use crate::changes::{History, ResultRow};
use crate::effect::{Effect, offer};
use crate::state::{Cell, CellState, Job, Timer};
use crate::turn::Turn;

/// What may follow on a node whose waiting step is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Following {
    /// What its job still runs there after a failure or a trip.
    CleanUp,
    /// Nothing, not even a clean-up.
    Nothing,
}

impl Turn<'_> {
    /// The cell wants a lease; it gets one at the end of the entry if a slot is free (W7).
    pub fn queue(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let node = job.expected[position];
        job.cells[position].state = CellState::Queued;
        if let Some(node) = self.state.nodes.get_mut(&node) {
            node.waiting.insert(id);
            job.blocked += u32::from(job.waits_for(node));
        }
        self.wake.insert(node);
        if job.head.restored.is_some() {
            self.recall.insert((id, position));
        }
        self.touch_cell(id, position);
    }

    /// Hands the free slots of a node to the oldest jobs that wait there.
    pub fn fill_slots(&mut self, ord: NodeOrd) {
        loop {
            let Some(node) = self.state.nodes.get_mut(&ord).filter(|node| node.has_free_slot()) else { return };
            let jobs = &self.state.jobs;
            let next = node.waiting.iter().find(|id| jobs.get(*id).is_none_or(|job| job.may_be_offered(node))).copied();
            let Some(id) = next else { return };
            node.waiting.remove(&id);
            let online = node.status.is_online();
            let Some(position) = self.state.jobs.get(&id).and_then(|job| job.position(ord)) else { continue };
            if !self.consult(id, position) {
                continue;
            }
            if online {
                self.lease(id, position);
            } else {
                self.pass_over(id, position);
            }
        }
    }

    fn lease(&mut self, id: JobId, position: usize) {
        let wall_ms = self.state.meta.wall_ms;
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let ord = job.expected[position];
        let Some(node) = self.state.nodes.get_mut(&ord) else { return };
        let epoch = job.head.epoch;
        let cell = &mut job.cells[position];
        cell.state = CellState::Leased { epoch, since_wall_ms: wall_ms, revoked: None, handed: None, begun: None };
        cell.entered = true;
        node.leased_jobs.insert(id);
        let cell = &job.cells[position];
        let step = job.step_of(cell);
        if let Some((lease, _)) = job.lease_of(cell) {
            self.effects.push(offer(job, node, lease));
        }
        job.shift(step, Outcome::Pending, Outcome::Running, 1);
        self.decide(id, ord, step);
        self.touch_cell(id, position);
    }

    /// J4: the node is offline now that it would be offered the lease.
    fn pass_over(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let ord = job.expected[position];
        let cell = job.cells[position].clone();
        let (job_epoch, step) = (job.head.epoch, job.step_of(&cell));
        // J11. A clean-up only skips (J9).
        let fails = job.spec.offline == Offline::Fail && !job.cleans_up();
        job.cells[position].state = CellState::Idle;
        self.touch_cell(id, position);
        let reason = Reason::NodeOffline { status: self.state.nodes.get(&ord).map(|node| node.status) };
        if let Some(last) = cell.last {
            self.fail_for_good(id, position, Outcome::Pending, last);
        } else if fails {
            let lease = LeaseKey { job: id, job_epoch, step, attempt: Attempt(cell.attempt.saturating_sub(1)) };
            let facts = Facts { started_wall_ms: self.state.meta.wall_ms, ..Facts::default() };
            self.push_result(ord, lease, Report::said(Outcome::Failed, Some(reason), facts));
            self.fail_for_good(id, position, Outcome::Pending, Outcome::Failed);
        } else {
            if let Some(job) = self.state.jobs.get_mut(&id) {
                job.head.skipped_offline.set(position);
                // J9: a clean-up that nobody was there for says nothing about the job.
                job.head.offline_skips += u32::from(!job.cleans_up());
            }
            self.skip_steps(id, position, step, 1, &reason);
        }
        self.step_over(id, position);
    }

    /// The current lease of a cell has ended.
    pub fn settle(&mut self, id: JobId, position: usize, report: Report) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        if job.cells[position].ahead.is_some() {
            return self.settle_ahead(id, position, report);
        }
        let Some((lease, revoked)) = job.lease_of(&job.cells[position]) else { return };
        let ord = job.expected[position];
        let outcome = report.outcome;
        let again = may_retry(job, &job.cells[position], outcome);
        let changed = report.detail.and_then(|detail| detail.changed);
        let may_change = || job.task_of(&job.cells[position]).is_some_and(Task::may_change);
        job.cells[position].changed |= changed.unwrap_or_else(may_change);
        job.cells[position].state = CellState::Idle;
        if let Some(node) = self.state.nodes.get_mut(&ord) {
            node.leased_jobs.remove(&id);
        }
        self.wake.insert(ord);
        self.push_result(ord, lease, report);
        self.record_if_drained(ord);
        self.touch_cell(id, position);
        if again {
            self.back_off(id, position, Outcome::Running, outcome);
            return;
        }
        if outcome == Outcome::Unknown
            && let Some(job) = self.state.jobs.get_mut(&id)
        {
            job.head.unknown.insert((lease.step, ord), lease.attempt);
            let counts =
                revoked.is_none() && job.head.status == JobStatus::Running && job.goes_on(&job.cells[position]);
            let waits = job.spec.on_unknown == OnUnknown::Wait || job.head.held.is_some();
            if waits && counts {
                job.shift(lease.step, Outcome::Running, Outcome::Unknown, 1);
                job.cells[position].state = CellState::Unresolved;
                job.unresolved += 1;
                self.record_failure(id, lease.step, ord, outcome);
                return;
            }
        }
        if outcome.is_failure() {
            self.fail_for_good(id, position, Outcome::Running, outcome);
        } else if let Some(job) = self.state.jobs.get_mut(&id) {
            job.shift(lease.step, Outcome::Running, outcome, 1);
        }
        self.step_over(id, position);
    }

    /// Another attempt follows; the row has been `from` until now.
    pub fn back_off(&mut self, id: JobId, position: usize, from: Outcome, last: Outcome) {
        let now_ms = self.now_ms();
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let ord = job.expected[position];
        let step = job.step_of(&job.cells[position]);
        job.shift(step, from, Outcome::Pending, 1);
        let cell = &mut job.cells[position];
        cell.attempt += 1;
        cell.last = Some(last);
        let until_ms = now_ms + backoff_ms(id, step, ord, Attempt(cell.attempt));
        cell.state = CellState::Backoff { until_ms };
        self.set_timer(until_ms, Timer::Retry(id, ord));
    }

    /// Nobody can say any more how it ended.
    pub fn lose_lease(&mut self, id: JobId, position: usize, reason: Reason) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let CellState::Leased { since_wall_ms, .. } = job.cells[position].state else { return };
        let report = Report {
            outcome: Outcome::Unknown,
            reason: Some(reason),
            error: None,
            duration_ms: self.state.meta.wall_ms.saturating_sub(since_wall_ms),
            started_wall_ms: since_wall_ms,
            output_tail: Vec::new(),
            output_bytes: 0,
            detail: None,
        };
        self.settle(id, position, report);
    }

    pub fn lose_all_leases(&mut self, ord: NodeOrd, reason: &Reason) {
        let Some(node) = self.state.nodes.get(&ord) else { return };
        for id in node.leased_jobs.clone() {
            let (Some(job), Some(node)) = (self.state.jobs.get(&id), self.state.nodes.get(&ord)) else { continue };
            match job.position(ord) {
                // E8: it never ran, so nobody has to find out how it ended.
                Some(position) if job.never_ran(node) => self.take_back(id, position),
                Some(position) => self.lose_lease(id, position, reason.clone()),
                None => {}
            }
        }
    }

    /// The worker holds nothing: its leases go back into the queue or, if they were revoked, are over. One that has begun
    /// and is not held any more is unknown, whatever the worker says (W1).
    pub fn take_back_leases(&mut self, ord: NodeOrd) {
        let Some(node) = self.state.nodes.get(&ord) else { return };
        for id in node.leased_jobs.clone() {
            let Some(job) = self.state.jobs.get(&id) else { continue };
            let Some(position) = job.position(ord) else { continue };
            if job.begun(ord).is_some() {
                self.lose_lease(id, position, Reason::NotInJournal);
            } else {
                self.take_back(id, position);
            }
        }
    }

    pub fn take_back(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let ord = job.expected[position];
        match job.lease_of(&job.cells[position]) {
            Some((_, Some(why))) => self.settle(id, position, Report::revoked(why, None, Facts::default())),
            Some((lease, None)) => {
                // It may have run until now, and the next attempt says nothing about that (`condition: on_changed`).
                let never_ran = self.state.nodes.get(&ord).is_some_and(|node| job.never_ran(node));
                let changed = !never_ran && job.task_of(&job.cells[position]).is_some_and(Task::may_change);
                job.cells[position].changed |= changed && job.cells[position].ahead.is_none();
                job.shift(lease.step, Outcome::Running, Outcome::Pending, 1);
                if let Some(node) = self.state.nodes.get_mut(&ord) {
                    node.leased_jobs.remove(&id);
                }
                self.queue(id, position);
                // It is new work again, and of that there may be no more.
                self.drop_if_tripped(id, position);
            }
            None => {}
        }
    }

    /// W10: revoked leases that no agent was ever given need nobody's word.
    pub fn settle_unreached(&mut self, id: JobId) {
        for position in 0..self.state.jobs.get(&id).map_or(0, |job| job.expected.len()) {
            let unreached = self.state.jobs.get(&id).is_some_and(|job| {
                let node = self.state.nodes.get(&job.expected[position]);
                node.is_some_and(|node| job.never_reached(node))
            });
            if unreached {
                self.take_back(id, position);
            }
        }
    }

    /// New work of a node that may do no more of it.
    fn drop_if_tripped(&mut self, id: JobId, position: usize) {
        if self.state.jobs.get(&id).is_some_and(|job| !job.goes_on(&job.cells[position])) {
            self.drop_waiting(id, position, Following::CleanUp);
        }
    }

    /// Raises the job epoch and takes everything back that is out or waiting in the current phase.
    pub fn withdraw(&mut self, id: JobId, why: Revoked) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        job.head.epoch = job.next_epoch();
        self.changes.jobs.insert(id);
        for position in 0..job.expected.len() {
            let Some(job) = self.state.jobs.get_mut(&id) else { return };
            let ord = job.expected[position];
            if let CellState::Leased { revoked, .. } = &mut job.cells[position].state {
                *revoked = Some(why);
                if let Some((lease, _)) = job.lease_of(&job.cells[position]) {
                    self.effects.push(Effect::Revoke { node: ord, lease });
                }
                self.touch_cell(id, position);
                if why == Revoked::Cancel {
                    self.skip_behind(id, position);
                }
            } else {
                let following = if why == Revoked::Cancel { Following::Nothing } else { Following::CleanUp };
                self.drop_waiting(id, position, following);
            }
        }
    }

    /// What would follow, on its node, a lease that is revoked by a cancel.
    fn skip_behind(&mut self, id: JobId, position: usize) {
        let ahead = self.state.jobs.get(&id).and_then(|job| job.cells[position].ahead);
        let next = match ahead {
            None => 1,
            Some(ahead) if ahead.is_open => 0,
            Some(_) => return,
        };
        self.skip_rest(id, position, next, &Reason::JobCancelled);
        if ahead.is_some() {
            self.close_cell(id, position);
        }
    }

    /// Takes a cell out of its queue or its backoff.
    pub fn drop_waiting(&mut self, id: JobId, position: usize, following: Following) {
        self.give_up_if_outstanding(id, position, following);
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let ord = job.expected[position];
        let goes_on = job.may_go_on();
        let cell = &mut job.cells[position];
        let mut last = cell.last.map(|last| (Outcome::Pending, last));
        match cell.state {
            CellState::Idle | CellState::Leased { .. } => return,
            // It goes on when the window has room; what it may then do is asked then.
            CellState::Parked if following == Following::CleanUp && goes_on => return,
            CellState::Parked => job.unpark(position),
            CellState::Unresolved => {
                job.unresolved = job.unresolved.saturating_sub(1);
                last = Some((Outcome::Unknown, Outcome::Unknown));
            }
            CellState::Queued => {
                if let Some(node) = self.state.nodes.get_mut(&ord) {
                    node.waiting.remove(&id);
                    job.blocked = job.blocked.saturating_sub(u32::from(job.waits_for(node)));
                }
            }
            CellState::Backoff { until_ms } => self.drop_timer(until_ms, Timer::Retry(id, ord)),
        }
        if let Some(job) = self.state.jobs.get_mut(&id) {
            job.cells[position].state = CellState::Idle;
        }
        self.touch_cell(id, position);
        let next = if let Some((from, last)) = last {
            self.fail_for_good(id, position, from, last);
            1
        } else {
            0
        };
        if following == Following::Nothing {
            self.skip_rest(id, position, next, &Reason::JobCancelled);
            self.close_cell(id, position);
        } else {
            self.walk_cell(id, position, next);
        }
    }

    pub fn push_result(&mut self, node: NodeOrd, lease: LeaseKey, report: Report) {
        self.remember_failure(lease.job, node, &report);
        self.changes.history.push(History::Result(ResultRow {
            job: lease.job,
            job_epoch: lease.job_epoch,
            step: lease.step,
            node,
            attempt: lease.attempt,
            outcome: report.outcome,
            reason: report.reason,
            error: report.error,
            duration_ms: report.duration_ms,
            started_wall_ms: report.started_wall_ms,
            output_tail: report.output_tail,
            output_bytes: report.output_bytes,
            leader_epoch: self.state.meta.leadership.epoch,
            detail: report.detail,
        }));
    }
}

/// W8: a `once` step is tried again only after a definite `failed`; after the job tripped only clean-up is (J1).
pub(crate) fn may_retry(job: &Job, cell: &Cell, outcome: Outcome) -> bool {
    let Some(task) = job.task_of(cell) else { return false };
    let definite = match outcome {
        Outcome::Failed => true,
        Outcome::TimedOut => task.effect != EffectClass::Once,
        _ => false,
    };
    let revoked = job.lease_of(cell).is_some_and(|(_, revoked)| revoked.is_some());
    let may_run = job.goes_on(cell) || task.condition == Condition::OnFailure;
    definite && !revoked && cell.attempt <= task.max_retries && !job.head.status.is_ended() && may_run
}
