//! Plain HTTP agents of the small world.

use grid_types::{LeaseKey, NodeOrd, SessionId};

use super::World;
use crate::commands::{Command, HandOut, RegisterNode, Rejection, Reply};

impl World {
    /// `instance` tells one process of an agent from another.
    pub fn register_agent(&mut self, id: &str, instance: &str) -> Result<Reply, Rejection> {
        self.one(Self::agent_command(id, instance))
    }

    pub fn agent_command(id: &str, instance: &str) -> Command {
        let Command::RegisterNode(worker) = Self::register_command(id, instance.as_bytes(), 0, b"", 4) else {
            unreachable!()
        };
        let nonce = instance.as_bytes().to_vec();
        Command::RegisterNode(RegisterNode { nonce, agent: true, ..worker })
    }

    /// An agent asks; what it is given.
    pub fn hand_out(&mut self, node: u32) -> Vec<LeaseKey> {
        let due: Vec<LeaseKey> = self.offered().into_iter().filter(|(of, _)| of.0 == node).map(|(_, l)| l).collect();
        self.hand_over(node, due, false).unwrap_or_default()
    }

    /// Its answer was never written.
    pub fn hand_back(&mut self, node: u32, leases: Vec<LeaseKey>) -> Vec<LeaseKey> {
        self.hand_over(node, leases, true).unwrap()
    }

    fn hand_over(&mut self, node: u32, leases: Vec<LeaseKey>, returned: bool) -> Result<Vec<LeaseKey>, Rejection> {
        let session = SessionId(self.session(node));
        let command = HandOut { node: NodeOrd(node), session, leases, returned };
        match self.one(Command::HandOut(command))? {
            Reply::HandedOut { leases, .. } => Ok(leases),
            other => panic!("{other:?}"),
        }
    }
}
