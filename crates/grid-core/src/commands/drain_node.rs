//! `DrainNode`: no new leases for the node; what runs there finishes.

use grid_types::node::NodeStatus;
use grid_types::{NodeCause, NodeOrd, SessionId};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// A worker announces that it takes no new work.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DrainNode {
    /// The node that drains.
    #[n(0)]
    pub node: NodeOrd,
    /// Its session.
    #[n(1)]
    pub session: SessionId,
}

impl DrainNode {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let node = turn.state.nodes.get(&self.node).ok_or(Rejection::NoNode(self.node))?;
        if node.session != self.session {
            return Err(Rejection::StaleSession { current: node.session });
        }
        match node.status {
            NodeStatus::Draining => {}
            NodeStatus::Dead | NodeStatus::Left | NodeStatus::Removed => {
                return Err(Rejection::StatusMoved { status: node.status });
            }
            NodeStatus::Ready | NodeStatus::Warning | NodeStatus::Unhealthy => {
                turn.set_node_status(self.node, NodeStatus::Draining, Some(NodeCause::WorkerDrains));
                turn.record_if_drained(self.node);
            }
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use crate::world::{World, leaf};
    use grid_types::{JobStatus, Outcome};

    #[test]
    fn a_draining_node_finishes_its_lease_and_gets_no_other() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
        let lease = world.offered()[0];
        world.drain(1);
        world.drain(1);
        world.succeed(lease);
        assert!(world.offered().is_empty());
        assert_eq!(world.status(job), JobStatus::Failed, "the second phase reached nobody");
        let rows = world.rows_of(job);
        assert_eq!((rows[&(0, 1)], rows[&(1, 1)]), (Outcome::Success, Outcome::Skipped));
    }
}
