//! Records events: what an operator wants to know of, as rows of history in the order it happened.
//!
//! L2: an event is part of what `apply` returns, so every replica has the same ones under the same numbers. It holds codes
//! and data; its words are made by readers (`grid_types::Event`, which also says how to add a kind).
//! Not here: failed steps, which are grouped (`jobs::failed_steps`).

use grid_types::node::NodeStatus;
use grid_types::{Event, JobId, NodeId, NodeOrd};

use super::Turn;
use crate::changes::{EventRow, History};

impl Turn<'_> {
    /// About a job.
    pub fn record_job_event(&mut self, job: JobId, event: Event) {
        self.push_event(event, Some(job), None);
    }

    /// About a node.
    pub fn record_node_event(&mut self, node: &NodeId, event: Event) {
        self.push_event(event, None, Some(node.clone()));
    }

    /// About a job on one of its nodes.
    pub fn record_step_event(&mut self, job: JobId, node: NodeOrd, event: Event) {
        let node = self.state.nodes.get(&node).map(|node| node.id.clone());
        self.push_event(event, Some(job), node);
    }

    /// About the cluster.
    pub fn record_event(&mut self, event: Event) {
        self.push_event(event, None, None);
    }

    /// A draining node has ended its last lease.
    pub fn record_if_drained(&mut self, ord: NodeOrd) {
        let Some(node) = self.state.nodes.get(&ord) else { return };
        if node.status == NodeStatus::Draining && node.leased_jobs.is_empty() {
            let id = node.id.clone();
            self.record_node_event(&id, Event::NodeDrained);
        }
    }

    fn push_event(&mut self, event: Event, job: Option<JobId>, node: Option<NodeId>) {
        let meta = &self.state.meta;
        let namespace = job.and_then(|id| self.state.jobs.get(&id)).map(|job| job.head.namespace.clone());
        self.changes.history.push(History::Event(EventRow {
            wall_ms: meta.wall_ms,
            event,
            leader_epoch: meta.leadership.epoch,
            job,
            node,
            namespace,
        }));
    }
}

#[cfg(test)]
mod tests {
    use crate::changes::{EventRow, History};
    use crate::world::{World, confirmed, leaf};
    use grid_types::JobId;
    use grid_types::node::NodeStatus;

    fn events(world: &World) -> impl Iterator<Item = &EventRow> {
        world.history.iter().filter_map(|row| match row {
            History::Event(event) => Some(event),
            History::Result(_) | History::Skip(_) => None,
        })
    }

    fn kinds(world: &World, job: JobId) -> Vec<&str> {
        events(world).filter(|event| event.job == Some(job)).map(|event| event.event.kind()).collect()
    }

    fn text(row: &EventRow) -> String {
        row.event.text(row.job)
    }

    fn node_kinds(world: &World, node: &str) -> Vec<&'static str> {
        let of_node = events(world).filter(|event| event.node.as_ref().is_some_and(|id| id.as_str() == node));
        of_node.map(|event| event.event.kind()).collect()
    }

    #[test]
    fn a_job_tells_of_every_turn_it_takes() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![leaf("ping", "echo"), confirmed(leaf("ping", "echo"))]);
        world.succeed_all_offered();
        world.confirm(job, None).unwrap();
        world.fail(world.offered()[0]);
        world.succeed_all_offered();
        let told = kinds(&world, job);
        let want = [
            "JobSubmitted",
            "JobStarted",
            "ConfirmationWanted",
            "JobPaused",
            "PhaseConfirmed",
            "JobContinued",
            "StepFailed",
            "JobTripped",
            "JobEnded",
        ];
        assert_eq!(told, want);
        let paused = events(&world).find(|event| event.event.kind() == "JobPaused").unwrap();
        assert!(text(paused).contains("gridc job confirm"), "{paused:?}");
        assert_eq!(paused.namespace.as_ref().unwrap().as_str(), "default");
        let tripped = events(&world).find(|event| event.event.kind() == "JobTripped").unwrap();
        assert!(text(tripped).contains("step 1 failed on node-1"), "{tripped:?}");
    }

    #[test]
    fn a_node_tells_how_it_comes_and_goes() {
        let mut world = World::with_nodes(1);
        world.mark(1, world.session(1), NodeStatus::Ready, NodeStatus::Warning).unwrap();
        world.mark(1, world.session(1), NodeStatus::Warning, NodeStatus::Ready).unwrap();
        world.mark_dead(1);
        world.register("node-1", b"journal-1", 2, b"again", false).unwrap();
        world.drain(1);
        world.leave(1);
        let want = [
            "NodeRegistered",
            "NodeWarning",
            "NodeReady",
            "NodeDead",
            "NodeReturned",
            "NodeDraining",
            "NodeDrained",
            "NodeLeft",
        ];
        assert_eq!(node_kinds(&world, "node-1"), want);
    }

    #[test]
    fn a_draining_node_is_drained_when_its_last_lease_has_ended() {
        let mut world = World::with_nodes(1);
        world.submit("all", vec![leaf("ping", "echo")]);
        let lease = world.offered()[0];
        world.drain(1);
        assert!(!node_kinds(&world, "node-1").contains(&"NodeDrained"));
        world.succeed(lease);
        assert_eq!(node_kinds(&world, "node-1").last().unwrap(), &"NodeDrained");
    }
}
