//! What happens to nodes, leaders and time.

use grid_core::{CancelJob, Command, DrainNode, ExpireLease, FireTimers, LeaveNode, MarkNode};
use grid_types::node::NodeStatus;
use grid_types::{LeaseKey, NodeOrd};

use super::Player;
use crate::rig::name_of;

impl Player {
    pub fn expire(&mut self) {
        let leases = self.rig.leases(false);
        let Some((node, lease)) = self.dice.maybe(&leases) else { return };
        self.rig.note(format!("expired {:?}", name_of((node, lease))));
        let begun = self.rig.begun(node, lease);
        self.rig.one(Command::ExpireLease(ExpireLease { node, lease, begun })).unwrap();
        let now_ms = self.rig.model.now_ms;
        self.rig.model.jobs.get_mut(&lease.job).unwrap().expire(node.0, now_ms);
    }

    fn some_node(&mut self) -> u32 {
        1 + self.dice.roll(u32::try_from(self.rig.model.nodes.len()).unwrap())
    }

    pub fn mark(&mut self) {
        let node = self.some_node();
        let from = self.rig.model.nodes[&node].status;
        let to = match from {
            NodeStatus::Ready => NodeStatus::Warning,
            NodeStatus::Warning => self.dice.pick(&[NodeStatus::Ready, NodeStatus::Unhealthy]),
            NodeStatus::Unhealthy => self.dice.pick(&[NodeStatus::Ready, NodeStatus::Dead]),
            NodeStatus::Dead | NodeStatus::Draining | NodeStatus::Left | NodeStatus::Removed => return,
        };
        self.mark_as(node, to);
    }

    pub fn mark_as(&mut self, node: u32, to: NodeStatus) {
        let from = self.rig.model.nodes[&node].status;
        self.rig.note(format!("node {node}: {from} -> {to}"));
        let session = self.rig.state.nodes[&NodeOrd(node)].session;
        let mark = MarkNode { node: NodeOrd(node), session, from, to, cause: None };
        self.rig.one(Command::MarkNode(mark)).unwrap();
        self.rig.model.nodes.get_mut(&node).unwrap().status = to;
        if to == NodeStatus::Dead {
            self.rig.model.lose_leases(node);
        }
    }

    pub fn register(&mut self) {
        let node = self.some_node();
        let new_journal = self.dice.one_in(4);
        self.register_node(node, new_journal);
    }

    pub fn register_node(&mut self, node: u32, new_journal: bool) {
        let held: Vec<LeaseKey> = if new_journal || self.dice.one_in(3) {
            Vec::new()
        } else {
            let leases = self.rig.leases(false).into_iter().chain(self.rig.leases(true));
            leases.filter(|(ord, _)| ord.0 == node).map(|(_, lease)| lease).collect()
        };
        let which = if new_journal { " with a new journal" } else { "" };
        self.rig.note(format!("node {node} registers{which} with {} leases", held.len()));
        let names_all = !held.is_empty();
        *self.rig.journals.entry(node).or_default() += u64::from(new_journal);
        let slots = u32::try_from(self.rig.model.nodes[&node].slots).unwrap();
        let lacking = self.rig.model.nodes[&node].lacking;
        let command = self.rig.register_command(node, slots, lacking, held);
        self.rig.one(command).unwrap();
        self.rig.model.register(node, names_all, new_journal);
        self.rig.model.nodes.get_mut(&node).unwrap().status = NodeStatus::Ready;
    }

    pub fn drain_or_leave(&mut self) {
        let node = self.some_node();
        let session = self.rig.state.nodes[&NodeOrd(node)].session;
        let status = self.rig.model.nodes[&node].status;
        let ord = NodeOrd(node);
        if matches!(status, NodeStatus::Ready | NodeStatus::Warning | NodeStatus::Unhealthy) && self.dice.one_in(2) {
            self.rig.note(format!("node {node} drains"));
            self.rig.one(Command::DrainNode(DrainNode { node: ord, session })).unwrap();
            self.rig.model.nodes.get_mut(&node).unwrap().status = NodeStatus::Draining;
        } else if !matches!(status, NodeStatus::Dead | NodeStatus::Left) {
            let nothing_outstanding = self.dice.one_in(2);
            self.rig.note(format!("node {node} leaves, holds nothing: {nothing_outstanding}"));
            self.rig.one(Command::LeaveNode(LeaveNode { node: ord, session, nothing_outstanding })).unwrap();
            self.rig.model.nodes.get_mut(&node).unwrap().status = NodeStatus::Left;
            if nothing_outstanding {
                self.rig.model.take_back_leases(node);
            } else {
                self.rig.model.lose_leases(node);
            }
        }
    }

    pub fn new_leader(&mut self) {
        self.rig.note("new leader".to_owned());
        let old = self.rig.head();
        self.rig.begin_term();
        if let Some(job) = self.rig.model.jobs.keys().next().copied() {
            let cancel = Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job });
            self.rig.ignored(old, cancel);
        }
    }

    pub fn advance(&mut self) {
        let now_ms = self.rig.model.now_ms;
        let due_ms = self.rig.state.next_due_ms().filter(|at| *at < now_ms + 3_600_000);
        let to_ms = match due_ms {
            Some(at) if self.dice.one_in(2) => at.max(now_ms),
            _ => now_ms + u64::from(self.dice.roll(1_500)),
        };
        self.rig.note(format!("time {to_ms}"));
        self.rig.model.now_ms = to_ms;
        self.rig.one(Command::FireTimers(FireTimers {})).unwrap();
        self.rig.model.fire_timers();
        self.rig.agree();
        self.rig.model.check_timers();
    }
}
