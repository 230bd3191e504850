//! Applies one entry to the state (`apply`).
//!
//! Commands are handled in order, each all-or-nothing. What follows from them (phases that are decided, slots that
//! are free, jobs that may start) is settled once, after the last command: so every result of an entry is counted
//! before any offer of the same entry goes out (J1); so is a retry that comes to nothing because its node is away.

use grid_types::JobId;

use crate::changes::{Changes, History};
use crate::commands::{Command, Rejection, Reply};
use crate::effect::Effect;
use crate::entry::{Entry, EntryHead};
use crate::state::State;
use crate::turn::Turn;

/// What came of an entry.
#[derive(Debug, Default)]
pub struct Applied {
    /// One for each command.
    pub replies: Vec<Result<Reply, Rejection>>,
    /// For the leader: what it has to do outside. Followers drop them.
    pub effects: Vec<Effect>,
    /// For the store: what has to be written, on every replica.
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
    History::roll_into(&changes.history, &mut state.meta);
    Applied { replies, effects, changes }
}

impl Turn<'_> {
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
}
