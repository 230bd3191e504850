//! `ReclaimNodes`: removed nodes that nothing refers to leave the state, and with it their tombstones.
//!
//! A removed node stays as a tombstone because results name nodes by number. The leader names those that no stored job
//! expects. That answer cannot go stale: a removed node matches no target, so no new job expects it, and jobs that are
//! live are checked again here. Numbers are never reused: a machine that registers later gets a new one.

use grid_types::node::NodeStatus;
use grid_types::{NodeOrd, SessionId};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// Nodes of one command.
pub const MAX_RECLAIMED: usize = 500;

/// Drops the records of removed nodes that nothing refers to.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReclaimNodes {
    /// With the session that the leader saw: a node that registered again since is not removed any more.
    #[n(0)]
    pub nodes: Vec<(NodeOrd, SessionId)>,
}

impl ReclaimNodes {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        for (ord, session) in self.nodes.iter().take(MAX_RECLAIMED) {
            let state = &mut turn.state;
            let found = state.nodes.get(ord).filter(|node| node.session == *session);
            let Some(node) = found.filter(|node| node.status == NodeStatus::Removed) else { continue };
            if state.is_expected(*ord) {
                continue;
            }
            let id = node.id.clone();
            state.nodes.remove(ord);
            state.removed_nodes = state.removed_nodes.saturating_sub(1);
            state.node_ids.remove(&id);
            turn.changes.nodes.remove(ord);
            turn.changes.reclaimed.push(*ord);
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::ReclaimNodes;
    use crate::commands::{Command, Reply};
    use crate::world::{World, leaf};
    use grid_types::{NodeOrd, SessionId};

    fn reclaim(world: &mut World, node: u32) -> Vec<NodeOrd> {
        let nodes = vec![(NodeOrd(node), SessionId(world.session(node)))];
        world.apply(vec![Command::ReclaimNodes(ReclaimNodes { nodes })]).changes.reclaimed
    }

    #[test]
    fn issue13_19_only_removed_nodes_that_no_live_job_expects_are_reclaimed() {
        let mut world = World::with_nodes(2);
        assert_eq!(reclaim(&mut world, 1), [], "it is a node");
        world.submit("all", vec![leaf("ping", "echo")]);
        world.remove(1, true).unwrap();
        assert_eq!(reclaim(&mut world, 1), [], "a live job expects it");
        world.finish_all();
        let seen = vec![(NodeOrd(1), SessionId(world.session(1)))];
        world.register("node-1", b"journal-1", 9, b"again", false).unwrap();
        let stale = world.apply(vec![Command::ReclaimNodes(ReclaimNodes { nodes: seen })]).changes.reclaimed;
        assert_eq!(stale, [], "it came back meanwhile");
        world.remove(1, true).unwrap();
        assert_eq!(reclaim(&mut world, 1), [NodeOrd(1)]);
        assert!(!world.state.nodes.contains_key(&NodeOrd(1)));
        let again = world.register("node-1", b"journal-1", 9, b"later", false);
        assert!(matches!(again, Ok(Reply::Registered { node: NodeOrd(3), .. })), "numbers are never reused: {again:?}");
    }
}
