//! `OrderDrain`: an operator drains a node, or undrains it.
//!
//! Unlike `DrainNode`, which a worker sends for its own session, this is about the machine and lasts: a worker that is
//! started again finds its node draining. It needs no session, because an operator means the node.

use grid_types::node::NodeStatus;
use grid_types::{NodeCause, NodeOrd};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// An operator's order to drain a node, which outlasts its registrations, or to end that.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OrderDrain {
    /// The node.
    #[n(0)]
    pub node: NodeOrd,
    /// False: take the order back.
    #[n(1)]
    pub drain: bool,
}

impl OrderDrain {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let known = turn.state.nodes.get_mut(&self.node).filter(|node| node.status != NodeStatus::Removed);
        let node = known.ok_or(Rejection::NoNode(self.node))?;
        let (status, before) = (node.status, node.drained);
        if !self.drain && !before && status == NodeStatus::Draining {
            let why = format!("the worker of {} is leaving by itself; it takes work again when it is started", node.id);
            return Err(Rejection::NodeStands(why));
        }
        node.drained = self.drain;
        turn.changes.nodes.insert(self.node);
        match (self.drain, status) {
            (true, NodeStatus::Ready | NodeStatus::Warning | NodeStatus::Unhealthy) => {
                turn.set_node_status(self.node, NodeStatus::Draining, Some(NodeCause::DrainOrdered));
                turn.record_if_drained(self.node);
            }
            (false, NodeStatus::Draining) => {
                turn.set_node_status(self.node, NodeStatus::Ready, Some(NodeCause::DrainEnded));
            }
            _ => {}
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::Rejection;
    use crate::world::{World, leaf};
    use grid_types::node::NodeStatus;
    use grid_types::{NodeOrd, Outcome};

    fn status(world: &World) -> NodeStatus {
        world.state.nodes[&NodeOrd(1)].status
    }

    #[test]
    fn an_order_outlives_the_worker_until_it_is_taken_back() {
        let mut world = World::with_nodes(1);
        world.order_drain(1, true).unwrap();
        world.order_drain(1, true).unwrap();
        assert_eq!(status(&world), NodeStatus::Draining);
        world.leave(1);
        world.register("node-1", b"journal-1", 2, b"again", false).unwrap();
        assert_eq!(status(&world), NodeStatus::Draining, "started again, still drained");
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Skipped);
        world.order_drain(1, false).unwrap();
        assert_eq!(status(&world), NodeStatus::Ready);
        world.submit("all", vec![leaf("ping", "echo")]);
        assert_eq!(world.offered().len(), 1);
    }

    #[test]
    fn a_lease_that_is_out_is_finished_and_a_dead_node_keeps_the_order_for_later() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        world.order_drain(1, true).unwrap();
        world.succeed_all_offered();
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Success);
        world.mark_dead(2);
        world.order_drain(2, true).unwrap();
        assert_eq!(world.state.nodes[&NodeOrd(2)].status, NodeStatus::Dead);
        world.register("node-2", b"journal-2", 2, b"again", false).unwrap();
        assert_eq!(world.state.nodes[&NodeOrd(2)].status, NodeStatus::Draining);
    }

    #[test]
    fn a_worker_that_leaves_by_itself_is_not_called_back() {
        let mut world = World::with_nodes(1);
        world.drain(1);
        let refused = world.order_drain(1, false);
        assert!(matches!(refused, Err(Rejection::NodeStands(_))), "{refused:?}");
        assert_eq!(status(&world), NodeStatus::Draining);
    }
}
