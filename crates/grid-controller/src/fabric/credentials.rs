//! Checks the secret of a session: its number is easy to guess, its secret is not.
//!
//! ```text
//!   registration --> 16 random bytes --> the worker, in the answer
//!                        '--> their hash --> the command, the state, every later leader
//! ```
//!
//! The state has only the hash, so neither the log nor a backup can open a session. An unknown session, an unknown node and a
//! wrong secret get the same answer after the same comparison: a refusal does not reveal what exists.
//! A worker registers again with every leader and after every lost answer, and gets another secret each time; the one before is
//! void with its session.

use grid_core::{SECRET_BYTES, SecretHash};
use grid_fabric::{Credential, FabricRefusal, Peer};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::v1;
use grid_types::{Code, NodeId, NodeOrd, SessionId};

use super::FabricHub;
use crate::leader::{NotProven, is_proven};

/// A secret for a session that begins, and what the state keeps of it.
pub(super) fn mint() -> Result<(v1::Secret, SecretHash), FabricRefusal> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret)
        .map_err(|e| FabricRefusal::new(Code::Internal, format!("this machine has no randomness: {e}")))?;
    Ok((v1::Secret { value: secret.to_vec() }, SecretHash::of(&secret)))
}

impl FabricHub {
    /// The node of a session that this leader knows.
    pub(super) fn proven(&self, credential: &Credential, peer: &Peer) -> Option<NodeOrd> {
        let Credential { session, secret } = credential;
        let proven = self.shared.look(|leader, now| leader.proven(now, *session, &secret.value, peer).ok()).flatten();
        if proven.is_none() {
            count(*session);
        }
        proven
    }

    /// The same by the node's name: the state knows its session, whichever leader it registered with.
    pub(super) fn proven_node(&self, node: &str, credential: &Credential) -> Result<NodeOrd, FabricRefusal> {
        if self.shared.current_term().is_none() {
            return Err(self.not_leader());
        }
        let Credential { session, secret } = credential;
        let id: Option<NodeId> = node.parse().ok();
        let proven = {
            let state = self.shared.state();
            let node = id.and_then(|id| state.node_by_id(&id).map(|node| node.ord));
            is_proven(&state, node, *session, &secret.value)
        };
        proven.map_err(|NotProven| {
            count(*session);
            not_proven()
        })
    }
}

/// A call whose session is not known, or whose secret is another.
pub(super) fn count(session: SessionId) {
    refuse(Port::Grpc, Kind::BadSecret, format_args!("a call of session {session}"));
}

pub(super) fn not_proven() -> FabricRefusal {
    FabricRefusal::new(
        Code::Forbidden,
        "FORBIDDEN: the session is not known, or this is not its secret; register again",
    )
}
