//! The controller's answers to its workers: registration through the log, and the messages of their sessions.

mod begins;
mod credentials;
mod registration;
mod reports;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use grid_core::{Command, DrainNode, LeaveNode, RegisterNode, Rejection, Reply};
use grid_fabric::{Credential, FabricRefusal, Hub, Outbox, closing};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::v1;
use grid_types::limits::OUTPUT_TAIL_BYTES;
use grid_types::node::NodeStatus;
use grid_types::{Code, JobEpoch, JobId, LeaseKey, NodeId, NodeOrd, SessionId};

use crate::dispatch::forget;
use crate::journals;
use crate::proposer::{NoReply, TOGETHER};
use crate::reconcile::{agrees, reconcile};
use crate::shared::Shared;
pub(crate) use reports::{end_of, error_of};

/// Leases of one held list. A worker has at most its slots, as many again that wait, and what it still reports.
const MAX_HELD: usize = 20_000;
/// Jobs of which a journal still has settled leases; it keeps at most so many leases (W2).
const MAX_SETTLED_JOBS: usize = 50_000;

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
                let code = match &rejection {
                    Rejection::DuplicateNode(_) => Code::DuplicateNode,
                    Rejection::NoNode(_) => Code::NotFound,
                    Rejection::Superseded { .. } => Code::Superseded,
                    Rejection::TooManyNodes { .. } | Rejection::TooManyFacts => Code::QueueFull,
                    _ => Code::Conflict,
                };
                // A session that is dead counts as living for so long.
                let warning_ms = self.shared.settings.thresholds.warning_ms;
                let passes_within_ms = (code == Code::DuplicateNode).then(|| warning_ms.saturating_add(1_000));
                // The code word leads: it is what people search for.
                let message = format!("{}: {rejection}", code.word());
                FabricRefusal { passes_within_ms, ..FabricRefusal::new(code, message) }
            }
        }
    }

    /// The node that speaks in a session, if the session is the current one of its node and may still speak: a node that
    /// was declared dead, or has left, registers again before anything it says counts (V3).
    fn heard(&self, id: SessionId) -> Option<NodeOrd> {
        let (mono_ms, wall_ms) = (self.shared.clock.mono_ms(), self.shared.clock.wall_ms());
        let node = {
            let mut sessions = self.shared.sessions();
            let session = sessions.get_mut(id)?;
            (session.heard_mono_ms, session.heard_wall_ms) = (mono_ms, wall_ms);
            session.node
        };
        let state = self.shared.state();
        let current = state.nodes.get(&node).is_some_and(|known| known.session == id && !is_gone(known.status));
        drop(state);
        if current {
            self.shared.soft().liveness.heard(node, id);
        }
        current.then_some(node)
    }

    fn compare(&self, id: SessionId, node: NodeOrd, held: &BTreeSet<LeaseKey>) {
        let now = self.shared.clock.mono_ms();
        let state = self.shared.state();
        let Some(known) = state.nodes.get(&node) else { return };
        let mut sessions = self.shared.sessions();
        let Some(session) = sessions.get_mut(id) else { return };
        let (message, accepted) = reconcile(&state, known, session, held, now, self.shared.gate.is_open());
        if message != v1::ToWorker::default() {
            session.send(message);
        }
        drop(sessions);
        drop(state);
        let mut soft = self.shared.soft();
        for (lease, timeout_ms) in accepted {
            soft.backstop.accepted(node, lease, timeout_ms, now);
        }
    }

    /// Whether something waits for a worker that may well be the reason why its list would differ; the next beat tells.
    fn is_told_more(&self, session: SessionId) -> bool {
        let mut sessions = self.shared.sessions();
        let outbox = sessions.get_mut(session).and_then(|session| session.outbox.as_ref());
        outbox.is_some_and(Outbox::is_waiting)
    }

    /// A `Forget` may have been sent while the worker was away.
    fn forget_ended(&self, session: SessionId, jobs: &[u64]) {
        let state = self.shared.state();
        let ended =
            jobs.iter().take(MAX_SETTLED_JOBS).map(|job| JobId(*job)).filter(|job| !state.jobs.contains_key(job));
        // One of which not even a stub is left cannot be resumed: all of it may go.
        let epoch = |job: &JobId| state.stubs.get(job).map_or(JobEpoch(u32::MAX), |stub| stub.epoch);
        let forgets: Vec<_> = ended.map(|job| forget(job, epoch(&job))).collect();
        drop(state);
        if !forgets.is_empty()
            && let Some(session) = self.shared.sessions().get_mut(session)
        {
            session.send(v1::ToWorker { forgets, ..v1::ToWorker::default() });
        }
    }
}

impl FabricHub {
    /// Restored jobs about which the journal of a node is to be asked now (E2).
    fn to_ask(&self, node: NodeOrd, session: SessionId) -> Vec<u64> {
        let (state, now) = (self.shared.state(), self.shared.clock.mono_ms());
        let Some(known) = state.nodes.get(&node) else { return Vec::new() };
        let mut sessions = self.shared.sessions();
        sessions.get_mut(session).map(|session| journals::to_ask(&state, known, session, now)).unwrap_or_default()
    }

    async fn take_journal(&self, node: NodeOrd, session: SessionId, report: Option<v1::JournalReport>) {
        if let Some(report) = report {
            let is_last = report.is_last;
            let Some(command) = journals::command(&self.shared.state(), node, session, report) else { return };
            let takes_page = |session| journals::takes_page(session, is_last);
            if !self.shared.sessions().get_mut(session).is_some_and(takes_page) {
                return;
            }
            let command = Command::ReportJournal(command);
            if let Err(no_reply) = self.shared.proposer.propose(&command).await {
                tracing::warn!(%node, "the answer of a journal was not recorded and is asked for again: {no_reply}");
                if let Some(session) = self.shared.sessions().get_mut(session) {
                    journals::lost_page(session, is_last);
                }
            }
            return;
        }
        let ask_journal = self.to_ask(node, session);
        if !ask_journal.is_empty()
            && let Some(session) = self.shared.sessions().get_mut(session)
        {
            session.send(v1::ToWorker { ask_journal, ..v1::ToWorker::default() });
        }
    }
}

impl Hub for FabricHub {
    async fn register(
        &self,
        request: v1::RegisterNodeRequest,
        peer: Option<SocketAddr>,
    ) -> Result<v1::RegisterNodeReply, FabricRefusal> {
        let Some(term) = self.shared.open_term() else { return Err(self.not_leader()) };
        // First: the id goes into the log, and only a valid one is short.
        let bad_id = |e| FabricRefusal::new(Code::Invalid, format!("node id: {e}"));
        let id: NodeId = request.node_id.parse().map_err(bad_id)?;
        self.check_generation(&id, &request).await?;
        let command = self.registration(id, request, peer)?;
        let rejection = command.refused_by(&self.shared.state());
        if let Some(rejection) = rejection {
            if matches!(rejection, Rejection::TooManyNodes { .. } | Rejection::TooManyFacts) {
                refuse(Port::Grpc, Kind::TooManyNodes, format_args!("{rejection}"));
            }
            return Err(self.refusal(NoReply::Rejected(rejection)));
        }
        let (secret, hash) = credentials::mint()?;
        let command = Command::RegisterNode(RegisterNode { secret: Some(hash), ..command });
        let reply = self.shared.proposer.propose(&command).await;
        let Reply::Registered { node, session } = reply.map_err(|no_reply| self.refusal(no_reply))? else {
            return Err(FabricRefusal::new(Code::Internal, "unexpected reply to a registration"));
        };
        let (mono_ms, wall_ms) = (self.shared.clock.mono_ms(), self.shared.clock.wall_ms());
        self.shared.sessions().begin(session, node, term.epoch.wire(), mono_ms, wall_ms);
        let ask_journal = self.to_ask(node, session);
        {
            let paused = !self.shared.gives_out();
            let state = self.shared.state();
            let mut soft = self.shared.soft();
            soft.liveness.heard(node, session);
            if let Some(known) = state.nodes.get(&node) {
                soft.backstop.new_session(&state, known, paused, mono_ms);
            }
        }
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

    async fn drain(&self, node: String, credential: Credential) -> Result<(), FabricRefusal> {
        let (node, session) = (self.proven_node(&node, &credential)?, credential.session);
        let reply = self.shared.proposer.propose(&Command::DrainNode(DrainNode { node, session })).await;
        reply.map(drop).map_err(|no_reply| self.refusal(no_reply))
    }

    async fn leave(&self, node: String, credential: Credential, holds_nothing: bool) -> Result<(), FabricRefusal> {
        let (node, session) = (self.proven_node(&node, &credential)?, credential.session);
        let reply = self.shared.proposer.propose(&Command::LeaveNode(LeaveNode { node, session, holds_nothing })).await;
        reply.map(drop).map_err(|no_reply| self.refusal(no_reply))
    }

    fn opened(&self, credential: &Credential, peer: Option<SocketAddr>, outbox: Outbox) -> Result<(), v1::Closing> {
        let closing = |reason: &str| v1::Closing {
            reason: reason.to_owned(),
            leader_url: self.shared.role().leader_url.unwrap_or_default(),
        };
        if self.shared.current_term().is_none() {
            return Err(closing(closing::NOT_LEADER));
        }
        let session = credential.session;
        let node = self.proven(credential).ok_or_else(|| closing(closing::STALE_SESSION))?;
        let now = self.shared.clock.mono_ms();
        let mut sessions = self.shared.sessions();
        let known = sessions.get_mut(session).ok_or_else(|| closing(closing::STALE_SESSION))?;
        let replaced = known.open(outbox, peer, now);
        drop(sessions);
        if let Some(before) = replaced {
            let shown = |peer: Option<SocketAddr>| peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
            let (from, before) = (shown(peer), shown(before));
            tracing::warn!(%node, %session, from, before, "a second stream of this session was opened; the first is closed");
            refuse(Port::Grpc, Kind::StreamReplaced, format_args!("the earlier stream of session {session}"));
        }
        Ok(())
    }

    async fn received(&self, session: SessionId, message: v1::FromWorker) {
        let epoch = self.shared.current_term().map(|term| term.epoch.wire());
        let Some(node) = self.heard(session).filter(|_| epoch == Some(message.leader_epoch)) else {
            let reason = if epoch.is_none() { closing::NOT_LEADER } else { closing::STALE_SESSION };
            self.shared.sessions().end(session, reason);
            return;
        };
        // First: it says which of the leases that follow are to be adopted.
        self.take_journal(node, session, message.journal).await;
        self.accepted(node, &message.accepted);
        let reports = self.take_up(node, session, message.results, message.revokes_done);
        for some in reports.chunks(TOGETHER) {
            self.record(session, some).await;
        }
        self.begin(node, session, message.begins).await;
        if let Some(held) = message.held {
            self.forget_ended(session, &held.settled_jobs);
            // What is beyond the bound counts as not held: it is offered again, and the worker answers from its journal.
            let held = held.leases.into_iter().take(MAX_HELD).map(LeaseKey::from).collect();
            self.compare(session, node, &held);
        } else if let Some(beat) = message.beat.filter(|_| !self.is_told_more(session)) {
            let state = self.shared.state();
            let differs = state.nodes.get(&node).is_some_and(|known| !agrees(&state, known, beat.held_digest));
            drop(state);
            if differs && let Some(session) = self.shared.sessions().get_mut(session) {
                session.ask_what_it_holds(self.shared.clock.mono_ms());
            }
        }
    }

    fn closed(&self, session: SessionId) {
        let mut sessions = self.shared.sessions();
        let Some(known) = sessions.get_mut(session) else { return };
        let node = known.node;
        // Not of a stream that was replaced: what was asked in the newer one is still to be answered.
        if known.outbox.as_ref().is_some_and(|outbox| !outbox.is_closed()) {
            return;
        }
        known.outbox = None;
        drop(sessions);
        self.shared.output_desk.gone(node);
    }

    fn log_sender(&self, credential: &Credential) -> Result<NodeOrd, FabricRefusal> {
        self.proven(credential).ok_or_else(credentials::not_proven)
    }

    async fn log_chunk(&self, node: NodeOrd, chunk: v1::LogChunk) -> bool {
        self.shared.output_desk.deliver(node, chunk)
    }
}

/// Nothing it says counts until it registers again.
fn is_gone(status: NodeStatus) -> bool {
    matches!(status, NodeStatus::Dead | NodeStatus::Left | NodeStatus::Removed)
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
