//! Runs the leader: holds it, with the streams of its sessions, behind one lock, and does what it wants done.
//!
//! ```text
//!   a message, a tick, what was applied … --> lock: Leader::on_… --> messages enter the queues of their streams
//!                                                            \--> proposals, outside the lock, by the task that brought the input
//! ```
//!
//! There is no decision here. The state is locked first, then the leader; nothing is awaited under either.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grid_fabric::{Broadcasts, CloseReason, Credential, Outbox, Peer};
use grid_proto::refusals::{Kind, Port, refuse_many};
use grid_proto::v1;
use grid_types::{NodeOrd, SessionId};
use prost::Message;
use tokio::sync::Notify;

use super::locks::{Locked, Rank};
use super::polls::Polls;
use super::{Broker, Shared};
use crate::leader::{Backlog, Leader, Mandate, NotProven, Now, Out, Proposal, When};
use crate::reply::{NoReply, Replied};

/// Offers of one message, about: a message stays far below what a worker accepts.
const OFFER_BYTES: usize = 1024 * 1024;

#[derive(Default)]
pub struct Leading {
    inner: Mutex<Inner>,
    /// Of agents, which have no stream.
    pub polls: Polls,
    /// Set by a fabric that can broadcast.
    pub broadcasts: Broadcasts,
    /// A stream was opened.
    pub opened: Notify,
}

#[derive(Default)]
pub struct Inner {
    /// None unless this controller leads.
    leader: Option<Leader>,
    pub(super) streams: BTreeMap<SessionId, Stream>,
}

/// The open stream of a session.
pub struct Stream {
    pub outbox: Outbox,
    /// The client that opened it.
    pub peer: Peer,
}

/// Why a stream is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOpened {
    NotLeader,
    /// The session is not known, or this is not its secret.
    NotProven,
}

/// What is left to do when the lock is released.
#[derive(Default)]
pub struct ToDo {
    pub proposals: Vec<Proposal>,
    /// Queues with something that may wait for the next message.
    pub with_next: Vec<Outbox>,
}

impl Shared {
    /// What this leader may do at this moment.
    pub fn mandate(&self) -> Mandate {
        if self.is_draining() {
            Mandate::HandingOver
        } else if !self.log.raft.has_majority() {
            Mandate::CutOff
        } else if !self.tenure.gate.is_open() {
            Mandate::Paused
        } else {
            Mandate::Full
        }
    }

    /// Looks at the leader, if this controller leads.
    pub fn look<T>(&self, look: impl FnOnce(&mut Leader, &Now<'_>) -> T) -> Option<T> {
        self.with(|inner, now| inner.leader.as_mut().map(|leader| look(leader, now)))
    }

    /// Gives the leader an input and does what it wants done; nothing if this controller does not lead.
    pub fn lead(&self, input: impl FnOnce(&mut Leader, &Now<'_>) -> Vec<Out>) -> ToDo {
        self.lead_with(|leader, now| ((), input(leader, now))).map(|((), to_do)| to_do).unwrap_or_default()
    }

    /// The same for an input that also has a result.
    pub fn lead_with<T>(&self, input: impl FnOnce(&mut Leader, &Now<'_>) -> (T, Vec<Out>)) -> Option<(T, ToDo)> {
        self.with(|inner, now| {
            let (result, outs) = input(inner.leader.as_mut()?, now);
            Some((result, self.perform(inner, outs)))
        })
    }

    /// A worker opens the stream of a session. Returns the client of an earlier stream that was open until now.
    pub fn open_stream(&self, credential: &Credential, stream: Stream) -> Result<Option<Peer>, NotOpened> {
        let Credential { session, secret } = credential;
        self.with(|inner, now| {
            // One that has ended is not replaced.
            inner.sweep(*session);
            let leader = inner.leader.as_mut().filter(|_| now.mandate != Mandate::CutOff);
            let leader = leader.ok_or(NotOpened::NotLeader)?;
            let (secret, peer) = (&secret.value, &stream.peer);
            let outs = leader.on_opened(now, *session, secret, peer).map_err(|NotProven| NotOpened::NotProven)?;
            let earlier = inner.streams.get(session).map(|earlier| earlier.peer.clone());
            let replaced = earlier.filter(|_| !outs.is_empty());
            self.perform(inner, outs);
            inner.close(*session, CloseReason::Replaced);
            inner.streams.insert(*session, stream);
            self.leading.opened.notify_one();
            Ok(replaced)
        })
    }

    /// A message of a worker, and everything that it leads to before the next one may be read.
    pub async fn message(self: &Arc<Self>, session: SessionId, message: v1::FromWorker) {
        let to_do = self.with(|inner, now| {
            let _span = tracing::debug_span!("message", %session, epoch = message.leader_epoch).entered();
            let backlog = inner.backlog(session);
            let outs = inner.leader.as_mut().map(|leader| leader.on_message(now, session, message, backlog));
            self.perform(inner, outs.unwrap_or_default())
        });
        self.propose_all(to_do.proposals).await;
    }

    /// Returns when all are queued; those that a session waits for, when their replies are known.
    async fn propose_all(self: &Arc<Self>, proposals: Vec<Proposal>) {
        let mut proposals = VecDeque::from(proposals);
        while let Some(Proposal { term, commands, origin }) = proposals.pop_front() {
            if origin.is_awaited() {
                let replies = self.log.proposer.propose_and_wait(&commands).await;
                let to_do = self.lead(|leader, now| leader.on_replied(now, term, origin, &replies));
                proposals.extend(to_do.proposals);
                continue;
            }
            let shared = Arc::clone(self);
            let then = move |replies: Vec<Replied>| {
                if origin.needs(&replies) {
                    shared.lead(|leader, now| leader.on_replied(now, term, origin, &replies));
                }
            };
            self.log.proposer.propose_together(&commands, then).await;
        }
    }

    /// Proposes everything and waits for all replies, which the leader gets.
    pub async fn propose_and_reply(self: &Arc<Self>, proposals: Vec<Proposal>) {
        let mut waiting = Vec::with_capacity(proposals.len());
        for Proposal { term, commands, origin } in proposals {
            let (answer, answered) = tokio::sync::oneshot::channel();
            self.log.proposer.propose_together(&commands, move |replies| drop(answer.send(replies))).await;
            waiting.push((term, commands.len(), origin, answered));
        }
        for (term, count, origin, answered) in waiting {
            let replies = answered.await.unwrap_or_else(|_| vec![Err(NoReply::NotLeader); count]);
            for no_reply in replies.iter().filter_map(|reply| reply.as_ref().err()) {
                tracing::debug!("a planned command had no effect: {no_reply}");
            }
            self.lead(|leader, now| leader.on_replied(now, term, origin, &replies));
        }
    }

    /// The term begins.
    pub fn begin_leading(&self, begin: impl FnOnce(&Now<'_>) -> Leader) {
        self.with(|inner, now| {
            inner.close_all(CloseReason::NotLeader);
            let mut leader = begin(now);
            if *self.tenure.broker.borrow() == Broker::Down {
                leader.on_broker_down();
            }
            inner.leader = Some(leader);
        });
    }

    /// The term is over: everything the leader knew is dropped.
    pub fn end_leading(&self) {
        {
            let mut inner = self.leading();
            inner.leader = None;
            inner.close_all(CloseReason::NotLeader);
        }
        self.leading.polls.forget_all();
    }

    pub fn close_streams(&self, reason: CloseReason) {
        self.leading().close_all(reason);
    }

    pub fn leading(&self) -> Locked<MutexGuard<'_, Inner>> {
        Locked::lock(Rank::Leader, || self.leading.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T>(&self, then: impl FnOnce(&mut Inner, &Now<'_>) -> T) -> T {
        let mandate = self.mandate();
        let state = self.state();
        let mut inner = self.leading();
        let now = Now { state: &state, mono_ms: self.clock.mono_ms(), wall_ms: self.clock.wall_ms(), mandate };
        then(&mut inner, &now)
    }

    fn perform(&self, inner: &mut Inner, outs: Vec<Out>) -> ToDo {
        let mut to_do = ToDo::default();
        for out in outs {
            match out {
                Out::Send { session, message, when } => {
                    let Some(stream) = inner.streams.get(&session) else { continue };
                    let sent = match when {
                        When::Now => say(&stream.outbox, message),
                        When::WithNext => stream.outbox.send_with_next(message).is_ok(),
                    };
                    if !sent {
                        inner.overflowed(session);
                    } else if when == When::WithNext {
                        to_do.with_next.push(stream.outbox.clone());
                    }
                }
                Out::OfferMany(many) => inner.offer_many(self.leading.broadcasts.current().as_deref(), &many),
                Out::Close { session, reason } => inner.close(session, reason),
                Out::Propose(proposal) => to_do.proposals.push(proposal),
                Out::Wake { agent } => self.leading.polls.ring(agent),
                Out::Invented { node, leases } => {
                    let what = format_args!("leases that were never granted, from the worker of node number {node}");
                    refuse_many(Port::Grpc, Kind::InventedLease, leases, what);
                }
            }
        }
        to_do
    }
}

impl Inner {
    /// Forgets the stream of a session if it has ended. Returns its node.
    pub fn sweep(&mut self, session: SessionId) -> Option<NodeOrd> {
        if self.streams.get(&session).is_none_or(|stream| !stream.outbox.is_closed()) {
            return None;
        }
        self.streams.remove(&session);
        self.leader.as_mut().and_then(|leader| leader.on_closed(session))
    }

    /// Sends to the open stream of a session; whether it could be queued.
    pub fn send(&self, session: SessionId, message: v1::ToWorker) -> bool {
        self.streams.get(&session).is_some_and(|stream| say(&stream.outbox, message))
    }

    pub fn leader(&mut self) -> Option<&mut Leader> {
        self.leader.as_mut()
    }

    fn backlog(&self, session: SessionId) -> Backlog {
        let is_waiting = self.streams.get(&session).is_some_and(|stream| stream.outbox.is_waiting());
        if is_waiting { Backlog::Waiting } else { Backlog::Empty }
    }

    /// Its queue has closed itself; the fabric ends the stream.
    pub(super) fn overflowed(&mut self, session: SessionId) {
        if let Some(leader) = &mut self.leader {
            leader.on_closed(session);
        }
    }

    fn close(&mut self, session: SessionId, reason: CloseReason) {
        if let Some(stream) = self.streams.remove(&session) {
            stream.outbox.close(reason.message(String::new()));
        }
    }

    fn close_all(&mut self, reason: CloseReason) {
        for session in self.streams.keys().copied().collect::<Vec<_>>() {
            self.close(session, reason);
        }
    }
}

/// Puts a message into a queue, in several if it has many offers.
///
/// Overflow closes the stream; the worker comes back and is sent again what is still true (W5).
fn say(outbox: &Outbox, mut message: v1::ToWorker) -> bool {
    let leader_epoch = message.leader_epoch;
    let mut offers = std::mem::take(&mut message.offers).into_iter();
    let mut size = 0;
    let mut sent = true;
    for offer in offers.by_ref() {
        size += offer.encoded_len();
        message.offers.push(offer);
        if size >= OFFER_BYTES {
            sent &= outbox.send(v1::ToWorker { leader_epoch, ..std::mem::take(&mut message) }).is_ok();
            size = 0;
        }
    }
    let rest = v1::ToWorker { leader_epoch, ..message };
    // A message that says nothing is not worth a frame.
    let empty = v1::ToWorker { leader_epoch, ..v1::ToWorker::default() };
    sent && (rest == empty || outbox.send(rest).is_ok())
}
