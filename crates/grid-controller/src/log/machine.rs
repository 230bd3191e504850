//! Applies committed entries to the state in memory and stores their changes in SQLite.
//!
//! A run of committed entries is applied, stored in one transaction, and only then answered (L3); its effects, and its
//! answers to workers, go to the dispatcher after that, together, so that each worker gets one message. Planners and the dispatcher may read the state one
//! transaction before it is stored: `apply` checks again everything that they propose.
//! Entries of two terms are never one transaction: rows say which leader wrote them, and a replay, which has other
//! batches, must write the same (I13). Effects of a term in which this controller does not lead are dropped here, not by
//! the dispatcher: a replay of the whole log would fill its queue.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use grid_core::{Applied, Changes, Effect, History, Rejection, Reply, State, apply, decode_entry_at};
use grid_raft::{Committed, LogPosition, Machine, MachineError, MachinePosition, WriteCopy};
use grid_store::{Position, Store};
use tokio::sync::{Notify, watch};

use super::mailbox::Mailbox;
use super::progress::Progress;
use super::touched::Touched;
use crate::leader::{AppliedBatch, answered};

/// One reply for each command of an entry.
pub type Replies = Vec<Result<Reply, Rejection>>;

/// Where effects and answers go while this controller leads.
pub struct ToLeader {
    /// The term in which this controller last led or began to; 0: none.
    pub leading: Arc<AtomicU64>,
    pub mailbox: Arc<Mailbox>,
    /// Notified when the leader's own entry was refused (E1).
    pub deposed: Arc<Notify>,
}

/// Applies and stores committed entries.
pub struct ControllerMachine {
    pub state: Arc<RwLock<State>>,
    pub store: Store,
    pub position: MachinePosition,
    pub to_leader: ToLeader,
    /// Rings when events were stored.
    pub bell: watch::Sender<u64>,
    /// L2: what this controller knows.
    pub feature_level: u32,
    pub progress: Arc<Progress>,
    pub touched: Arc<Touched>,
}

impl ControllerMachine {
    /// Entries of one term, in one transaction.
    fn apply_run(&mut self, run: &[Committed], replies: &mut Vec<Option<Replies>>) -> Result<(), MachineError> {
        let Some(last) = run.last().map(|entry| entry.position) else { return Ok(()) };
        let membership = run.iter().rev().find_map(|entry| entry.membership.clone());
        let mut changes: Vec<Changes> = Vec::with_capacity(run.len());
        let leads = last.term == self.to_leader.leading.load(Ordering::Acquire);
        let mut outgoing = AppliedBatch { term: last.term, ..AppliedBatch::default() };
        self.progress.begin();
        for committed in run {
            let Some(payload) = &committed.payload else {
                replies.push(None);
                continue;
            };
            let entry = decode_entry_at(payload, self.feature_level).map_err(|e| halted(committed.position, &e))?;
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let applied: Applied = apply(&mut state, &entry);
            drop(state);
            if leads {
                let replied = entry.commands.iter().zip(&applied.replies);
                outgoing.answers.extend(replied.filter_map(|(command, reply)| answered(command, reply.as_ref().ok()?)));
                outgoing.effects.extend(applied.effects);
            }
            replies.push(Some(applied.replies));
            changes.push(applied.changes);
        }
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let at = Position { term: last.term, index: last.index };
        self.store.persist(&state, &changes, at, membership.as_deref()).map_err(MachineError::new)?;
        drop(state);
        self.progress.stored();
        self.touched.note(&changes, last.index);
        self.position.applied = Some(last);
        if changes.iter().flat_map(|one| &one.history).any(|row| matches!(row, History::Event(_))) {
            self.bell.send_replace(last.index);
        }
        if membership.is_some() {
            self.position.membership = membership;
        }
        if outgoing.effects.contains(&Effect::Deposed) {
            self.to_leader.deposed.notify_one();
        }
        if !outgoing.is_empty() {
            self.to_leader.mailbox.put(outgoing);
        }
        Ok(())
    }
}

impl Machine for ControllerMachine {
    type Reply = Replies;

    fn position(&self) -> MachinePosition {
        self.position.clone()
    }

    fn apply(&mut self, batch: Vec<Committed>) -> Result<Vec<Option<Replies>>, MachineError> {
        let mut replies = Vec::with_capacity(batch.len());
        for run in batch.chunk_by(|one, next| one.position.term == next.position.term) {
            self.apply_run(run, &mut replies)?;
        }
        Ok(replies)
    }

    fn pin(&mut self) -> Result<WriteCopy, MachineError> {
        let pinned = self.store.pin().map_err(MachineError::new)?;
        Ok(Box::new(move |path| pinned.write_copy(path).map_err(MachineError::new)))
    }

    fn install_snapshot(&mut self, path: &Path, position: MachinePosition) -> Result<(), MachineError> {
        let stored = self.store.replace_by_level(path, self.feature_level).map_err(MachineError::new)?;
        let restored = State::from_parts(stored.parts).map_err(MachineError::new)?;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = restored;
        self.position = position;
        self.bell.send_modify(|index| *index += 1);
        self.touched.note_all(self.position.applied.map_or(0, |at| at.index));
        Ok(())
    }
}

fn halted(at: LogPosition, why: &dyn std::fmt::Display) -> MachineError {
    MachineError::new(format!("entry {at} of the log: {why}"))
}
