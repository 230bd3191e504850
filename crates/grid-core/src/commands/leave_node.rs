//! `LeaveNode`: the node is gone on purpose.

use grid_types::node::NodeStatus;
use grid_types::{NodeCause, NodeOrd, Reason, SessionId};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// A worker ends on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LeaveNode {
    /// The node that leaves.
    #[n(0)]
    pub node: NodeOrd,
    /// Its session.
    #[n(1)]
    pub session: SessionId,
    /// The worker has nothing left that runs or waits for an answer: what is still out to it never reached it.
    #[n(2)]
    pub nothing_outstanding: bool,
}

impl LeaveNode {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let node = turn.state.nodes.get(&self.node).ok_or(Rejection::NoNode(self.node))?;
        if node.session != self.session {
            return Err(Rejection::StaleSession { current: node.session });
        }
        if !matches!(node.status, NodeStatus::Left | NodeStatus::Removed) {
            turn.set_node_status(self.node, NodeStatus::Left, Some(NodeCause::WorkerLeft));
            if self.nothing_outstanding {
                turn.take_back_leases(self.node);
            } else {
                turn.lose_all_leases(self.node, &Reason::NodeLeft);
            }
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use crate::world::{World, leaf};
    use grid_types::node::NodeStatus;
    use grid_types::{JobStatus, Outcome};

    #[test]
    fn w5_an_offer_that_crossed_the_leave_never_ran_and_is_not_unknown() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![leaf("test", "record")]);
        world.leave(1);
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Skipped, "offline, as any node that is not there");
        world.succeed_all_offered();
        assert_eq!(world.status(job), JobStatus::Completed);
    }

    #[test]
    fn i8_what_is_taken_back_after_a_failure_is_not_offered_again() {
        let mut world = World::with_nodes(2);
        world.next_job(|spec| spec.offline = grid_types::job::Offline::Wait);
        let job = world.submit("all", vec![leaf("test", "record")]);
        world.fail(world.offered()[0]);
        world.leave(2);
        assert_eq!(world.status(job), JobStatus::Failed, "nothing is left to wait for");
        world.register("node-2", b"journal-2", 2, b"back", false).unwrap();
        assert!(world.offered().is_empty());
    }

    #[test]
    fn w9_a_cancelled_lease_that_crossed_the_leave_is_cancelled() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        world.cancel(job).unwrap();
        world.leave(1);
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Cancelled);
    }

    #[test]
    fn a_worker_that_leaves_what_it_holds_leaves_it_unknown() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        world.begin_all();
        world.leave_holding(1);
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
    }

    #[test]
    fn a_node_that_left_is_skipped_by_name_until_it_registers_again() {
        let mut world = World::with_nodes(2);
        world.leave(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        world.succeed_all_offered();
        assert_eq!(world.status(job), JobStatus::Completed);
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Skipped);
        world.register("node-1", b"journal-1", 2, b"again", false).unwrap();
        assert_eq!(world.state.nodes.values().next().unwrap().status, NodeStatus::Ready);
    }
}
