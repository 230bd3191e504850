//! How attempts, steps and jobs end in the model: results and retries, the tolerance (J1), what nobody knows (W8), cancel and
//! timeout (W9).

use grid_types::decl::EffectClass;
use grid_types::job::{Condition, OnUnknown};
use grid_types::{JobStatus, Outcome};

use super::{At, Job, Trip, Walk, Why};
use crate::share::Budget;

/// What a worker says of an attempt that it reports: any mixture will do, if both sides see the same.
pub fn says_changed(step: u32, node: u32, attempt: u32) -> Option<bool> {
    [None, Some(false), Some(true)][((step * 5 + node * 7 + attempt) % 3) as usize]
}

impl Job {
    /// An attempt has ended: another one follows, a person is asked, or it is for good.
    pub fn attempt_ended(&mut self, node: u32, outcome: Outcome, now_ms: u64) {
        let walk = self.walks[&node];
        let task = self.task_of(&walk);
        // Of what is unknown nobody can say that it does not run any more: it is never tried again by itself.
        let may_retry = match outcome {
            Outcome::Failed => true,
            Outcome::TimedOut => task.effect != EffectClass::Once,
            _ => false,
        };
        let known =
            (outcome != Outcome::Unknown).then(|| says_changed(self.step_of(&walk), node, walk.attempt)).flatten();
        let changed = known.unwrap_or(task.effect != EffectClass::Pure);
        let (may_go_on, max_retries) = (self.may_run_on(node, task.condition), task.max_retries);
        let may_wait = self.spec.on_unknown == OnUnknown::Wait && self.may_run_on(node, Condition::Always);
        if task.effect != EffectClass::Pure && (outcome != Outcome::Success || changed) {
            self.touched.insert((self.step_of(&walk), node));
        }
        self.walk(node).changed |= changed;
        let walk = self.walks[&node];
        if outcome == Outcome::Unknown {
            self.note_unknown(node);
        }
        if may_retry && may_go_on && walk.attempt <= max_retries {
            let walk = self.walk(node);
            walk.attempt += 1;
            (walk.last, walk.at) = (Some(outcome), At::Backoff { since_ms: now_ms });
        } else if outcome == Outcome::Unknown && may_wait {
            self.walk(node).at = At::Unresolved;
        } else {
            self.settle(node, outcome, walk.attempt);
        }
    }

    pub fn note_unknown(&mut self, node: u32) {
        let walk = self.walks[&node];
        if let At::Leased { epoch, .. } = walk.at {
            self.unknown.insert((self.step_of(&walk), node), (epoch, walk.attempt));
        }
    }

    /// The outcome of the node's current sub-step, for good.
    pub fn settle(&mut self, node: u32, outcome: Outcome, attempts: u32) {
        let walk = self.walks[&node];
        self.rows.insert((self.step_of(&walk), node), (outcome, attempts));
        let broken = walk.broken || outcome.is_failure();
        *self.walk(node) = Walk { sub: walk.sub + 1, attempt: 1, last: None, broken, at: At::Waiting, ..walk };
        if outcome.is_failure() {
            self.excluded.insert(node);
            let budget = Budget::of(&self.spec.tolerance());
            if self.tripped.is_none() && budget.is_exceeded(self.failed(), self.expected.len()) {
                self.tripped = Some(Trip::Tolerance);
                self.admit_all();
                self.reconsider();
            }
        }
        self.skip_forward(node);
    }

    /// After a trip or a cancel: what has no lease and may not get one any more is decided now.
    fn reconsider(&mut self) {
        if !self.in_phase {
            return;
        }
        for node in self.walks.keys().copied().collect::<Vec<_>>() {
            let walk = self.walks[&node];
            if walk.sub == self.phase().tasks.len() || self.finishes(node) {
                continue;
            }
            match (walk.at, walk.last) {
                (At::Leased { .. } | At::Ended, _) => {}
                (At::Parked, _) if self.may_run(Condition::Always) => {}
                (At::Parked, _) => self.unpark(node),
                (At::Unresolved, _) => self.settle(node, Outcome::Unknown, walk.attempt),
                // J1: tripping also cancels pending retries.
                (At::Waiting | At::Backoff { .. }, Some(last)) => self.settle(node, last, walk.attempt - 1),
                (At::Waiting | At::Backoff { .. }, None) => self.skip_forward(node),
            }
        }
    }

    fn revoke_all(&mut self, why: Why) {
        for walk in self.walks.values_mut() {
            if let At::Leased { revoked, .. } = &mut walk.at {
                *revoked = Some(why);
            }
        }
        self.epoch += 1;
    }

    pub fn cancel(&mut self) {
        let was_pending = self.status == JobStatus::Pending;
        self.status = JobStatus::Cancelled;
        self.gate = false;
        self.admit_all();
        if !was_pending {
            self.revoke_all(Why::Cancel);
            self.reconsider();
        }
        for (node, walk) in self.walks.clone().into_iter().filter(|_| self.in_phase) {
            let first = self.first_step(self.phase);
            let rest = self.step_of(&walk) + 1..first + u32::try_from(self.phase().tasks.len()).unwrap();
            for step in rest.filter(|_| matches!(walk.at, At::Leased { .. })) {
                if !self.done.contains(&(step, node)) {
                    self.rows.insert((step, node), (Outcome::Skipped, 0));
                }
            }
        }
        let from = if self.in_phase { self.phase + 1 } else { self.phase };
        for phase in from..self.spec.phases.len() {
            for node in self.expected.clone() {
                self.skip_phase(phase, node);
            }
        }
    }

    /// The job's own timeout.
    pub fn time_is_over(&mut self) {
        self.admit_all();
        self.deadline_ms = None;
        let cleans_up = self.tripped.is_some() && self.may_run(Condition::Always);
        self.tripped = Some(Trip::Timeout);
        // A clean-up is bounded by the timeouts of its own tasks.
        if !cleans_up {
            self.revoke_all(Why::Timeout);
            self.reconsider();
        }
    }

    /// The leader's backstop: nobody knows how it ended, unless it never began (E8).
    pub fn expire(&mut self, node: u32, now_ms: u64) {
        if self.never_ran(node) {
            self.take_back(node);
        } else {
            self.attempt_ended(node, Outcome::Unknown, now_ms);
        }
    }

    /// The lease never reached its worker: as if it had not been offered; new work again, if there may be any.
    pub fn take_back(&mut self, node: u32) {
        let walk = self.walks[&node];
        match (walk.at, walk.last) {
            (At::Leased { revoked: Some(_), .. }, _) => self.confirm_revoke(node, None),
            (At::Leased { .. }, last) => {
                // W3: what is idempotent starts without a trace.
                let may_have_run = self.task_of(&walk).effect == EffectClass::Idempotent;
                self.walk(node).changed |= may_have_run;
                self.walk(node).at = At::Waiting;
                match last {
                    _ if self.may_run_on(node, Condition::Always) => {}
                    Some(last) => self.settle(node, last, walk.attempt - 1),
                    None => self.skip_forward(node),
                }
            }
            _ => {}
        }
    }

    /// W9: the worker says how a revoked lease ended.
    pub fn confirm_revoke(&mut self, node: u32, ended: Option<Outcome>) {
        let walk = self.walks[&node];
        let At::Leased { revoked: Some(why), .. } = walk.at else { panic!("{node} has no revoked lease") };
        // Whether it changed anything is not said. Only of a `once` lease is it certain that it never started.
        let task = self.task_of(&walk).clone();
        if task.effect == EffectClass::Idempotent || (task.effect == EffectClass::Once && ended.is_some()) {
            self.touched.insert((self.step_of(&walk), node));
        }
        self.walk(node).changed |= task.effect != EffectClass::Pure;
        // What had ended before is kept, and so is that nobody knows.
        let outcome = match (ended, why) {
            (Some(Outcome::Unknown), _) => Outcome::Unknown,
            (Some(before @ (Outcome::Success | Outcome::Failed | Outcome::TimedOut)), _) => before,
            (_, Why::Cancel) => Outcome::Cancelled,
            (_, Why::Timeout) => Outcome::TimedOut,
        };
        self.settle(node, outcome, walk.attempt);
    }

    /// W8: the journal settles what was unknown.
    pub fn journal_says(&mut self, step: u32, node: u32, outcome: Outcome, now_ms: u64) {
        let (_, attempt) = self.unknown.remove(&(step, node)).unwrap();
        if let Some(row) = self.rows.get_mut(&(step, node)) {
            *row = (outcome, attempt);
            return;
        }
        assert_eq!(self.walks[&node].at, At::Unresolved, "whatever is unknown has ended or waits for a person");
        self.attempt_ended(node, outcome, now_ms);
    }
}
