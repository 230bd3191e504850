//! Answers workers that ask to start `once` leases (W3).
//!
//! Many of them are one entry, as results are. The answer is made by who proposed the command, not by the dispatcher: it
//! carries the time of the question, which the log does not.

use std::sync::Arc;

use grid_core::{BeginLease, Command, Reply};
use grid_proto::v1;
use grid_types::{LeaseKey, NodeOrd, SessionId};

use super::FabricHub;
use super::reports::count_invented;
use crate::proposer::{NoReply, TOGETHER};

impl FabricHub {
    /// Proposes the starts of `once` leases and answers when they are stored (W3). What is asked again while it is on its
    /// way is left out: the answer names the first question, so that the worker knows how old it is.
    pub(super) async fn begin(&self, node: NodeOrd, session: SessionId, begins: Vec<v1::Begin>) {
        let asked = self.concerned(node, session, begins);
        for some in asked.chunks(TOGETHER) {
            let begin = |lease| Command::BeginLease(BeginLease { node, session, lease });
            let commands: Vec<Command> = some.iter().map(|(lease, _)| begin(*lease)).collect();
            let (shared, some) = (Arc::clone(&self.shared), some.to_vec());
            let then = move |replies: Vec<Result<Reply, NoReply>>| {
                let mut sessions = shared.sessions();
                let Some(known) = sessions.get_mut(session) else { return };
                known.beginning.retain(|lease| some.iter().all(|(answered, _)| answered != lease));
                let begun = some.iter().zip(replies).map(|((lease, asked_ms), reply)| v1::BeginAnswer {
                    lease: Some((*lease).into()),
                    kind: begin_kind(&reply).into(),
                    asked_ms: *asked_ms,
                });
                known.send(v1::ToWorker { begun: begun.collect(), ..v1::ToWorker::default() });
            };
            self.shared.proposer.propose_together(&commands, then).await;
        }
    }

    /// The questions that the state has to decide. One about a lease that is not out to this node is answered here.
    fn concerned(&self, node: NodeOrd, session: SessionId, begins: Vec<v1::Begin>) -> Vec<(LeaseKey, u64)> {
        if begins.is_empty() {
            return Vec::new();
        }
        let state = self.shared.state();
        let mut sessions = self.shared.sessions();
        let Some(known) = sessions.get_mut(session) else { return Vec::new() };
        let (mut asked, mut begun, mut invented) = (Vec::new(), Vec::new(), 0);
        for v1::Begin { lease, asked_ms } in begins {
            let Some(lease) = lease.map(LeaseKey::from) else { continue };
            match state.concerns_begin(&BeginLease { node, session, lease }) {
                Ok(()) if known.beginning.insert(lease) => asked.push((lease, asked_ms)),
                Ok(()) => {}
                Err(reply) => {
                    invented += u64::from(state.is_invented(node, lease));
                    let kind = begin_kind(&Ok(reply)).into();
                    begun.push(v1::BeginAnswer { lease: Some(lease.into()), kind, asked_ms });
                }
            }
        }
        if !begun.is_empty() {
            known.send(v1::ToWorker { begun, ..v1::ToWorker::default() });
        }
        drop(sessions);
        drop(state);
        count_invented(node, invented);
        asked
    }
}

fn begin_kind(reply: &Result<Reply, NoReply>) -> v1::BeginKind {
    match reply {
        Ok(Reply::Begun { granted: true }) => v1::BeginKind::Granted,
        Ok(Reply::Begun { granted: false }) => v1::BeginKind::Refused,
        Ok(Reply::Withdrawn) => v1::BeginKind::Withdrawn,
        // A stale session, a lost leadership, a fate unknown: nothing is decided.
        Ok(_) | Err(_) => v1::BeginKind::AskAgain,
    }
}
