//! Whose call it is: a session's number is easy to guess, its secret is not.
//!
//! ```text
//!   registration --> 16 random bytes --> the worker, in the answer
//!                        '--> their hash --> the command, the state, every later leader
//! ```
//!
//! The state has only the hash, so neither the log nor a backup can open a session. An unknown session, an unknown node and a
//! wrong secret get the same answer after the same comparison: a refusal tells nothing about what exists.
//! A worker registers again with every leader and after every lost answer, and gets another secret each time; the one before is
//! void with its session.

use grid_core::{SECRET_BYTES, SecretHash};
use grid_fabric::{Credential, FabricRefusal};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::v1;
use grid_types::{Code, NodeId, NodeOrd};

use super::FabricHub;

/// A secret for a session that begins, and what the state keeps of it.
pub(super) fn mint() -> Result<(v1::Secret, SecretHash), FabricRefusal> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret)
        .map_err(|e| FabricRefusal::new(Code::Internal, format!("this machine has no randomness: {e}")))?;
    Ok((v1::Secret { value: secret.to_vec() }, SecretHash::of(&secret)))
}

impl FabricHub {
    /// The node of a session that this leader knows.
    pub(super) fn proven(&self, credential: &Credential) -> Option<NodeOrd> {
        let node = self.shared.sessions().get_mut(credential.session).map(|session| session.node);
        self.is_proven(node, credential)
    }

    /// The same by the node's name: the state knows its session, whichever leader it registered with.
    pub(super) fn proven_node(&self, node: &str, credential: &Credential) -> Result<NodeOrd, FabricRefusal> {
        if self.shared.current_term().is_none() {
            return Err(self.not_leader());
        }
        let id: Option<NodeId> = node.parse().ok();
        let node = id.and_then(|id| self.shared.state().node_by_id(&id).map(|node| node.ord));
        self.is_proven(node, credential).ok_or_else(not_proven)
    }

    fn is_proven(&self, node: Option<NodeOrd>, credential: &Credential) -> Option<NodeOrd> {
        let state = self.shared.state();
        let known = node.and_then(|node| state.nodes.get(&node)).filter(|node| node.session == credential.session);
        let is_proven = SecretHash::is_of(known.and_then(|node| node.secret), &credential.secret.value);
        let node = known.map(|node| node.ord).filter(|_| is_proven);
        drop(state);
        if node.is_none() {
            refuse(Port::Grpc, Kind::BadSecret, format_args!("a call of session {}", credential.session));
        }
        node
    }
}

pub(super) fn not_proven() -> FabricRefusal {
    FabricRefusal::new(
        Code::Forbidden,
        "FORBIDDEN: the session is not known, or this is not its secret; register again",
    )
}
