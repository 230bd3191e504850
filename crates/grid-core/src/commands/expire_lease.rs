//! `ExpireLease`: the leader's backstop behind the worker's own timeout (W6). Nobody knows how it ended: `unknown`; a
//! `once` lease that has not begun returns to its queue (E8).

use grid_types::node::NodeStatus;
use grid_types::{LeaseKey, NodeOrd, Reason};
use minicbor::{Decode, Encode};

use super::{Answer, Rejection, Reply, Stale};
use crate::effect::Effect;
use crate::turn::Turn;

/// The leader's backstop: the worker has not reported in time (W6).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ExpireLease {
    /// The node that has the lease.
    #[n(0)]
    pub node: NodeOrd,
    /// The lease whose time is over.
    #[n(1)]
    pub lease: LeaseKey,
    /// The deadline counted from the start of the lease (W3). One that has started since has another deadline.
    #[n(2)]
    #[cbor(default)]
    pub begun: bool,
}

impl ExpireLease {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let found = turn.state.jobs.get(&self.lease.job).and_then(|job| {
            let (lease, _) = job.lease_at(self.node)?;
            let is_current = lease == self.lease && job.begun(self.node).is_some() == self.begun;
            job.position(self.node).filter(|_| is_current)
        });
        let Some(position) = found else {
            return Ok(Reply::Answered(Answer::Superseded(Stale::Settled)));
        };
        let (job, node) = (turn.state.jobs.get(&self.lease.job), turn.state.nodes.get(&self.node));
        if job.zip(node).is_some_and(|(job, node)| job.never_ran(node)) {
            // E8, W10: a worker that has not begun it, or an agent that never asked for it, has not run it.
            turn.take_back(self.lease.job, position);
            return Ok(Reply::Done);
        }
        let status = node.map_or(NodeStatus::Removed, |node| node.status);
        let reason = match status {
            NodeStatus::Ready | NodeStatus::Draining => Reason::NoResultInTime,
            status => Reason::NodeSilentInTime { status },
        };
        turn.lose_lease(self.lease.job, position, reason);
        turn.effects.push(Effect::Revoke { node: self.node, lease: self.lease });
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use crate::effect::Effect;
    use crate::world::{World, leaf};
    use grid_types::node::NodeStatus;
    use grid_types::{JobStatus, Outcome, Reason};

    #[test]
    fn w6_an_expired_lease_is_unknown_and_revoked() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let (node, lease) = world.offered()[0];
        let effects = world.expire((node, lease));
        assert!(effects.contains(&Effect::Revoke { node, lease }));
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
        assert_eq!(world.status(job), JobStatus::Failed);
        assert!(world.expire((node, lease)).is_empty(), "a second time changes nothing");
        assert_eq!(world.reason(job), "step 0 is unknown on node-1, which counts as failed (fail-fast)");
    }

    #[test]
    fn w6_an_expired_lease_of_a_silent_node_names_the_node() {
        for (status, named) in [(NodeStatus::Warning, true), (NodeStatus::Unhealthy, true), (NodeStatus::Ready, false)]
        {
            let mut world = World::with_nodes(1);
            let job = world.submit("all", vec![leaf("ping", "echo")]);
            let lease = world.offered()[0];
            if named {
                world.mark(1, world.session(1), NodeStatus::Ready, status).unwrap();
            }
            world.expire(lease);
            let reason = world.results_of(job).pop().unwrap().reason;
            assert_eq!(reason == Some(Reason::NodeSilentInTime { status }), named, "{reason:?}");
        }
    }
}
