//! One job as docs/jobs.md and docs/protocol.md (J1–J11, W7–W9) describe it: written from them, not from the
//! state machine. Slow and plain on purpose: every node of a phase has a walk, every (step, node) a row.
//!
//! Not here: who gets a free slot or a free place in the window first. The documents leave that open, so the cluster
//! watches what was chosen and asks this file whether it was allowed (`cluster`).

mod ends;

pub use ends::says_changed;

use std::collections::{BTreeMap, BTreeSet};

use grid_types::decl::EffectClass;
use grid_types::job::{Concurrency, Condition, JobSpec, Offline, Phase, PhaseNodes, Task};
use grid_types::{JobStatus, Outcome};

use crate::share::Budget;

/// Why a lease was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Cancel,
    Timeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Has no place in the window yet, and has looked at nothing of the phase.
    Parked,
    /// Wants its step offered.
    Waiting,
    /// Wants it again, but not before the backoff is over.
    Backoff { since_ms: u64 },
    Leased {
        epoch: u32,
        revoked: Option<Why>,
        /// W3: the worker process that was allowed to start it.
        begun: Option<u64>,
    },
    /// Nobody knows how it ended; a person is to say.
    Unresolved,
    /// Nothing left for this node in this phase.
    Ended,
}

/// Where one node is in the current phase.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    pub sub: usize,
    /// That runs or comes next.
    pub attempt: u32,
    /// How the attempt before ended.
    pub last: Option<Outcome>,
    /// J5: a sub-step has failed here.
    pub broken: bool,
    /// Whether a task of this pipeline may have changed something here.
    pub changed: bool,
    /// J2: has a place in the window until it ends.
    pub entered: bool,
    /// Has had a lease in this phase.
    pub begun: bool,
    pub at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trip {
    Tolerance,
    Timeout,
}

#[derive(Debug, Clone)]
pub struct Job {
    pub spec: JobSpec,
    pub status: JobStatus,
    pub epoch: u32,
    pub expected: Vec<u32>,
    pub phase: usize,
    /// The phase has begun and is not decided.
    pub in_phase: bool,
    pub gate: bool,
    pub confirmed: bool,
    /// J13: while the phase is only for its first nodes.
    pub first: Option<BTreeSet<u32>>,
    /// They are through, and a person is to say whether the others follow.
    pub asks: bool,
    /// Nodes that are there now.
    pub online: BTreeSet<u32>,
    pub walks: BTreeMap<u32, Walk>,
    /// Settled (step, node): outcome and attempts.
    pub rows: BTreeMap<(u32, u32), (Outcome, u32)>,
    /// Succeeded in an earlier run.
    pub done: BTreeSet<(u32, u32)>,
    /// Ended, in any run, in another way than as a success without a change.
    pub touched: BTreeSet<(u32, u32)>,
    /// The same, in an earlier run.
    pub touched_before: BTreeSet<(u32, u32)>,
    pub excluded: BTreeSet<u32>,
    pub tripped: Option<Trip>,
    pub unreached: bool,
    missed: bool,
    /// Some node was offline when its turn came, in any phase.
    was_missed: bool,
    /// J11: nodes of which something was skipped because they were offline.
    pub skipped_offline: BTreeSet<u32>,
    /// W8: leases (job epoch, attempt) whose end nobody knows, which the worker's journal may settle once.
    pub unknown: BTreeMap<(u32, u32), (u32, u32)>,
    pub deadline_ms: Option<u64>,
    pub left_ms: u64,
}

impl Job {
    pub fn new(spec: JobSpec, epoch: u32) -> Self {
        let left_ms = spec.timeout_ms();
        Self {
            spec,
            status: JobStatus::Pending,
            epoch,
            expected: Vec::new(),
            phase: 0,
            in_phase: false,
            gate: false,
            confirmed: false,
            first: None,
            asks: false,
            online: BTreeSet::new(),
            walks: BTreeMap::new(),
            rows: BTreeMap::new(),
            done: BTreeSet::new(),
            touched: BTreeSet::new(),
            touched_before: BTreeSet::new(),
            excluded: BTreeSet::new(),
            tripped: None,
            unreached: false,
            missed: false,
            was_missed: false,
            skipped_offline: BTreeSet::new(),
            unknown: BTreeMap::new(),
            deadline_ms: None,
            left_ms,
        }
    }

    /// A further run of an ended job: what has succeeded is done, but for clean-up, which is wanted again.
    pub fn resumed(&self) -> Self {
        let succeeded = self.rows.iter().filter(|(_, row)| row.0 == Outcome::Success).map(|(key, _)| *key);
        let mut again = Self::new(self.spec.clone(), self.epoch + 1);
        again.done = self.done.iter().copied().chain(succeeded).filter(|(step, _)| !self.is_cleanup(*step)).collect();
        again.touched.clone_from(&self.touched);
        again.touched_before.clone_from(&self.touched);
        again.expected = self.expected.clone();
        again
    }

    fn is_cleanup(&self, step: u32) -> bool {
        let (phase, task) = self.spec.steps().nth(step as usize).unwrap();
        task.condition == Condition::OnFailure || self.spec.phases[phase].condition == Condition::OnFailure
    }

    pub fn start(&mut self, nodes: &[u32], now_ms: u64) {
        if self.expected.is_empty() {
            self.expected = nodes.to_vec();
        }
        self.status = JobStatus::Running;
        self.deadline_ms = Some(now_ms + self.left_ms);
    }

    fn phase(&self) -> &Phase {
        &self.spec.phases[self.phase]
    }

    fn first_step(&self, phase: usize) -> u32 {
        u32::try_from(self.spec.phases[..phase].iter().map(|p| p.tasks.len()).sum::<usize>()).unwrap()
    }

    pub fn step_of(&self, walk: &Walk) -> u32 {
        self.first_step(self.phase) + u32::try_from(walk.sub).unwrap()
    }

    pub fn task_of(&self, walk: &Walk) -> &Task {
        &self.phase().tasks[walk.sub]
    }

    /// Nodes that have failed in this run, for good.
    fn failed(&self) -> usize {
        let nodes: BTreeSet<u32> = self.rows.iter().filter(|(_, r)| r.0.is_failure()).map(|((_, n), _)| *n).collect();
        nodes.len()
    }

    fn has_failed(&self, node: u32) -> bool {
        self.rows.iter().any(|((_, n), row)| *n == node && row.0.is_failure())
    }

    /// One move of the phases; false if there is none to make.
    pub fn go_on(&mut self) -> bool {
        if self.status != JobStatus::Running || self.gate {
            return false;
        }
        if self.in_phase {
            if self.walks.values().any(|walk| walk.at != At::Ended) {
                let is_over = |node: &u32| self.walks[node].at == At::Ended;
                let through = self.first.as_ref().is_some_and(|first| first.iter().all(is_over));
                let asked = std::mem::replace(&mut self.asks, through);
                return self.asks && !asked;
            }
            self.decide_phase();
        } else if self.phase == self.spec.phases.len() {
            self.finish();
        } else {
            self.begin_phase();
        }
        true
    }

    fn begin_phase(&mut self) {
        let has_failed = self.tripped.is_some() || self.failed() > 0 || self.unreached;
        let runs = match self.phase().condition {
            Condition::Always | Condition::OnChanged => self.tripped.is_none(),
            Condition::OnSuccess => !has_failed,
            Condition::OnFailure => has_failed,
        };
        let takes_part = |node: &u32| runs && self.is_meant(*node);
        let (active, idle): (Vec<u32>, Vec<u32>) = self.expected.clone().into_iter().partition(takes_part);
        if !active.is_empty() && self.phase().confirm && !self.confirmed && self.has_work(&active) {
            self.gate = true;
            return;
        }
        self.confirmed = false;
        for node in idle {
            self.skip_phase(self.phase, node);
        }
        if active.is_empty() {
            self.unreached |= runs && !self.is_for_failures();
            self.phase += 1;
            return;
        }
        (self.in_phase, self.missed) = (true, false);
        self.first = self.first_of(&active);
        let at = if self.phase_has_window() { At::Parked } else { At::Waiting };
        let fresh =
            Walk { sub: 0, attempt: 1, last: None, broken: false, changed: false, entered: false, begun: false, at };
        self.walks = active.iter().map(|node| (*node, fresh)).collect();
        for node in active.into_iter().filter(|_| at == At::Waiting) {
            self.skip_forward(node);
        }
    }

    pub fn is_for_failures(&self) -> bool {
        self.phase().condition == Condition::OnFailure
    }

    /// J9: whether the phase, now that it begins, is for this node.
    fn is_meant(&self, node: u32) -> bool {
        let (failed, excluded) = (self.has_failed(node), self.excluded.contains(&node));
        if !self.is_for_failures() {
            return !excluded;
        }
        let unless_said = match (self.tripped, self.failed()) {
            (Some(_), _) | (None, 0) => PhaseNodes::All,
            (None, _) => PhaseNodes::Failed,
        };
        match self.phase().nodes.unwrap_or(unless_said) {
            PhaseNodes::Failed => failed,
            PhaseNodes::Healthy => !failed && !excluded,
            PhaseNodes::All => true,
        }
    }

    /// Whether a person's word would let anything run.
    fn has_work(&self, active: &[u32]) -> bool {
        let first = self.first_step(self.phase);
        let wants = |step: u32, task: &Task, node: u32| {
            let runs = match task.condition {
                Condition::Always => true,
                Condition::OnSuccess => !self.has_failed(node),
                Condition::OnFailure => self.has_failed(node),
                // What an earlier run did counts as a change.
                Condition::OnChanged => (first..step).zip(&self.phase().tasks).any(|(before, task)| {
                    let key = (before, node);
                    let ran = self.done.contains(&key) || self.touched_before.contains(&key);
                    ran && task.effect != EffectClass::Pure
                }),
            };
            runs && !self.done.contains(&(step, node))
        };
        (first..).zip(&self.phase().tasks).any(|(step, task)| active.iter().any(|node| wants(step, task, *node)))
    }

    fn skip_phase(&mut self, phase: usize, node: u32) {
        let first = self.first_step(phase);
        for step in first..first + u32::try_from(self.spec.phases[phase].tasks.len()).unwrap() {
            if !self.done.contains(&(step, node)) {
                self.rows.entry((step, node)).or_insert((Outcome::Skipped, 0));
            }
        }
    }

    /// Passes over sub-steps that do not run on this node, up to one that does.
    fn skip_forward(&mut self, node: u32) {
        loop {
            let walk = self.walks[&node];
            if walk.sub == self.phase().tasks.len() {
                self.walk(node).at = At::Ended;
                return;
            }
            let step = self.step_of(&walk);
            if self.done.contains(&(step, node)) {
                // Of an earlier run nobody looks up whether it changed anything.
                self.walk(node).changed |= self.task_of(&walk).effect != EffectClass::Pure;
            } else {
                let before = self.first_step(self.phase)..step;
                let touched = before.into_iter().any(|before| self.touched_before.contains(&(before, node)));
                self.walk(node).changed |= touched;
                let walk = self.walks[&node];
                let condition = self.task_of(&walk).condition;
                let wanted = match condition {
                    Condition::Always => !walk.broken,
                    Condition::OnSuccess => !walk.broken && !self.has_failed(node),
                    Condition::OnFailure => walk.broken || self.has_failed(node),
                    Condition::OnChanged => !walk.broken && walk.changed,
                };
                if wanted && self.may_run_on(node, condition) {
                    return;
                }
                self.rows.insert((step, node), (Outcome::Skipped, 0));
            }
            self.walk(node).sub += 1;
        }
    }

    /// After the trip only clean-up runs: the phase's, or a broken pipeline's own (J5).
    fn may_run(&self, condition: Condition) -> bool {
        let cleans_up = condition == Condition::OnFailure || self.phase().condition == Condition::OnFailure;
        self.status == JobStatus::Running && (self.tripped.is_none() || cleans_up)
    }

    /// J10: a node that has begun an atomic pipeline goes to its end, whatever failed elsewhere.
    pub fn finishes(&self, node: u32) -> bool {
        let only_failures = self.status == JobStatus::Running && self.tripped == Some(Trip::Tolerance);
        only_failures && self.phase().atomic && self.walks[&node].begun
    }

    pub fn may_run_on(&self, node: u32, condition: Condition) -> bool {
        self.may_run(condition) || self.finishes(node)
    }

    pub fn walk(&mut self, node: u32) -> &mut Walk {
        self.walks.get_mut(&node).unwrap()
    }

    /// The phase's own beats the job's; a share is rounded down, but never to nothing.
    fn room(&self) -> Option<usize> {
        let window = self.phase().concurrency.as_ref().or(self.spec.concurrency.as_ref())?;
        Some(match window {
            Concurrency::Nodes(nodes) => *nodes as usize,
            Concurrency::Share(share) => Budget::read(&share.to_string()).floor_of(self.expected.len()).max(1),
        })
    }

    pub fn phase_has_window(&self) -> bool {
        self.room().is_some() || self.canaries().is_some()
    }

    /// J13: the phase's own beats the job's, and a clean-up has none; a share is rounded down, but never to nothing.
    fn canaries(&self) -> Option<usize> {
        let first = self.phase().first.as_ref().or(self.spec.first.as_ref()).filter(|_| !self.is_for_failures())?;
        Some(match first {
            Concurrency::Nodes(nodes) => *nodes as usize,
            Concurrency::Share(share) => Budget::read(&share.to_string()).floor_of(self.expected.len()).max(1),
        })
    }

    /// By their ids, who is there before who is not, of those that have something to do. Nobody, if all of them would be first.
    fn first_of(&self, active: &[u32]) -> Option<BTreeSet<u32>> {
        let count = self.canaries()?;
        let mut busy: Vec<u32> = active.iter().copied().filter(|node| self.has_work(&[*node])).collect();
        busy.sort_by_key(|node| (!self.online.contains(node), format!("node-{node}")));
        (busy.len() > count).then(|| busy.into_iter().take(count).collect())
    }

    /// Nobody waits for the first nodes any more.
    pub fn admit_all(&mut self) {
        (self.first, self.asks) = (None, false);
    }

    /// J2: a place in the phase's window.
    pub fn has_place(&self, node: u32) -> bool {
        let inside = self.walks.values().filter(|walk| walk.entered && walk.at != At::Ended).count();
        let admitted = self.first.as_ref().is_none_or(|first| first.contains(&node));
        admitted && (self.walks[&node].entered || self.room().is_none_or(|room| inside < room))
    }

    /// Its turn has come: it looks for what it has to do.
    pub fn unpark(&mut self, node: u32) {
        self.walk(node).at = At::Waiting;
        self.skip_forward(node);
    }

    pub fn take(&mut self, node: u32) {
        let epoch = self.epoch;
        let walk = self.walk(node);
        (walk.entered, walk.begun, walk.at) = (true, true, At::Leased { epoch, revoked: None, begun: None });
    }

    /// J11. J9: a clean-up only skips.
    pub fn fails_offline(&self) -> bool {
        self.spec.offline == Offline::Fail && !self.is_for_failures()
    }

    /// J4: its turn has come and it is not there.
    pub fn pass_over(&mut self, node: u32) {
        let walk = self.walks[&node];
        match walk.last {
            // It is not tried again; where it goes on from there is asked next.
            Some(last) => return self.settle(node, last, walk.attempt - 1),
            // J11: it has failed there, without an attempt.
            None if self.fails_offline() => return self.settle(node, Outcome::Failed, 0),
            None => {}
        }
        self.skipped_offline.insert(node);
        // J9: a clean-up that nobody was there for fails no job.
        if !self.is_for_failures() {
            (self.missed, self.was_missed) = (true, true);
        }
        self.skip_phase(self.phase, node);
        self.walk(node).at = At::Ended;
    }

    /// Whether anything of the current phase has been done or tried, in this run or before.
    fn was_reached(&self) -> bool {
        let first = self.first_step(self.phase);
        let steps = first..first + u32::try_from(self.phase().tasks.len()).unwrap();
        let tried = |key: &(u32, u32)| self.rows.get(key).is_some_and(|row| row.0 != Outcome::Skipped);
        let mut keys = steps.flat_map(|step| self.expected.iter().map(move |node| (step, *node)));
        keys.any(|key| self.done.contains(&key) || tried(&key))
    }

    fn decide_phase(&mut self) {
        self.in_phase = false;
        self.admit_all();
        self.unreached |= self.missed && !self.was_reached();
        self.phase += 1;
    }

    fn finish(&mut self) {
        let none_left = self.failed() == self.expected.len();
        let succeeded = !self.done.is_empty()
            || self.rows.iter().any(|((step, _), row)| row.0 == Outcome::Success && !self.is_cleanup(*step));
        let nothing_done = self.was_missed && !succeeded;
        let failed = self.tripped.is_some() || self.unreached || none_left || nothing_done;
        self.status = if failed { JobStatus::Failed } else { JobStatus::Completed };
    }

    /// E8: a `once` lease of which nothing can have run.
    pub fn never_ran(&self, node: u32) -> bool {
        let walk = &self.walks[&node];
        let is_once = self.task_of(walk).effect == EffectClass::Once;
        is_once && matches!(walk.at, At::Leased { begun: None, .. })
    }

    pub fn has_leases(&self) -> bool {
        self.in_phase && self.walks.values().any(|walk| matches!(walk.at, At::Leased { .. }))
    }

    /// Rows of a step by the outcome they show.
    pub fn counts(&self, step: u32) -> [u32; 8] {
        let open = |node: &u32| {
            let walk = self.walks.get(node).filter(|walk| self.in_phase && self.step_of(walk) == step);
            match walk.map(|walk| walk.at) {
                Some(At::Leased { .. }) => Outcome::Running,
                Some(At::Unresolved) => Outcome::Unknown,
                _ => Outcome::Pending,
            }
        };
        let mut counts = [0; 8];
        for node in &self.expected {
            let outcome = match self.rows.get(&(step, *node)) {
                Some((outcome, _)) => *outcome,
                None if self.done.contains(&(step, *node)) => Outcome::Success,
                None => open(node),
            };
            counts[outcome as usize] += 1;
        }
        counts
    }
}
