//! `BeginLease`: a worker asks to start a `once` lease, before it forks (W3).
//!
//! ```text
//!   Leased --begin, current session--> Leased and begun --result--> settled
//!      |                                    '--registration without it--> unknown (W1)
//!      '--dead, expired: back into the queue, since nothing of it can have run (E8)
//! ```
//!
//! That a lease begins is committed here because a data folder can be copied or put back: whatever a worker's own journal
//! says, a copy of it says the same. Only the process that was granted the lease is granted it again, so that a lost
//! answer costs nothing.
//! Not here: how long a grant lasts (the worker forks within 10 s of asking, or asks again).

use grid_types::{LeaseKey, NodeOrd, Reason, SessionId};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::effect::Effect;
use crate::state::CellState;
use crate::turn::Turn;

/// Asks whether a worker process may start a `once` lease (W3).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct BeginLease {
    /// The node that asks.
    #[n(0)]
    pub node: NodeOrd,
    /// Names the process that asks: the state knows the nonce of each session.
    #[n(1)]
    pub session: SessionId,
    /// The lease that it wants to start.
    #[n(2)]
    pub lease: LeaseKey,
}

impl BeginLease {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let node = turn.state.nodes.get(&self.node).ok_or(Rejection::NoNode(self.node))?;
        if node.session != self.session {
            return Err(Rejection::StaleSession { current: node.session });
        }
        let (nonce, is_agent) = (node.nonce.clone(), node.agent);
        turn.node_spoke(self.node);
        let refused = Ok(Reply::Begun { granted: false });
        if is_agent {
            // It has `HandOut` for this (W10).
            return refused;
        }
        let Some(job) = turn.state.jobs.get_mut(&self.lease.job) else { return refused };
        if job.lease_at(self.node) != Some((self.lease, None)) {
            // E8: it returned to its queue while its worker was away. Refused, it could never be offered there again.
            return if job.may_come(self.node, self.lease) { Ok(Reply::Withdrawn) } else { refused };
        }
        let Some(position) = job.position(self.node) else { return refused };
        let is_held = job.head.held.is_some();
        let timeout_ms = job.task_of(&job.cells[position]).map_or(0, |task| task.timeout_ms);
        let CellState::Leased { begun, .. } = &mut job.cells[position].state else { return refused };
        if let Some(first) = begun {
            let granted = first.as_slice() == nonce;
            if granted && is_held {
                // E2: the journal named it, but the process that asks has not started it, and nothing starts while a job is held.
                turn.take_back(self.lease.job, position);
                return Ok(Reply::Withdrawn);
            }
            if !granted {
                // The node's current process has not started it, and the one that did is gone: nobody can say how it ended.
                turn.lose_lease(self.lease.job, position, Reason::NotInJournal);
            }
            return Ok(Reply::Begun { granted });
        }
        *begun = Some(ByteVec::from(nonce));
        turn.changes.cells.insert((self.lease.job, u32::try_from(position).unwrap_or(u32::MAX)));
        turn.effects.push(Effect::Begun { node: self.node, lease: self.lease, timeout_ms });
        Ok(Reply::Begun { granted: true })
    }
}

#[cfg(test)]
mod tests;
