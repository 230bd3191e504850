//! The leader as a value: everything that it decides, without a clock, a lock, a socket or a task.
//!
//! ```text
//!   a term is won --> Leader::new --+--> on_applied, on_message, on_tick, … --> Vec<Out> --+
//!                                   ^                                                      |
//!                                   '---- on_replied: what became of a proposal <----------'
//!   the term is over: dropped, with everything it knew
//! ```
//!
//! It owns what only a leader has: sessions, liveness, deadlines of leases, what was asked of which worker, what each agent received.
//! All of it is soft: it can be rebuilt from the state and from what workers say, and everything it leads to is a command again.
//! The state is an argument, so are the times. Ordered maps only: the same inputs give the same outputs, in the same order.
//! An input of another term changes nothing: messages carry the epoch, what was applied carries the term.
//! Not here: sockets, the proposer and the lock (`leading`), the rules of jobs and leases (`grid-core`).

mod agents;
mod applied;
mod begins;
mod broker;
mod journals;
mod lease_map;
mod many;
mod messages;
mod reconcile;
mod reports;
mod sessions;
mod ticks;
mod wire;

use grid_core::{Command, Rejection, Reply, SecretHash, State};
use grid_fabric::{CloseReason, OfferMany, Peer};
use grid_plan::{Backstop, Liveness, Thresholds};
use grid_proto::v1;
use grid_types::{LeaderEpoch, LeaseKey, NodeId, NodeOrd, SessionId};

use crate::reply::{NoReply, Replied};
use agents::Agents;
use sessions::Sessions;

pub use agents::{AgentAsks, Due};
pub use applied::{AppliedBatch, answered};
pub use ticks::Planned;
pub use wire::{end_of, error_of, offer_bytes};

/// The moment of an input: what the leader may look at, and what it may do.
#[derive(Clone, Copy)]
pub struct Now<'a> {
    pub state: &'a State,
    pub mono_ms: u64,
    pub wall_ms: u64,
    pub mandate: Mandate,
}

/// What a leader may do at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mandate {
    Full,
    /// E8: a worker may run on its machine. It offers nothing; everything else goes on.
    Paused,
    /// E7: leadership is being handed over. It answers what is stored, and sends nothing new.
    HandingOver,
    /// E5: no majority answers it. It answers what is stored; other leaders may exist.
    CutOff,
}

impl Mandate {
    /// Whether offers go out.
    pub fn offers(self) -> bool {
        self == Self::Full
    }

    /// Whether new work is taken and its effects go out.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Full | Self::Paused)
    }
}

/// What the leader wants done. Nearly all of it are messages: to box each would cost an allocation more.
#[derive(Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum Out {
    Send {
        session: SessionId,
        message: v1::ToWorker,
        when: When,
    },
    /// N2: one offer for several sessions.
    OfferMany(Box<OfferMany>),
    /// Ends the stream of a session; what is queued for it is dropped.
    Close {
        session: SessionId,
        reason: CloseReason,
    },
    Propose(Proposal),
    /// An open poll of this agent looks again.
    Wake {
        agent: NodeOrd,
    },
    /// A worker named so many leases that were never granted to its node.
    Invented {
        node: NodeOrd,
        leases: u64,
    },
}

/// To wake a session and to write a frame costs more than all that a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Now,
    /// With the next message, or after a moment without one: nobody waits for it.
    WithNext,
}

/// At most [`crate::reply::TOGETHER`] commands that go into one entry; their replies come back to [`Leader::on_replied`].
#[derive(Debug, PartialEq)]
pub struct Proposal {
    /// The term of the leader that proposes: the reply to another one's is not of interest.
    pub term: u64,
    pub commands: Vec<Command>,
    pub origin: Origin,
}

impl Proposal {
    /// The term is stamped with everything else that goes out.
    fn out(commands: Vec<Command>, origin: Origin) -> Out {
        Out::Propose(Self { term: 0, commands, origin })
    }
}

/// Why something was proposed: what the leader needs to go on when it knows what became of it.
#[derive(Debug, PartialEq)]
pub enum Origin {
    /// Reports of a worker. Final answers follow from what is applied; only refusals are of interest here.
    Reports { session: SessionId, leases: Vec<LeaseKey> },
    /// Starts of `once` leases (W3), the same way.
    Begins { session: SessionId, leases: Vec<LeaseKey> },
    /// A page of a journal (E2). The rest of the message is looked at when it is recorded: it may be about leases that the page makes known.
    Journal { session: SessionId, page: journals::Page, rest: Box<v1::FromWorker> },
    /// What time has brought, command by command.
    Tick(Vec<Planned>),
}

impl Origin {
    /// Whether the session's next message waits for the reply.
    pub fn is_awaited(&self) -> bool {
        matches!(self, Self::Journal { .. })
    }

    /// Whether the leader has something to do about the replies. What a worker waits for and was stored is answered by what is
    /// applied, together with everything else that the entry has for it.
    pub fn needs(&self, replies: &[Replied]) -> bool {
        let is_answered =
            |reply: &Replied| matches!(reply, Ok(Reply::Answered(_) | Reply::Begun { .. } | Reply::Withdrawn));
        match self {
            Self::Reports { .. } | Self::Begins { .. } => !replies.iter().all(is_answered),
            Self::Journal { .. } | Self::Tick(_) => true,
        }
    }
}

/// Whether a session's queue has messages that its worker has not received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    Empty,
    Waiting,
}

pub struct Leader {
    /// The Raft term.
    term: u64,
    epoch: LeaderEpoch,
    thresholds: Thresholds,
    sessions: Sessions,
    liveness: Liveness,
    backstop: Backstop,
    agents: Agents,
    /// N5.
    broker_is_down: bool,
}

impl Leader {
    /// The `BeginTerm` of `term` is applied, and a majority is behind it. V1: a node that was away only because of the change gets a
    /// fresh grace period, and every lease that is out its whole time.
    pub fn new(term: u64, epoch: LeaderEpoch, thresholds: Thresholds, now: &Now<'_>) -> Self {
        let mut backstop = Backstop::default();
        backstop.new_term(now.state, !now.mandate.offers(), now.mono_ms);
        let liveness = Liveness::new(thresholds);
        let (sessions, agents) = (Sessions::default(), Agents::default());
        Self { term, epoch, thresholds, sessions, liveness, backstop, agents, broker_is_down: false }
    }

    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// A registration was committed in this term. Returns the restored jobs about which the worker's journal is asked (E2), and what
    /// ends with the node's earlier session.
    pub fn on_registered(&mut self, now: &Now<'_>, node: NodeOrd, session: SessionId) -> (Vec<u64>, Vec<Out>) {
        let mut outs = Vec::new();
        self.begin_session(now, node, session, &mut outs);
        self.liveness.heard(node, session);
        let Some(known) = now.state.nodes.get(&node) else { return (Vec::new(), outs) };
        self.backstop.new_session(now.state, known, !now.mandate.offers(), now.mono_ms);
        let begun = self.sessions.get_mut(session);
        let ask = begun.map(|begun| journals::to_ask(now.state, known, begun, now.mono_ms));
        (ask.unwrap_or_default(), outs)
    }

    /// A worker opened the stream of a session. `Err`: the session is not known, or this is not its secret. An earlier stream
    /// of the session that is still open is closed.
    pub fn on_opened(
        &mut self,
        now: &Now<'_>,
        session: SessionId,
        secret: &[u8],
        peer: &Peer,
    ) -> Result<Vec<Out>, NotProven> {
        self.proven(now, session, secret, peer)?;
        let known = self.sessions.get_mut(session).ok_or(NotProven)?;
        let was_open = known.open(now.mono_ms);
        known.has_broker = matches!(peer, Peer::Subject(_));
        Ok(was_open.then_some(Out::Close { session, reason: CloseReason::Replaced }).into_iter().collect())
    }

    /// The stream of a session has ended, or its queue overflowed. Returns the node.
    pub fn on_closed(&mut self, session: SessionId) -> Option<NodeOrd> {
        let known = self.sessions.get_mut(session)?;
        known.is_open = false;
        Some(known.node)
    }

    /// Dispatch goes on after a pause (E8). W5: what was not offered, or was lost, is offered to each worker that answers.
    pub fn on_resumed(&mut self, now: &Now<'_>) -> Vec<Out> {
        let mut outs = Vec::new();
        for (id, session) in self.sessions.iter_mut() {
            outs.extend(session.ask_outstanding(*id, now.mono_ms));
        }
        self.stamped(outs)
    }

    /// The controllers changed: sends list number `list` to `most` of the sessions that do not have it.
    pub fn on_controllers(&mut self, controllers: &[String], list: u64, most: usize) -> Vec<Out> {
        let mut outs = Vec::new();
        for (id, session) in self.sessions.iter_mut() {
            if outs.len() == most {
                break;
            }
            if session.is_open && session.controllers_list != list {
                session.controllers_list = list;
                let message = v1::ToWorker { controllers: controllers.to_vec(), ..v1::ToWorker::default() };
                outs.push(Out::Send { session: *id, message, when: When::Now });
            }
        }
        self.stamped(outs)
    }

    /// The session of a node is over: it left, was declared dead, or was removed.
    pub fn on_gone(&mut self, session: SessionId, reason: CloseReason) -> Vec<Out> {
        let mut outs = Vec::new();
        if let Some(agent) =
            self.sessions.get_mut(session).map(|known| known.node).filter(|node| self.agents.knows(*node))
        {
            outs.push(Out::Wake { agent });
        }
        self.end_session(session, reason, &mut outs);
        outs
    }

    /// E2: this cluster was restored elsewhere. Its workers look for the controllers that they should follow.
    pub fn on_superseded(&mut self) -> Vec<Out> {
        let mut outs = Vec::new();
        for session in self.sessions.ids() {
            self.end_session(session, CloseReason::StaleSession, &mut outs);
        }
        outs
    }

    /// What became of a proposal that was made in `term`, a reply for each of its commands in their order.
    pub fn on_replied(&mut self, now: &Now<'_>, term: u64, origin: Origin, replies: &[Replied]) -> Vec<Out> {
        let mut outs = Vec::new();
        if term != self.term {
            return outs;
        }
        match origin {
            Origin::Reports { session, leases } => self.reports_refused(session, &leases, replies, &mut outs),
            Origin::Begins { session, leases } => self.begins_refused(session, &leases, replies, &mut outs),
            Origin::Journal { session, page, rest } => {
                self.journal_replied(now, (session, page), replies, *rest, &mut outs);
            }
            Origin::Tick(planned) => self.planned_replied(now, &planned, replies, &mut outs),
        }
        self.stamped(outs)
    }

    /// The open session of a node.
    pub fn open_session_of(&self, node: NodeOrd) -> Option<SessionId> {
        self.sessions.open_of(node)
    }

    /// The node of a session that proves itself by its secret.
    pub fn proven(&self, now: &Now<'_>, session: SessionId, secret: &[u8], peer: &Peer) -> Result<NodeOrd, NotProven> {
        let node = is_proven(now.state, self.sessions.node_of(session), session, secret)?;
        // N4: a secret that leaked is of no use on the subjects of another node.
        let is_own = |id: &NodeId| now.state.nodes.get(&node).is_some_and(|known| known.id == *id);
        match peer {
            Peer::Subject(id) if !is_own(id) => Err(NotProven),
            Peer::Subject(_) | Peer::Connection(_) => Ok(node),
        }
    }

    /// W1: whether the node's worker or agent was heard not long ago, and can be reached.
    pub fn lives(&self, now: &Now<'_>, node: NodeOrd) -> bool {
        let limit_ms = self.thresholds.warning_ms;
        self.sessions.lives(node, now.mono_ms, limit_ms) || self.agents.lives(node, now.mono_ms, limit_ms)
    }

    /// When a node was last heard, for people.
    pub fn heard_wall_ms(&self, node: NodeOrd) -> Option<u64> {
        self.sessions.heard_wall_ms(node)
    }

    fn begin_session(&mut self, now: &Now<'_>, node: NodeOrd, session: SessionId, outs: &mut Vec<Out>) {
        if let Some(old) = self.sessions.begin(session, node, now.mono_ms, now.wall_ms) {
            self.end_session(old, CloseReason::StaleSession, outs);
        }
    }

    fn end_session(&mut self, session: SessionId, reason: CloseReason, outs: &mut Vec<Out>) {
        if self.sessions.end(session) {
            outs.push(Out::Close { session, reason });
        }
    }

    /// The node that speaks in a session, if the session is the current one of its node and may still speak: a node that
    /// was declared dead, or has left, registers again before anything it says counts (V3).
    fn hear(&mut self, now: &Now<'_>, session: SessionId) -> Option<NodeOrd> {
        let known = self.sessions.get_mut(session)?;
        (known.heard_mono_ms, known.heard_wall_ms) = (now.mono_ms, now.wall_ms);
        let node = known.node;
        let current =
            now.state.nodes.get(&node).is_some_and(|known| known.session == session && !known.status.is_gone());
        if current {
            self.liveness.heard(node, session);
        }
        current.then_some(node)
    }

    /// W2: every message says under which leader it was sent, and every proposal in which term it was made.
    fn stamped(&self, mut outs: Vec<Out>) -> Vec<Out> {
        for out in &mut outs {
            match out {
                Out::Send { message, .. } => message.leader_epoch = self.epoch.wire(),
                Out::OfferMany(many) => many.leader_epoch = self.epoch.wire(),
                Out::Propose(proposal) => proposal.term = self.term,
                Out::Close { .. } | Out::Wake { .. } | Out::Invented { .. } => {}
            }
        }
        outs
    }
}

/// The session is not known, or this is not its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotProven;

/// An unknown session, an unknown node and a wrong secret get the same answer after the same comparison.
pub fn is_proven(
    state: &State,
    node: Option<NodeOrd>,
    session: SessionId,
    secret: &[u8],
) -> Result<NodeOrd, NotProven> {
    let known = node.and_then(|node| state.nodes.get(&node)).filter(|node| node.session == session);
    let is_proven = SecretHash::is_of(known.and_then(|node| node.secret), secret);
    known.map(|node| node.ord).filter(|_| is_proven).ok_or(NotProven)
}

/// The log refused it because the node's session or status has changed since.
pub fn moved_on(no_reply: &NoReply) -> bool {
    matches!(no_reply, NoReply::Rejected(Rejection::StaleSession { .. } | Rejection::StatusMoved { .. }))
}

#[cfg(test)]
mod tests;
