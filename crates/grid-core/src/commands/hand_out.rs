//! `HandOut`: records which leases a plain HTTP agent receives in one answer (W10).
//!
//! An agent keeps no journal, so this is recorded before the answer is sent: a `once`
//! lease is given once, whatever becomes of the answer, the agent or the leader. What may run again may be given again.
//!
//! ```text
//!   Leased, never given --hand out--> given under epoch E --result--> settled
//!            ^------returned----------'
//! ```
//!
//! `returned` takes a `once` lease back when the answer was certainly never written, because the agent was gone by
//! then. What may run again is not taken back: an earlier answer may have given it, too.
//! Not here: which leases are due (`grid-controller::agents`).

use grid_types::decl::EffectClass;
use grid_types::{LeaseKey, NodeOrd, SessionId};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::state::CellState;
use crate::turn::Turn;

/// Hands leases to an agent, `once` leases at most once (W10).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HandOut {
    /// The agent.
    #[n(0)]
    pub node: NodeOrd,
    /// Its session.
    #[n(1)]
    pub session: SessionId,
    /// The leases to hand out, or to take back.
    #[n(2)]
    pub leases: Vec<LeaseKey>,
    /// They were given by an answer that was never written.
    #[n(3)]
    #[cbor(default)]
    pub returned: bool,
}

impl HandOut {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let node = turn.state.nodes.get(&self.node).ok_or(Rejection::NoNode(self.node))?;
        if node.session != self.session {
            return Err(Rejection::StaleSession { current: node.session });
        }
        if !node.agent || node.status.is_gone() {
            return Err(Rejection::StatusMoved { status: node.status });
        }
        let epoch = turn.state.meta.leadership.epoch;
        let mut leases = Vec::new();
        for lease in &self.leases {
            let changed = if self.returned { self.take(turn, *lease) } else { self.give(turn, *lease) };
            leases.extend(changed.then_some(*lease));
        }
        Ok(Reply::HandedOut { epoch, leases })
    }

    fn give(&self, turn: &mut Turn<'_>, lease: LeaseKey) -> bool {
        let Some(job) = turn.state.jobs.get(&lease.job) else { return false };
        let Some(position) = job.position(self.node) else { return false };
        let effect = job.task_of(&job.cells[position]).map_or(EffectClass::Once, |task| task.effect);
        let again = job.handed(self.node).is_some();
        if job.lease_at(self.node) != Some((lease, None)) || (again && effect == EffectClass::Once) {
            return false;
        }
        turn.note_handed(lease, position);
        true
    }

    fn take(&self, turn: &mut Turn<'_>, lease: LeaseKey) -> bool {
        let epoch = turn.state.meta.leadership.epoch;
        let Some(job) = turn.state.jobs.get_mut(&lease.job) else { return false };
        let Some((current, revoked)) = job.lease_at(self.node).filter(|_| job.handed(self.node) == Some(epoch)) else {
            return false;
        };
        let Some(position) = job.position(self.node).filter(|_| current == lease) else { return false };
        if job.task_of(&job.cells[position]).is_some_and(|task| task.effect != EffectClass::Once) {
            return false;
        }
        if let CellState::Leased { handed, .. } = &mut job.cells[position].state {
            *handed = None;
        }
        turn.touch_cell(lease.job, position);
        if revoked.is_some() {
            turn.take_back(lease.job, position);
        }
        true
    }
}

impl Turn<'_> {
    fn note_handed(&mut self, lease: LeaseKey, position: usize) {
        let epoch = self.state.meta.leadership.epoch;
        let cell = self.state.jobs.get_mut(&lease.job).map(|job| &mut job.cells[position].state);
        if let Some(CellState::Leased { handed, .. }) = cell {
            *handed = Some(epoch);
        }
        self.touch_cell(lease.job, position);
    }

    /// The node is an agent from now on; what was out to the worker before it may have reached that one.
    pub(super) fn note_all_handed(&mut self, ord: NodeOrd) {
        let leased = self.state.nodes.get(&ord).map(|node| node.leased_jobs.clone()).unwrap_or_default();
        for id in leased {
            let (Some(job), Some(node)) = (self.state.jobs.get(&id), self.state.nodes.get(&ord)) else { continue };
            if job.never_ran(node) {
                continue;
            }
            if let (Some(position), Some((lease, _))) = (job.position(ord), job.lease_at(ord)) {
                self.note_handed(lease, position);
            }
        }
    }
}

#[cfg(test)]
mod tests;
