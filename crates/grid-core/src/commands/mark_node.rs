//! `MarkNode`: the leader's view of a node's liveness changes (V3).

use grid_types::node::NodeStatus;
use grid_types::{NodeCause, NodeOrd, Reason, SessionId};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// Moves a node from one status to another because of what the leader received from it, or did not (V3).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct MarkNode {
    /// The node that is judged.
    #[n(0)]
    pub node: NodeOrd,
    /// The session that is judged. Another one is refused.
    #[n(1)]
    pub session: SessionId,
    /// The status that the leader saw. Another one is refused.
    #[n(2)]
    pub from: NodeStatus,
    /// The status that it gets.
    #[n(3)]
    pub to: NodeStatus,
    /// For the event; 4 was a text, which other versions would word differently.
    #[n(5)]
    pub cause: Option<NodeCause>,
}

impl MarkNode {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let node = turn.state.nodes.get(&self.node).ok_or(Rejection::NoNode(self.node))?;
        if node.session != self.session {
            return Err(Rejection::StaleSession { current: node.session });
        }
        // A worker that is Dead, or left, comes back only by registering.
        let gone = node.status.is_gone();
        if node.status != self.from || gone {
            return Err(Rejection::StatusMoved { status: node.status });
        }
        turn.set_node_status(self.node, self.to, self.cause.clone());
        if self.to == NodeStatus::Dead {
            turn.lose_all_leases(self.node, &Reason::NodeDead);
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::Rejection;
    use crate::world::{World, leaf};
    use grid_types::node::NodeStatus;
    use grid_types::{JobStatus, Outcome};

    #[test]
    fn v3_a_mark_for_another_session_or_state_is_refused() {
        let mut world = World::with_nodes(1);
        let stale = world.mark(1, 999, NodeStatus::Ready, NodeStatus::Dead);
        assert!(matches!(stale, Err(Rejection::StaleSession { .. })));
        let session = world.session(1);
        let moved = world.mark(1, session, NodeStatus::Warning, NodeStatus::Unhealthy);
        assert_eq!(moved, Err(Rejection::StatusMoved { status: NodeStatus::Ready }));
    }

    #[test]
    fn v3_a_dead_node_comes_back_only_by_registering() {
        let mut world = World::with_nodes(2);
        world.mark_dead(1);
        let session = world.session(1);
        assert!(world.mark(1, session, NodeStatus::Dead, NodeStatus::Ready).is_err());
        let job = world.submit("node:node-1", vec![leaf("ping", "echo")]);
        assert!(world.offered().is_empty(), "no lease for a dead node");
        assert_eq!(world.rows_of(job).values().copied().collect::<Vec<_>>(), [Outcome::Skipped]);
        world.register("node-1", b"journal-1", 2, b"again", false).unwrap();
        world.submit("node:node-1", vec![leaf("ping", "echo")]);
        assert_eq!(world.offered().len(), 1);
    }

    #[test]
    fn a_dead_nodes_leases_are_unknown_and_count_as_failed() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
        world.mark_dead(1);
        let other = world.offered().into_iter().find(|(node, _)| node.0 == 2).unwrap();
        world.succeed(other);
        assert_eq!(world.status(job), JobStatus::Failed);
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
        assert_eq!(world.rows_of(job)[&(1, 2)], Outcome::Skipped);
    }

    #[test]
    fn j4_a_held_lease_lasts_until_dead() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let lease = world.offered()[0];
        world.mark(1, world.session(1), NodeStatus::Ready, NodeStatus::Warning).unwrap();
        world.mark(1, world.session(1), NodeStatus::Warning, NodeStatus::Unhealthy).unwrap();
        world.succeed(lease);
        assert_eq!(world.status(job), JobStatus::Completed);
    }
}
