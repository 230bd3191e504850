//! `apply`: one entry in, one new state out.
//!
//! Commands are handled in order, each all-or-nothing. What follows from them (phases that are decided, slots that
//! are free, jobs that may start) is settled once, after the last command: so every result of an entry is counted
//! before any offer of the same entry goes out (J1); so is a retry that comes to nothing because its node is away.

use std::collections::BTreeSet;

use grid_types::{JobId, NodeOrd};

use crate::changes::Changes;
use crate::commands::{Command, Rejection, Reply};
use crate::effect::Effect;
use crate::entry::{Entry, EntryHead};
use crate::state::{State, Timer};
use crate::step_failed::Failures;

/// What came of an entry.
#[derive(Debug, Default)]
pub struct Applied {
    /// One for each command.
    pub replies: Vec<Result<Reply, Rejection>>,
    pub effects: Vec<Effect>,
    pub changes: Changes,
}

/// Total, synchronous, deterministic: no clock, no randomness, no I/O, no panic.
pub fn apply(state: &mut State, entry: &Entry) -> Applied {
    let mut turn = Turn::new(state);
    let replies = match turn.fence(&entry.head, &entry.commands) {
        Err(rejection) => {
            turn.effects.push(Effect::Deposed);
            entry.commands.iter().map(|_| Err(rejection.clone())).collect()
        }
        Ok(()) => {
            turn.state.meta.now_ms = turn.state.meta.now_ms.max(entry.head.now_ms);
            turn.state.meta.wall_ms = entry.head.wall_ms;
            turn.changes.now_ms = turn.state.meta.now_ms;
            let replies = entry.commands.iter().map(|command| command.handle(&mut turn)).collect();
            turn.settle_consequences();
            replies
        }
    };
    let Turn { effects, changes, .. } = turn;
    state.roll_history(&changes.history);
    Applied { replies, effects, changes }
}

/// One entry at work: the state, what is to be said and stored, and what still has to be looked at.
pub(crate) struct Turn<'a> {
    pub state: &'a mut State,
    pub effects: Vec<Effect>,
    pub changes: Changes,
    /// Nodes that may have a free slot and a waiting job.
    pub wake: BTreeSet<NodeOrd>,
    /// Of those, nodes that are there: served when it is known what became of the others (J1).
    serve: BTreeSet<NodeOrd>,
    /// Jobs without an open cell: their phase is decided.
    pub decided: BTreeSet<JobId>,
    /// Jobs whose window may have room (J2).
    pub windows: BTreeSet<JobId>,
    /// Jobs that may have stalled or gone on (J3).
    pub recheck: BTreeSet<JobId>,
    /// Failed steps, as far as they are recorded.
    pub failures: Failures,
    /// Queued cells of restored jobs: a journal may know how they ended (E2).
    pub recall: BTreeSet<(JobId, usize)>,
    /// Cells of restored jobs: a journal may know of later steps (E2).
    pub ahead: BTreeSet<(JobId, usize)>,
}

impl<'a> Turn<'a> {
    fn new(state: &'a mut State) -> Self {
        Self {
            state,
            effects: Vec::new(),
            changes: Changes::default(),
            wake: BTreeSet::new(),
            serve: BTreeSet::new(),
            decided: BTreeSet::new(),
            windows: BTreeSet::new(),
            recheck: BTreeSet::new(),
            failures: Failures::default(),
            recall: BTreeSet::new(),
            ahead: BTreeSet::new(),
        }
    }

    /// E1: an entry counts only if its term is that of the last `BeginTerm` and its epoch is current.
    fn fence(&self, head: &EntryHead, commands: &[Command]) -> Result<(), Rejection> {
        let current = &self.state.meta.leadership;
        let accepted = match commands {
            [Command::BeginTerm(begin)] => begin.term > current.term && begin.term == head.term,
            // Alone in its entry, or its epoch would fence the commands beside it.
            many if many.iter().any(|c| matches!(c, Command::BeginTerm(_))) => false,
            _ => head.term == current.term && head.epoch == current.epoch,
        };
        if accepted { Ok(()) } else { Err(Rejection::StaleLeader { epoch: current.epoch }) }
    }

    /// Ends: every round either decides a phase, and there are finitely many, or empties a slot's queue.
    fn settle_consequences(&mut self) {
        loop {
            if let Some((job, position)) = self.recall.pop_first() {
                self.consult(job, position);
            } else if let Some(job) = self.decided.pop_first() {
                self.phase_decided(job);
            } else if let Some((job, position)) = self.ahead.pop_first() {
                // After the barriers: what the job reaches by what is known needs no look ahead.
                self.look_ahead(job, position);
            } else if let Some(job) = self.windows.pop_first() {
                self.fill_window(job);
            } else if let Some(job) = self.next_to_start() {
                self.start_job(job);
            } else if let Some(node) = self.wake.pop_first() {
                if self.state.nodes.get(&node).is_some_and(|node| node.status.is_online()) {
                    self.refuse_what_it_lacks(node);
                    self.serve.insert(node);
                } else {
                    self.fill_slots(node);
                }
            } else if let Some(node) = self.serve.pop_first() {
                self.fill_slots(node);
            } else if !self.update_pauses() {
                break;
            }
        }
    }

    fn next_to_start(&self) -> Option<JobId> {
        let quota = usize::try_from(self.state.meta.quotas.max_concurrent).unwrap_or(usize::MAX);
        if self.state.running.len() < quota { self.state.pending.first().copied() } else { None }
    }

    pub fn now_ms(&self) -> u64 {
        self.state.meta.now_ms
    }

    pub fn set_timer(&mut self, at_ms: u64, timer: Timer) {
        self.state.timers.insert((at_ms, timer));
    }

    pub fn drop_timer(&mut self, at_ms: u64, timer: Timer) {
        self.state.timers.remove(&(at_ms, timer));
    }
}
