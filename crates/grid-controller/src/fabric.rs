//! The controller's answers to its workers: registration through the log, and the messages of their sessions.

mod credentials;
mod registration;

use std::sync::Arc;

use grid_core::{Command, DrainNode, LeaveNode, RegisterNode, Rejection, Reply};
use grid_fabric::{Broadcaster, CloseReason, Credential, FabricRefusal, Hub, Leave, Outbox, Peer};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::v1;
use grid_types::limits::OUTPUT_TAIL_BYTES;
use grid_types::{Code, LeaderEpoch, NodeId, NodeOrd, SessionId};

use crate::control::code_of;
use crate::leadership::superseded;
use crate::reply::NoReply;
use crate::shared::Shared;
use crate::shared::{NotOpened, Stream};
use crate::term::Term;

pub struct FabricHub {
    shared: Arc<Shared>,
}

impl FabricHub {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn not_leader(&self) -> FabricRefusal {
        let leader_url = self.shared.role().leader_url;
        FabricRefusal { leader_url, ..FabricRefusal::new(Code::NotLeader, "this controller is not the leader") }
    }

    fn refusal(&self, no_reply: NoReply) -> FabricRefusal {
        match no_reply {
            NoReply::NotLeader => self.not_leader(),
            NoReply::TooLarge(why) => FabricRefusal::new(Code::TooLarge, why),
            NoReply::OutcomeUnknown(why) => FabricRefusal::new(Code::OutcomeUnknown, why),
            NoReply::Rejected(rejection) => {
                let code = code_of(&rejection);
                if code == Code::NotLeader {
                    return self.not_leader();
                }
                // A session that is dead counts as living for so long.
                let warning_ms = self.shared.settings.thresholds.warning_ms;
                let passes_within_ms = (code == Code::DuplicateNode).then(|| warning_ms.saturating_add(1_000));
                // The code word leads: it is what people search for.
                let message = format!("{}: {rejection}", code.word());
                FabricRefusal { passes_within_ms, ..FabricRefusal::new(code, message) }
            }
        }
    }

    /// Puts a registration through the log.
    #[tracing::instrument(name = "register", skip_all, fields(node = %id, epoch = %term.epoch))]
    async fn registered(
        &self,
        term: &Term,
        id: NodeId,
        request: v1::RegisterNodeRequest,
        peer: Peer,
    ) -> Result<v1::RegisterNodeReply, FabricRefusal> {
        self.check_generation(&id, &request).await?;
        let command = self.registration(id, request, &peer)?;
        let rejection = command.refused_by(&self.shared.state());
        if let Some(rejection) = rejection {
            if matches!(rejection, Rejection::TooManyNodes { .. } | Rejection::TooManyFacts) {
                refuse(Port::Grpc, Kind::TooManyNodes, format_args!("{rejection}"));
            }
            return Err(self.refusal(NoReply::Rejected(rejection)));
        }
        let (secret, hash) = credentials::mint()?;
        let command = Command::RegisterNode(RegisterNode { secret: Some(hash), ..command });
        let reply = self.shared.log.proposer.propose(&command).await;
        let Reply::Registered { node, session } = reply.map_err(|no_reply| self.refusal(no_reply))? else {
            return Err(FabricRefusal::new(Code::Internal, "unexpected reply to a registration"));
        };
        // A session of another term would be refused by its first message.
        let begun = self.shared.lead_with(|leader, now| {
            let is_this_term = leader.epoch() == term.epoch;
            let (ask, outs) = if is_this_term { leader.on_registered(now, node, session) } else { Default::default() };
            (is_this_term.then_some(ask), outs)
        });
        let ask_journal = begun.and_then(|(ask, _)| ask).ok_or_else(|| self.not_leader())?;
        Ok(v1::RegisterNodeReply {
            session: session.0,
            ordinal: node.0,
            leader_epoch: term.epoch.wire(),
            cluster_id: self.shared.state().meta.cluster_id.clone(),
            heartbeat_ms: self.shared.settings.heartbeat_ms,
            output_tail_bytes: u32::try_from(OUTPUT_TAIL_BYTES).unwrap_or(u32::MAX),
            ask_journal,
            secret: Some(secret),
        })
    }
}

impl Hub for FabricHub {
    async fn register(
        &self,
        request: v1::RegisterNodeRequest,
        peer: Peer,
    ) -> Result<v1::RegisterNodeReply, FabricRefusal> {
        let Some(term) = self.shared.open_term() else { return Err(self.not_leader()) };
        // First: the id goes into the log, and only a valid one is short.
        let bad_id = |e| FabricRefusal::new(Code::Invalid, format!("node id: {e}"));
        let id: NodeId = request.node_id.parse().map_err(bad_id)?;
        self.registered(&term, id, request, peer).await
    }

    async fn drain(&self, node: String, credential: Credential) -> Result<(), FabricRefusal> {
        let (node, session) = (self.proven_node(&node, &credential)?, credential.session);
        let reply = self.shared.log.proposer.propose(&Command::DrainNode(DrainNode { node, session })).await;
        reply.map(drop).map_err(|no_reply| self.refusal(no_reply))
    }

    async fn leave(&self, node: String, credential: Credential, leave: Leave) -> Result<(), FabricRefusal> {
        let nothing_outstanding = leave == Leave::NothingOutstanding;
        let (node, session) = (self.proven_node(&node, &credential)?, credential.session);
        let reply = self
            .shared
            .log
            .proposer
            .propose(&Command::LeaveNode(LeaveNode { node, session, nothing_outstanding }))
            .await;
        reply.map(drop).map_err(|no_reply| self.refusal(no_reply))
    }

    fn opened(&self, credential: &Credential, peer: Peer, outbox: Outbox) -> Result<(), v1::Closing> {
        let closing = |reason: CloseReason| reason.message(self.shared.role().leader_url.unwrap_or_default());
        let session = credential.session;
        let from = peer.to_string();
        let opened = self.shared.open_stream(credential, Stream { outbox, peer });
        let replaced = opened.map_err(|refused| match refused {
            NotOpened::NotLeader => closing(CloseReason::NotLeader),
            NotOpened::NotProven => {
                credentials::count(session);
                closing(CloseReason::StaleSession)
            }
        })?;
        if let Some(before) = replaced {
            tracing::warn!(%session, from, %before, "a second stream of this session was opened; the first is closed");
            refuse(Port::Grpc, Kind::StreamReplaced, format_args!("the earlier stream of session {session}"));
        }
        Ok(())
    }

    async fn received(&self, session: SessionId, message: v1::FromWorker) {
        self.shared.message(session, message).await;
    }

    fn closed(&self, session: SessionId) {
        // Not of a stream that was replaced: what was asked in the newer one is still to be answered.
        let node = self.shared.leading().sweep(session);
        if let Some(node) = node {
            self.shared.reading.pulls.gone(node);
        }
    }

    fn log_sender(&self, credential: &Credential, peer: &Peer) -> Result<NodeOrd, FabricRefusal> {
        self.proven(credential, peer).ok_or_else(credentials::not_proven)
    }

    async fn log_chunk(&self, node: NodeOrd, chunk: v1::LogChunk) -> bool {
        self.shared.reading.pulls.deliver(node, chunk)
    }

    async fn next_epoch(&self, known: Option<LeaderEpoch>) -> Option<LeaderEpoch> {
        let (mut term, mut superseded) = (self.shared.tenure.term.clone(), self.shared.tenure.superseded.subscribe());
        loop {
            // E2: the leader of the restored cluster uses the same subjects.
            let is_superseded = *superseded.borrow_and_update();
            let epoch = term.borrow_and_update().as_ref().map(|term| term.epoch).filter(|_| !is_superseded);
            if epoch != known {
                return epoch;
            }
            tokio::select! {
                Ok(()) = term.changed() => {}
                Ok(()) = superseded.changed() => {}
                // The controller has ended.
                else => std::future::pending().await,
            }
        }
    }

    fn cluster_id(&self) -> String {
        self.shared.state().meta.cluster_id.clone()
    }

    async fn announced(&self, cluster_id: &str, epoch: LeaderEpoch) {
        superseded::announced(&self.shared, cluster_id, epoch).await;
    }

    fn broker_is_up(&self, is_up: bool) {
        self.shared.broker_is_up(is_up);
    }

    fn broker_carries(&self, most_bytes: usize) {
        self.shared.broker_carries(most_bytes);
    }

    fn broadcast_by(&self, broadcaster: Option<Arc<dyn Broadcaster>>) {
        self.shared.leading.broadcasts.set(broadcaster);
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
