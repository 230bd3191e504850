//! Nodes of a test's world: how they come, go and are marked.

use grid_types::decl::builtin;
use grid_types::node::{Capacity, NodeFacts, NodeStatus};
use grid_types::{NodeOrd, SessionId};

use super::{Lease, World};
use crate::commands::{
    Command, DrainNode, LeaveNode, MarkNode, OrderDrain, RegisterNode, Rejection, RemoveNode, Reply,
};

impl World {
    pub fn register_command(id: &str, journal: &[u8], boot: u64, nonce: &[u8], slots: u32) -> Command {
        let backends = builtin().iter().map(|b| {
            let actions = b.actions.iter().map(|a| a.name.to_owned()).collect();
            (b.name.to_owned(), actions)
        });
        Command::RegisterNode(RegisterNode {
            id: id.parse().unwrap(),
            facts: NodeFacts {
                groups: ["web".parse().unwrap()].into(),
                backends: backends.collect(),
                capacity: Capacity { slots, ..Capacity::default() },
                ..NodeFacts::default()
            },
            journal_id: journal.to_vec(),
            boot,
            nonce: nonce.to_vec(),
            known_session_lives: false,
            agent: false,
            outstanding: Vec::new(),
            unstarted: Vec::new(),
            secret: None,
        })
    }

    pub fn register(
        &mut self,
        id: &str,
        journal: &[u8],
        boot: u64,
        nonce: &[u8],
        lives: bool,
    ) -> Result<Reply, Rejection> {
        let Command::RegisterNode(worker) = Self::register_command(id, journal, boot, nonce, 4) else { unreachable!() };
        self.one(Command::RegisterNode(RegisterNode { known_session_lives: lives, ..worker }))
    }

    /// A worker process registers with leases that it received and has not started.
    pub fn register_unstarted(&mut self, id: &str, nonce: &[u8], unstarted: &[Lease]) -> Result<Reply, Rejection> {
        self.register_with(id, nonce, unstarted, unstarted)
    }

    /// A worker process registers with the leases that its journal has.
    pub fn register_holding(&mut self, id: &str, nonce: &[u8], outstanding: &[Lease]) -> Result<Reply, Rejection> {
        self.register_with(id, nonce, outstanding, &[])
    }

    fn register_with(
        &mut self,
        id: &str,
        nonce: &[u8],
        outstanding: &[Lease],
        unstarted: &[Lease],
    ) -> Result<Reply, Rejection> {
        let journal = id.replace("node", "journal").into_bytes();
        let Command::RegisterNode(worker) = Self::register_command(id, &journal, 2, nonce, 4) else { unreachable!() };
        let keys = |leases: &[Lease]| leases.iter().map(|(_, lease)| *lease).collect();
        let (outstanding, unstarted) = (keys(outstanding), keys(unstarted));
        self.one(Command::RegisterNode(RegisterNode { outstanding, unstarted, ..worker }))
    }

    pub fn register_with_slots(&mut self, id: &str, slots: u32) {
        self.one(Self::register_command(id, id.as_bytes(), 1, b"n", slots)).unwrap();
    }

    pub fn session(&self, node: u32) -> u64 {
        self.state.nodes[&NodeOrd(node)].session.0
    }

    pub fn mark(&mut self, node: u32, session: u64, from: NodeStatus, to: NodeStatus) -> Result<Reply, Rejection> {
        let (node, session) = (NodeOrd(node), SessionId(session));
        self.one(Command::MarkNode(MarkNode { node, session, from, to, cause: None }))
    }

    pub fn mark_dead(&mut self, node: u32) {
        let from = self.state.nodes[&NodeOrd(node)].status;
        self.mark(node, self.session(node), from, NodeStatus::Dead).unwrap();
    }

    pub fn drain(&mut self, node: u32) {
        let session = SessionId(self.session(node));
        self.one(Command::DrainNode(DrainNode { node: NodeOrd(node), session })).unwrap();
    }

    pub fn order_drain(&mut self, node: u32, drain: bool) -> Result<Reply, Rejection> {
        self.one(Command::OrderDrain(OrderDrain { node: NodeOrd(node), drain }))
    }

    pub fn remove(&mut self, node: u32, force: bool) -> Result<Reply, Rejection> {
        self.one(Command::RemoveNode(RemoveNode { node: NodeOrd(node), force, lapsed: false }))
    }

    pub fn leave(&mut self, node: u32) {
        self.leave_with(node, true);
    }

    pub fn leave_holding(&mut self, node: u32) {
        self.leave_with(node, false);
    }

    fn leave_with(&mut self, node: u32, nothing_outstanding: bool) {
        let session = SessionId(self.session(node));
        self.one(Command::LeaveNode(LeaveNode { node: NodeOrd(node), session, nothing_outstanding })).unwrap();
    }
}
