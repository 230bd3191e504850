//! Changes the status of a node, with everything that follows from it for its jobs.
//!
//! Not here: when a node counts as silent (`grid-plan`), what its jobs do then (`jobs::pause`, `jobs::lease`), registrations
//! (`commands::register_node`).

use grid_types::node::NodeStatus;
use grid_types::{Event, NodeCause, NodeOrd};

use crate::turn::Turn;

impl Turn<'_> {
    /// A node that reports a result is online, whatever the clock said a moment ago.
    pub(crate) fn node_spoke(&mut self, ord: NodeOrd) {
        let status = self.state.nodes.get(&ord).map(|node| node.status);
        if matches!(status, Some(NodeStatus::Warning | NodeStatus::Unhealthy)) {
            self.set_node_status(ord, NodeStatus::Ready, Some(NodeCause::MessageReceived));
        }
    }

    pub(crate) fn set_node_status(&mut self, ord: NodeOrd, to: NodeStatus, cause: Option<NodeCause>) {
        let meta = &self.state.meta;
        let (now_ms, wall_ms, epoch) = (meta.now_ms, meta.wall_ms, meta.leadership.epoch);
        let Some(node) = self.state.nodes.get_mut(&ord) else { return };
        let was = node.status;
        let id = node.id.clone();
        // Of a node that was removed before it is nothing.
        let freed = if to == NodeStatus::Removed { node.extra_facts_bytes() } else { 0 };
        node.status = to;
        self.state.extra_facts_bytes = self.state.extra_facts_bytes.saturating_sub(freed);
        (node.changed_ms, node.changed_wall_ms) = (now_ms, wall_ms);
        node.leader_epoch = epoch;
        let removed = self.state.removed_nodes + usize::from(to == NodeStatus::Removed);
        self.state.removed_nodes = removed.saturating_sub(usize::from(was == NodeStatus::Removed));
        self.changes.nodes.insert(ord);
        self.wake.insert(ord);
        self.node_turned(ord, was);
        self.record_node_event(&id, Event::node_moved(was, to, cause));
    }
}
