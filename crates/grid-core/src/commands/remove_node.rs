//! `RemoveNode`: an operator removes a node.
//!
//! It is refused while work may run there, unless it is forced; what is lost by force is `unknown`, as with a dead node.
//! The node stays in the state as a tombstone that matches no target: results name nodes by number, and a number must
//! keep its name. A worker that registers under that name again is new (W1 asks nothing about the old journal) and gets the
//! same number, so that old and new results of one machine have one name.

use grid_types::limits::AGENT_SILENT_MS;
use grid_types::node::NodeStatus;
use grid_types::{NodeCause, NodeOrd, Reason};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// Removes a node from the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RemoveNode {
    /// The node.
    #[n(0)]
    pub node: NodeOrd,
    /// Even if it lives.
    #[n(1)]
    pub force: bool,
    /// By the leader, not by an operator: an agent that has not asked for a day. Refused if a live job expects it.
    #[n(2)]
    #[cbor(default)]
    pub lapsed: bool,
}

impl RemoveNode {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        if self.lapsed {
            return self.remove_silent_agent(turn);
        }
        let known = turn.state.nodes.get_mut(&self.node).filter(|node| node.status != NodeStatus::Removed);
        let node = known.ok_or(Rejection::NoNode(self.node))?;
        let (id, leased) = (node.id.clone(), node.leased_jobs.len());
        let free = match node.status {
            NodeStatus::Dead | NodeStatus::Left => true,
            NodeStatus::Draining => node.leased_jobs.is_empty(),
            _ => false,
        };
        if !free && !self.force {
            let why = if node.status == NodeStatus::Draining {
                format!("{leased} leases still run on {id}; remove it when they have ended, or with --force")
            } else {
                format!(
                    "{id} is {}: drain it first (gridc node drain {id} --wait), or remove it with --force",
                    node.status
                )
            };
            return Err(Rejection::NodeStands(why));
        }
        node.drained = false;
        turn.set_node_status(self.node, NodeStatus::Removed, Some(NodeCause::RemovalOrdered));
        turn.lose_all_leases(self.node, &Reason::NodeRemoved);
        Ok(Reply::Done)
    }

    fn remove_silent_agent(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let node = turn.state.nodes.get(&self.node).ok_or(Rejection::NoNode(self.node))?;
        let is_gone = matches!(node.status, NodeStatus::Dead | NodeStatus::Left);
        let is_silent = turn.now_ms().saturating_sub(node.changed_ms) >= AGENT_SILENT_MS;
        if !node.agent || !is_gone || !is_silent || turn.state.is_expected(self.node) {
            return Err(Rejection::StatusMoved { status: node.status });
        }
        if let Some(node) = turn.state.nodes.get_mut(&self.node) {
            (node.drained, node.lapsed) = (false, true);
        }
        turn.set_node_status(self.node, NodeStatus::Removed, Some(NodeCause::AgentSilent));
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::RemoveNode;
    use crate::commands::{Command, Rejection, Reply};
    use crate::world::{World, leaf};
    use grid_types::job::Offline;
    use grid_types::limits::{AGENT_SILENT_MS, MAX_AGENTS};
    use grid_types::node::NodeStatus;
    use grid_types::{JobStatus, NodeOrd, Outcome};

    #[test]
    fn what_lives_is_not_removed_and_what_is_drained_dead_or_gone_is() {
        let mut world = World::with_nodes(3);
        let refused = world.remove(1, false);
        let Err(Rejection::NodeStands(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("gridc node drain node-1"), "{why}");
        world.submit("node:node-1", vec![leaf("ping", "echo")]);
        world.order_drain(1, true).unwrap();
        assert!(matches!(world.remove(1, false), Err(Rejection::NodeStands(_))), "its lease still runs");
        world.succeed_all_offered();
        world.remove(1, false).unwrap();
        world.mark_dead(2);
        world.remove(2, false).unwrap();
        world.leave(3);
        world.remove(3, false).unwrap();
        assert!(matches!(world.remove(3, true), Err(Rejection::NoNode(_))), "it is not there any more");
        assert!(matches!(world.order_drain(3, true), Err(Rejection::NoNode(_))));
        assert!(world.submit_keyed("all", vec![leaf("ping", "echo")], None).is_err(), "it matches no target");
        assert!(world.submit_keyed("node:node-1", vec![leaf("ping", "echo")], None).is_err());
    }

    #[test]
    fn force_gives_up_what_runs_and_what_waits_goes_on_without_it() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![leaf("test", "record")]);
        world.begin_all();
        world.remove(1, true).unwrap();
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);

        let mut world = World::with_nodes(2);
        world.mark_dead(1);
        world.next_job(|spec| spec.offline = Offline::Wait);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        world.succeed_all_offered();
        assert_eq!(world.status(job), JobStatus::Running, "it waits for node-1");
        world.remove(1, false).unwrap();
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Skipped, "nobody waits for what was removed");
        assert_eq!(world.status(job), JobStatus::Completed);
    }

    #[test]
    fn w1_a_removed_node_registers_again_as_new() {
        let mut world = World::with_nodes(1);
        world.order_drain(1, true).unwrap();
        world.remove(1, false).unwrap();
        let again = world.register("node-1", b"journal-1", 1, b"rolled back", false);
        assert!(matches!(again, Ok(Reply::Registered { node: NodeOrd(1), .. })), "{again:?}");
        let node = &world.state.nodes[&NodeOrd(1)];
        assert_eq!((node.status, node.drained), (NodeStatus::Ready, false), "the order went with the node");
    }

    fn lapse(world: &mut World, node: u32) -> Result<Reply, Rejection> {
        world.one(Command::RemoveNode(RemoveNode { node: NodeOrd(node), force: false, lapsed: true }))
    }

    #[test]
    fn issue13_19_an_agent_that_has_not_asked_for_a_day_is_removed_unless_a_live_job_expects_it() {
        let mut world = World::with_nodes(1);
        world.register_agent("agent-1", "a").unwrap();
        world.mark_dead(2);
        assert!(lapse(&mut world, 2).is_err(), "it was there a moment ago");
        world.advance_ms(AGENT_SILENT_MS);
        world.mark_dead(1);
        world.advance_ms(AGENT_SILENT_MS);
        assert!(lapse(&mut world, 1).is_err(), "a worker is removed by an operator only");
        world.next_job(|spec| spec.offline = Offline::Wait);
        let job = world.submit("node:agent-1", vec![leaf("ping", "echo")]);
        assert!(lapse(&mut world, 2).is_err(), "a live job expects it");
        world.cancel(job).unwrap();
        lapse(&mut world, 2).unwrap();
        let node = &world.state.nodes[&NodeOrd(2)];
        assert_eq!((node.status, node.lapsed), (NodeStatus::Removed, true));
        world.register_agent("agent-1", "a").unwrap();
        assert!(!world.state.nodes[&NodeOrd(2)].lapsed, "it came back");
    }

    #[test]
    fn issue13_19_agents_are_bounded_in_number() {
        let mut world = World::new();
        let agents = (0..MAX_AGENTS).map(|n| World::agent_command(&format!("agent-{n}"), "a"));
        assert!(world.apply(agents.collect()).replies.iter().all(Result::is_ok));
        let refused = world.register_agent("one-more", "a");
        assert!(matches!(refused, Err(Rejection::TooManyAgents { .. })), "{refused:?}");
        world.register_agent("agent-0", "b").unwrap();
        world.remove(1, true).unwrap();
        world.register_agent("one-more", "a").unwrap();
    }
}
