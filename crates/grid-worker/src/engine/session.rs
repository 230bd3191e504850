//! Handles one session, from its registration to its end.
//!
//! W5: the first message lists what is outstanding; each heartbeat carries the digest of it; `ask_outstanding` is answered with the list.

use grid_fabric::{CloseReason, Credential};
use grid_proto::v1;
use grid_types::{LeaderEpoch, SessionId};

use super::ending::Drain;
use super::{Connection, Ending, Engine, Output};
use crate::engine::book::{Heartbeat, Now, Received};

const DEFAULT_HEARTBEAT_MS: u64 = 5_000;
const SHORTEST_HEARTBEAT_MS: u64 = 50;
const LONGEST_HEARTBEAT_MS: u64 = 60_000;

/// The current session.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: SessionId,
    pub(super) drain: Drain,
    leader: String,
    began_ms: u64,
    heartbeat_ms: u64,
    last_heartbeat_ms: u64,
}

impl Open {
    pub(super) fn heartbeat_at_ms(&self) -> u64 {
        self.last_heartbeat_ms + self.heartbeat_ms
    }

    pub(super) fn is_heartbeat_due(&self, now: Now) -> bool {
        now.mono_ms >= self.heartbeat_at_ms()
    }

    /// What is sent after it has said that it leaves would be ignored.
    pub(super) fn speaks(&self) -> bool {
        self.drain != Drain::Leaving
    }
}

impl Engine {
    pub(super) fn registered(&mut self, reply: &v1::RegisterNodeReply, leader: String, now: Now) {
        if !matches!(self.connection, Connection::Registering) {
            return;
        }
        self.connecting.registered();
        if self.identity.cluster_id != reply.cluster_id {
            self.identity.cluster_id.clone_from(&reply.cluster_id);
            self.outputs.push(Output::SaveClusterId(reply.cluster_id.clone()));
        }
        let credential = Credential::of(reply);
        let open = Open {
            id: credential.session,
            drain: Drain::No,
            leader,
            began_ms: now.mono_ms,
            heartbeat_ms: self.heartbeat_ms(reply.heartbeat_ms),
            last_heartbeat_ms: now.mono_ms,
        };
        if !self.book.begin_session(open.id, LeaderEpoch::from_wire(reply.leader_epoch)) {
            tracing::warn!("session ended: {} leads epoch {}, which is over", open.leader, reply.leader_epoch);
            self.outputs.push(Output::CloseSession);
            return self.reconnect(open.began_ms, None, now);
        }
        let (node, session, epoch) = (&self.identity.node_id, open.id, self.book.epoch());
        self.span = tracing::info_span!(parent: None, "session", %node, %session, %epoch);
        self.book.ask_about(&reply.ask_journal);
        self.outputs.push(Output::SetTailBytes(reply.output_tail_bytes));
        let mut first = self.book.outgoing(now, Heartbeat::With, &self.read_tail);
        first.secret = Some(credential.secret.clone());
        self.outputs.push(Output::Open { credential, first: Box::new(first) });
        self.connection = Connection::Opening(open);
    }

    fn heartbeat_ms(&self, asked_ms: u64) -> u64 {
        let asked_ms = if asked_ms == 0 { DEFAULT_HEARTBEAT_MS } else { asked_ms };
        let own = self.identity.heartbeat.map_or(asked_ms, |own| asked_ms.min(own.ms()));
        own.clamp(SHORTEST_HEARTBEAT_MS, LONGEST_HEARTBEAT_MS)
    }

    pub(super) fn opened(&mut self, session: SessionId, now: Now) {
        let opening = std::mem::replace(&mut self.connection, Connection::Ended);
        self.connection = match opening {
            Connection::Opening(open) if open.id == session => {
                tracing::info!(leader = open.leader, "registered");
                if !std::mem::replace(&mut self.is_ready, true) {
                    self.outputs.push(Output::Ready { session });
                }
                Connection::Open(Open { last_heartbeat_ms: now.mono_ms, ..open })
            }
            other => other,
        };
    }

    pub(super) fn received(&mut self, session: SessionId, mut message: Box<v1::ToWorker>, now: Now) {
        if self.open_session(session).is_none() {
            return;
        }
        if message.closing.as_ref().and_then(CloseReason::of) == Some(CloseReason::Removed) {
            return self.end(Ending::Removed);
        }
        if !message.controllers.is_empty() {
            self.outputs.push(Output::LearnControllers(std::mem::take(&mut message.controllers)));
        }
        let log_request = message.log_request.take();
        match self.book.receive(&message, now) {
            Received::Go => self.outputs.extend(log_request.map(|request| Output::AnswerLog(Box::new(request)))),
            Received::Reconnect { reason, leader_url } => self.close(&reason, leader_url, now),
        }
    }

    /// N5: what this worker has goes out again, and so does what waits for an answer.
    pub(super) fn resumed(&mut self, session: SessionId, now: Now) {
        if self.open_session(session).is_some() {
            self.book.say_everything_again(now);
        }
    }

    pub(super) fn speak(&mut self, session: SessionId, now: Now) {
        if !self.wants_to_speak(now) {
            return;
        }
        let Some(open) = self.open_session(session) else { return };
        // What is sent anyway carries the next heartbeat: a busy node needs no message for it alone.
        let heartbeat = if now.mono_ms.saturating_sub(open.last_heartbeat_ms) >= open.heartbeat_ms / 2 {
            open.last_heartbeat_ms = now.mono_ms;
            Heartbeat::With
        } else {
            Heartbeat::Without
        };
        let message = self.book.outgoing(now, heartbeat, &self.read_tail);
        self.outputs.push(Output::Send(Box::new(message)));
    }

    pub(super) fn broken(&mut self, session: SessionId, reason: &str, now: Now) {
        if let Connection::Opening(open) | Connection::Open(open) = &self.connection
            && open.id == session
        {
            self.close(reason, None, now);
        }
    }

    fn close(&mut self, reason: &str, leader_url: Option<String>, now: Now) {
        let (Connection::Opening(open) | Connection::Open(open)) = &self.connection else { return };
        tracing::warn!("session ended: {reason}");
        let began_ms = open.began_ms;
        self.outputs.push(Output::CloseSession);
        self.reconnect(began_ms, leader_url, now);
    }

    pub(super) fn open_session(&mut self, session: SessionId) -> Option<&mut Open> {
        match &mut self.connection {
            Connection::Open(open) if open.id == session => Some(open),
            _ => None,
        }
    }
}
