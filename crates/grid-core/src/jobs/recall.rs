//! Decides what may be offered of a job that a restore brought back (E2).
//!
//! ```text
//!   the node's journal …                          once                            pure, idempotent
//!   was not asked yet, the node is online         waits for the answer            offered
//!   was not asked yet, the node drains            waits for the answer            skipped, failed or waits (J11)
//!   was not asked, the node is offline and        waits for the answer            waits
//!   the job waits for it (`offline: wait`)
//!   was not asked, the node is offline otherwise  unknown                         skipped or failed (J11)
//!   does not exist: the node is an agent (W10)    unknown; offered if an          offered
//!                                                 operator said `rerun_once`
//!   holds the lease                               adopted as running              adopted as running
//!   says that it succeeded                        recorded                        recorded
//!   is complete and says that it failed           recorded                        recorded
//!   is complete and does not name it              offered: it never ran           offered
//!   anything else                                 unknown; offered if an          offered
//!                                                 operator said `rerun_once`
//! ```
//!
//! "Complete" means: the process that answers is the one that the backup knows, with the same journal, it has dropped
//! nothing of this job or a later one. The process matters because a folder that was put
//! back from an older copy has the right journal id and lacks what ran since the copy.
//! A node that is offline when the job is confirmed may have run its `once` steps after the backup, so `offline: skip` and
//! `offline: fail` do not apply to those that the job reaches there: the row must not say that they did not run. Its journal
//! settles them when it comes back while the job runs (W8).
//! While a job is held only what journals know is recorded; nothing is offered and nothing becomes unknown.
//! A resumed job starts from what the journals said while it was held: which of them were complete is kept when it ends
//! (`JobHead::complete_journals`). About a job that had ended when the backup was taken no journal is asked.
//! Not here: holding and releasing (`hold`), the command that carries the answer (`ReportJournal`).

use grid_types::decl::EffectClass;
use grid_types::node::NodeStatus;
use grid_types::{Attempt, JobEpoch, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, Reason, StepIndex};

use super::lease::Following;
use super::report::{Facts, Report};
use crate::state::{Bits, CellState, Job, Node, Ran, RanEnd, RanState, State};
use crate::turn::Turn;

/// What is to be done about a step that is reached on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recall {
    Offer,
    /// The node has yet to say what its journal knows.
    Wait,
    Adopt(JobEpoch, Attempt),
    Settle(Attempt, RanEnd),
    /// Its row says how it ended, since before the job got there.
    Passed,
    Unknown,
}

/// A `once` step that becomes `unknown` when it is reached, unless an operator allows to run it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Doubt {
    /// The step that may have run.
    pub step: StepIndex,
    /// The node on which it may have.
    pub node: NodeOrd,
    /// Its node has not registered since the restore, online or not, and may still know.
    pub is_awaited: bool,
}

impl Job {
    pub(crate) fn recall(&self, node: &Node, step: StepIndex) -> Recall {
        let Some(restored) = self.head.restored else { return Recall::Offer };
        let past = node.past.get(&self.head.id);
        if past.is_some_and(|past| past.decided.contains(&step)) {
            return Recall::Offer;
        }
        if self.has_complete_journal(node.ord) {
            return Recall::Offer;
        }
        let in_doubt = match (self.is_once(step), restored.rerun_once) {
            (true, false) => Recall::Unknown,
            (true, true) | (false, _) => Recall::Offer,
        };
        if node.asked < restored.generation {
            // After a trip the answer decides whether it ran or is skipped.
            let matters = self.is_once(step) || self.head.tripped.is_some();
            let waits = self.is_awaited(node) || self.waits_for_unasked(node);
            return if matters && waits { Recall::Wait } else { in_doubt };
        }
        let is_complete = past.is_some_and(|past| past.is_complete);
        let known = past.and_then(|past| past.ran.get(&step)).filter(|ran| ran.epoch >= self.head.run_epoch);
        let Some(Ran { epoch, attempt, state }) = known else {
            return if is_complete { Recall::Offer } else { in_doubt };
        };
        match state {
            RanState::AtWorker if self.can_adopt(*epoch) => Recall::Adopt(*epoch, *attempt),
            // It runs there under an epoch that cannot be taken over: nothing may run beside it.
            RanState::AtWorker if self.is_once(step) => Recall::Unknown,
            RanState::Ended(end) if end.outcome == Outcome::Success => Recall::Settle(*attempt, end.clone()),
            RanState::Ended(end) if is_complete && matches!(end.outcome, Outcome::Failed | Outcome::TimedOut) => {
                Recall::Settle(*attempt, end.clone())
            }
            RanState::Recorded { .. } => Recall::Passed,
            RanState::Outstanding | RanState::AtWorker | RanState::Ended(_) => in_doubt,
        }
    }

    /// Whether an earlier run of the job found that the node's journal was complete. Everything it named has a row since.
    pub(crate) fn has_complete_journal(&self, ord: NodeOrd) -> bool {
        let complete = self.head.complete_journals.as_ref();
        complete.zip(self.position(ord)).is_some_and(|(complete, position)| complete.has(position))
    }

    /// Whether the node has a journal that is still to be asked.
    fn is_unasked(&self, node: &Node) -> bool {
        self.head.restored.is_some_and(|restored| node.asked < restored.generation) && !node.agent
    }

    /// Whether the node's journal is still to be asked, and will be: the node registers soon, or counts as silent. A node
    /// that drains is offline for new work, but its worker runs.
    pub(crate) fn is_awaited(&self, node: &Node) -> bool {
        self.is_unasked(node) && (node.status.is_online() || node.status == NodeStatus::Draining)
    }

    /// J11: a job that waits for the node does not give up what its journal knows. After a trip nobody is waited for.
    fn waits_for_unasked(&self, node: &Node) -> bool {
        self.is_unasked(node) && self.waits_for(node) && self.head.tripped.is_none()
    }

    /// A node of this run whose journal is awaited.
    pub(crate) fn awaited<'a>(&self, state: &'a State) -> Option<&'a Node> {
        self.head.restored?;
        let taking_part = self.expected.iter().enumerate().filter(|(position, _)| self.takes_part(*position));
        taking_part.filter_map(|(_, ord)| state.nodes.get(ord)).find(|node| self.is_awaited(node))
    }

    /// Whether what is queued there may have run, which its journal or, of a held job, an operator has yet to decide: a trip
    /// does not skip it.
    pub(crate) fn may_have_run(&self, node: &Node) -> bool {
        let queued = self.head.restored.and_then(|_| self.cells.get(self.position(node.ord)?));
        let queued = queued.filter(|cell| cell.state == CellState::Queued);
        queued.is_some_and(|cell| match self.recall(node, self.step_of(cell)) {
            // What a journal knows is taken in this entry.
            Recall::Wait | Recall::Adopt(..) | Recall::Settle(..) => true,
            Recall::Unknown => self.head.held.is_some(),
            Recall::Offer | Recall::Passed => false,
        })
    }

    /// Whether what is queued there waits for the node's journal.
    pub(crate) fn awaits_journal(&self, node: &Node) -> bool {
        let queued = self.head.restored.and_then(|_| self.cells.get(self.position(node.ord)?));
        let queued = queued.filter(|cell| cell.state == CellState::Queued);
        queued.is_some_and(|cell| self.recall(node, self.step_of(cell)) == Recall::Wait)
    }

    /// Whether a queued step waited for a journal, which says that it never ran, and meanwhile the job tripped or the failure
    /// that it cleans up after was corrected. A step that was tried already stays wanted.
    fn is_dropped_after_wait(&self, position: usize) -> bool {
        let cell = &self.cells[position];
        let reason = self.task_of(cell).and_then(|task| self.skips(position, task));
        match reason.filter(|_| self.head.restored.is_some()) {
            Some(Reason::NothingFailedHere) => cell.last.is_none(),
            reason => reason.is_some(),
        }
    }

    fn is_once(&self, step: StepIndex) -> bool {
        let task = usize::try_from(step.0).ok().and_then(|step| self.spec.steps().nth(step));
        task.is_none_or(|(_, task)| task.effect == EffectClass::Once)
    }

    /// A job that moved to another epoch after the backup follows it there, unless leases of its own epoch are out.
    pub(crate) fn can_adopt(&self, epoch: JobEpoch) -> bool {
        let out = || self.cells.iter().any(|cell| matches!(cell.state, CellState::Leased { revoked: None, .. }));
        epoch == self.head.epoch || (epoch > self.head.epoch && !out())
    }

    /// Steps that are not settled yet on a node.
    fn is_open(&self, step: StepIndex, position: Option<usize>) -> bool {
        let Some(position) = position else { return true };
        let first = self.first_step();
        let next = StepIndex(first.0 + self.current_phase().map_or(0, crate::jobs::skip::len));
        let cell = &self.cells[position];
        let here = match cell.is_open() {
            false => self.head.gate.is_some() || self.head.status == JobStatus::Pending,
            true => step >= self.place_of(cell),
        };
        let reached = step >= next || (step >= first && here);
        reached && self.takes_part(position) && !self.is_done(step, position)
    }
}

impl State {
    /// E2: the `once` steps of a restored job that would become `unknown`, in order of step and node.
    #[must_use]
    pub fn doubts(&self, job: &Job) -> Vec<Doubt> {
        if job.head.restored.is_none() || job.head.status.is_ended() {
            return Vec::new();
        }
        let nodes = if job.expected.is_empty() { self.resolve(&job.spec) } else { job.expected.clone() };
        let steps = (0u32..).map(StepIndex).zip(job.spec.steps());
        let once = steps.filter(|(_, (_, task))| task.effect == EffectClass::Once).map(|(step, _)| step);
        let mut doubts = Vec::new();
        for step in once {
            for node in nodes.iter().filter_map(|ord| self.nodes.get(ord)) {
                if !job.is_open(step, job.position(node.ord)) {
                    continue;
                }
                match job.recall(node, step) {
                    Recall::Wait | Recall::Unknown => {
                        doubts.push(Doubt { step, node: node.ord, is_awaited: job.is_unasked(node) });
                    }
                    Recall::Offer | Recall::Adopt(..) | Recall::Settle(..) | Recall::Passed => {}
                }
            }
        }
        doubts
    }

    /// Restored jobs about which a node's journal is to be asked, in this generation. None for an agent, which has none.
    #[must_use]
    pub fn to_ask(&self, node: &Node) -> Vec<JobId> {
        if node.agent {
            return Vec::new();
        }
        let concerns = |job: &&Job| job.expected.is_empty() || job.position(node.ord).is_some();
        let restored = self.jobs.values().filter(|job| {
            job.head.restored.is_some_and(|restored| node.asked < restored.generation) && !job.head.status.is_ended()
        });
        restored.filter(concerns).map(|job| job.head.id).collect()
    }
}

impl Turn<'_> {
    /// Acts on what is known about a queued cell of a restored job. Returns whether it is to be offered now.
    pub fn consult(&mut self, id: JobId, position: usize) -> bool {
        let Some(job) = self.state.jobs.get(&id).filter(|job| job.cells[position].state == CellState::Queued) else {
            return false;
        };
        let Some(node) = self.state.nodes.get(&job.expected[position]) else { return false };
        let (step, is_held) = (job.step_of(&job.cells[position]), job.head.held.is_some());
        let is_dropped = job.is_dropped_after_wait(position);
        match job.recall(node, step) {
            Recall::Offer if is_dropped => {
                self.drop_waiting(id, position, Following::CleanUp);
                false
            }
            Recall::Offer if is_held => false,
            Recall::Offer => {
                self.note_lost_change(id, position);
                self.name_anew(id, position);
                true
            }
            Recall::Wait => false,
            Recall::Passed => {
                self.drop_waiting(id, position, Following::CleanUp);
                false
            }
            Recall::Adopt(epoch, attempt) => {
                self.note_lost_attempts(id, position, epoch, attempt);
                self.adopt(id, position, epoch, attempt);
                false
            }
            Recall::Settle(attempt, end) => {
                let epoch = job.head.epoch;
                self.adopt(id, position, epoch, attempt);
                self.settle(id, position, end.report());
                false
            }
            Recall::Unknown if is_held => false,
            Recall::Unknown => {
                self.give_up(id, position);
                false
            }
        }
    }

    /// A lease that may have had this name before gets another one: its worker would answer for the old one.
    fn name_anew(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let step = job.step_of(&job.cells[position]);
        let past = self.state.nodes.get(&job.expected[position]).and_then(|node| node.past.get(&id));
        let known = past.filter(|past| !past.decided.contains(&step)).and_then(|past| past.ran.get(&step));
        let Some(ran) = known.filter(|ran| ran.epoch == job.head.epoch) else { return };
        if ran.attempt.0 >= job.cells[position].attempt {
            job.cells[position].attempt = ran.attempt.0 + 1;
            self.touch_cell(id, position);
        }
    }

    /// It may have run, and nobody can tell.
    fn give_up(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let (epoch, attempt) = (job.head.epoch, Attempt(job.cells[position].attempt));
        self.adopt(id, position, epoch, attempt);
        self.lose_lease(id, position, Reason::RestoredUnresolved);
    }

    /// A cell that is dropped while its lease may have run ends `unknown`, not skipped.
    pub fn give_up_if_outstanding(&mut self, id: JobId, position: usize, following: Following) {
        let outstanding = self.state.jobs.get(&id).filter(|job| job.head.restored.is_some()).is_some_and(|job| {
            let cell = &job.cells[position];
            let Some(node) = self.state.nodes.get(&job.expected[position]) else { return false };
            let step = job.step_of(cell);
            let known = node.past.get(&id).and_then(|past| past.known(step));
            let is_named = known.is_some_and(|ran| !matches!(ran.state, RanState::Recorded { .. }));
            let may_have_run = match job.recall(node, step) {
                Recall::Unknown => true,
                Recall::Wait => is_named || node.status.is_away(),
                Recall::Offer | Recall::Adopt(..) | Recall::Settle(..) | Recall::Passed => is_named,
            };
            cell.state == CellState::Queued && job.is_once(step) && may_have_run
        });
        if outstanding {
            if following == Following::Nothing {
                self.skip_rest(id, position, 1, &Reason::JobCancelled);
            }
            self.give_up(id, position);
        }
    }

    /// From now on attempts of this step belong to this generation.
    pub fn decide(&mut self, id: JobId, ord: NodeOrd, step: StepIndex) {
        if self.state.jobs.get(&id).is_none_or(|job| job.head.restored.is_none()) {
            return;
        }
        if let Some(node) = self.state.nodes.get_mut(&ord) {
            node.past.entry(id).or_default().decided.insert(step);
            self.changes.nodes.insert(ord);
        }
    }

    /// Takes down what a journal knows of a lease that is not the current one of its cell. Returns whether it matters.
    pub fn note_ran(&mut self, ord: NodeOrd, lease: LeaseKey, state: RanState) -> bool {
        let Some(job) = self.state.jobs.get(&lease.job) else { return false };
        if job.head.restored.is_none() || lease.job_epoch < job.head.run_epoch || !job.is_plausible(lease) {
            return false;
        }
        let Some(node) = self.state.nodes.get_mut(&ord) else { return false };
        let past = node.past.entry(lease.job).or_default();
        if past.decided.contains(&lease.step) {
            return false;
        }
        past.note(lease.step, Ran { epoch: lease.job_epoch, attempt: lease.attempt, state });
        self.changes.nodes.insert(ord);
        true
    }

    /// A node's journal is not awaited any more, because it has answered or is offline: what waited for it goes on.
    pub fn journal_turned(&mut self, ord: NodeOrd) {
        let Some(node) = self.state.nodes.get(&ord) else { return };
        let restored = |id: &&JobId| self.state.jobs.get(id).is_some_and(|job| job.head.restored.is_some());
        for id in node.waiting.iter().filter(restored) {
            if let Some(position) = self.state.jobs.get(id).and_then(|job| job.position(ord)) {
                self.recall.insert((*id, position));
            }
        }
        let waits = |job: &&Job| job.head.restored.is_some() && job.open == 0 && job.position(ord).is_some();
        self.decided.extend(self.state.jobs.values().filter(waits).map(|job| job.head.id));
    }

    /// The positions of an ended job whose journals named nothing that is not decided or recorded by now.
    pub fn complete_journals(&self, job: &Job) -> Bits {
        let mut complete = job.head.complete_journals.clone().unwrap_or_default();
        for (position, ord) in job.expected.iter().enumerate() {
            let past = self.state.nodes.get(ord).and_then(|node| node.past.get(&job.head.id));
            if past.is_some_and(|past| past.is_complete && past.is_used_up()) {
                complete.set(position);
            }
        }
        complete
    }

    /// The job has ended: only which journals were complete is still needed, and the job's head has it.
    pub fn forget_past(&mut self, id: JobId) {
        for (ord, node) in &mut self.state.nodes {
            if node.past.remove(&id).is_some() {
                self.changes.nodes.insert(*ord);
            }
        }
    }
}

impl RanEnd {
    pub(crate) fn report(&self) -> Report {
        let facts = Facts {
            duration_ms: self.duration_ms,
            started_wall_ms: self.started_wall_ms,
            output_tail: Vec::new(),
            output_bytes: self.output_bytes,
            error: self.error.clone(),
        };
        Report::said(self.outcome, None, facts)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk;
