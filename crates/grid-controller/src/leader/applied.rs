//! Converts effects and replies into messages, one for each session that is open; `reconcile` repairs what could not be sent.
//!
//! One message per session and batch: a frame costs a worker's session more than everything in it. So everything that is queued
//! is taken together, and an answer travels with the offer that follows from it. Answers and forgets alone wait for what comes next
//! ([`When::WithNext`]): nobody waits for them. Only what a fabric may broadcast is kept apart (`many`); it goes out last, so that answers
//! which are queued already travel with it.
//! While leadership is handed over (E7), or no majority answers (E5), results are still answered, and nothing else goes out.

use grid_core::{Answer, Command, Effect, Reply, State};
use grid_fabric::Recipient;
use grid_proto::v1;
use grid_types::{LeaseKey, NodeOrd, SessionId};

use super::many::{Gathered, Ready};
use super::sessions::Session;
use super::wire::{begin_kind, final_answer, forget, offer_message, reported};
use super::{Leader, Now, Out, When};

/// Effects and answers that may wait for the leader. A batch of its own may be larger: it is one entry, which L1 bounds.
pub const MOST_WAITING: usize = 500_000;

/// What stored entries of one term give a leader to say.
#[derive(Debug, Default)]
pub struct AppliedBatch {
    /// The Raft term of the entries.
    pub term: u64,
    pub effects: Vec<Effect>,
    pub answers: Vec<Answered>,
    /// More was applied than may wait, and all of it was dropped: the state has it.
    pub overflowed: bool,
}

/// The final answer to what a worker asked or reported.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// W4.
    Report { node: NodeOrd, lease: LeaseKey, answer: Answer },
    /// W3.
    Begin { session: SessionId, lease: LeaseKey, reply: Reply },
}

impl AppliedBatch {
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.answers.is_empty() && !self.overflowed
    }

    /// Adds what was applied later. A later term leaves nothing of an earlier one.
    pub fn merge(&mut self, later: Self) {
        if self.term != later.term {
            *self = later;
        } else if self.overflowed {
            // The leader looks at the state when it takes this, and finds the later entries there, too.
        } else if !self.is_empty() && self.len() + later.len() > MOST_WAITING {
            *self = Self { term: self.term, overflowed: true, ..Self::default() };
        } else {
            self.effects.extend(later.effects);
            self.answers.extend(later.answers);
        }
    }

    fn len(&self) -> usize {
        self.effects.len() + self.answers.len()
    }
}

/// The answer that a worker waits for, if the command is one of a worker.
pub fn answered(command: &Command, reply: &Reply) -> Option<Answered> {
    match (command, reply) {
        (Command::BeginLease(begin), Reply::Begun { .. } | Reply::Withdrawn) => {
            Some(Answered::Begin { session: begin.session, lease: begin.lease, reply: reply.clone() })
        }
        (_, Reply::Answered(answer)) => {
            let (node, lease) = reported(command)?;
            Some(Answered::Report { node, lease, answer: *answer })
        }
        _ => None,
    }
}

/// What is to be sent when the whole batch is worked off.
#[derive(Default)]
struct Addressed {
    /// The sessions that have a draft, in the order in which they were first addressed.
    sessions: Vec<SessionId>,
    /// Offers that may be broadcast.
    gathered: Gathered,
}

impl Addressed {
    /// The one message that this session gets.
    fn draft<'a>(&mut self, id: SessionId, session: &'a mut Session) -> &'a mut v1::ToWorker {
        session.draft.get_or_insert_with(|| {
            self.sessions.push(id);
            Box::default()
        })
    }
}

impl Leader {
    pub fn on_applied(&mut self, now: &Now<'_>, batch: AppliedBatch) -> Vec<Out> {
        if batch.term != self.term {
            return Vec::new();
        }
        if batch.overflowed {
            return self.on_overflow(now);
        }
        let (mut outs, mut addressed) = (Vec::new(), Addressed::default());
        for answered in batch.answers {
            self.answer(now.state, answered, &mut addressed);
        }
        for effect in batch.effects {
            self.time(now, &effect);
            // E5: cut off for a moment, it sends nothing new; the next heartbeats show what is missing.
            if now.mandate.is_open() {
                self.carry_out(now, effect, &mut addressed, &mut outs);
            }
        }
        let many = self.offer_gathered(&mut addressed);
        outs.reserve(addressed.sessions.len() + many.len());
        for session in addressed.sessions {
            let Some(known) = self.sessions.get_mut(session) else { continue };
            let Some(message) = known.draft.take().filter(|_| known.is_open) else { continue };
            let message = *message;
            let is_waited_for = !(message.offers.is_empty() && message.revokes.is_empty() && message.begun.is_empty());
            outs.push(Out::Send { session, message, when: if is_waited_for { When::Now } else { When::WithNext } });
        }
        outs.extend(many);
        self.stamped(outs)
    }

    /// Returns what may be broadcast; the rest is added to the messages of its sessions.
    fn offer_gathered(&mut self, addressed: &mut Addressed) -> Vec<Out> {
        let mut many = Vec::new();
        for ready in std::mem::take(&mut addressed.gathered).ready() {
            match ready {
                Ready::Many(offer) => many.push(Out::OfferMany(offer)),
                Ready::Each(offer, recipients) => {
                    for Recipient { session: id, .. } in recipients {
                        if let Some(session) = self.sessions.get_mut(id) {
                            let offer = v1::Offer { session: id.0, ..offer.clone() };
                            addressed.draft(id, session).offers.push(offer);
                        }
                    }
                }
            }
        }
        many
    }

    /// What was applied was more than could wait, and is lost: missing deadlines are set from the state, each worker is asked
    /// which leases it has, and is offered, or told to stop, what differs (W5). Reports and begins that had their answer in it come
    /// again (W3, W4).
    fn on_overflow(&mut self, now: &Now<'_>) -> Vec<Out> {
        self.backstop.catch_up(now.state, !now.mandate.offers(), now.mono_ms);
        let mut outs = Vec::new();
        for (id, session) in self.sessions.iter_mut() {
            session.reported.clear();
            session.beginning.clear();
            outs.extend(session.ask_outstanding(*id, now.mono_ms));
        }
        outs.extend(self.agents.nodes().map(|agent| Out::Wake { agent }));
        self.stamped(outs)
    }

    fn answer(&mut self, state: &State, answered: Answered, addressed: &mut Addressed) {
        match answered {
            Answered::Report { node, lease, answer } => {
                // A report that came to nothing leaves the lease out, and its deadline with it.
                if !state.is_out(node, lease) {
                    self.backstop.ended(node, lease);
                }
                if let Some((id, session)) = self.sessions.of_node(node) {
                    session.put_down(lease);
                    final_answer(state, addressed.draft(id, session), lease, answer);
                }
            }
            Answered::Begin { session, lease, reply } => {
                let Some(known) = self.sessions.get_mut(session) else { return };
                let Some(asked_ms) = known.beginning.remove(&lease) else { return };
                let kind = begin_kind(Ok(&reply)).into();
                let begun = v1::BeginAnswer { lease: Some(lease.into()), kind, asked_ms };
                addressed.draft(session, known).begun.push(begun);
            }
        }
    }

    /// Every lease that is out has an end (W6), whether its worker is there or not.
    fn time(&mut self, now: &Now<'_>, effect: &Effect) {
        match effect {
            // E8: what is not sent has no deadline yet.
            Effect::Offer(_) if !now.mandate.offers() => self.backstop.withheld(),
            Effect::Offer(offer) => self.backstop.sent(offer, now.mono_ms),
            Effect::Begun { node, lease, timeout_ms } => self.backstop.begun(*node, *lease, *timeout_ms, now.mono_ms),
            Effect::Revoke { node, lease } => self.backstop.revoked(*node, *lease, now.mono_ms),
            Effect::Forget { .. } | Effect::Deposed => {}
        }
    }

    fn carry_out(&mut self, now: &Now<'_>, effect: Effect, addressed: &mut Addressed, outs: &mut Vec<Out>) {
        match effect {
            Effect::Offer(offer) => {
                self.wake(offer.node, outs);
                // E8: it is in the state, and comes up when the gate opens.
                if !now.mandate.offers() {
                    return;
                }
                let sessions = self.sessions.count();
                if let Some(session) = self.sessions.get_mut(offer.session).filter(|session| session.is_open) {
                    session.offered_mono_ms.insert(offer.lease, now.mono_ms);
                    if !addressed.gathered.take_in(now.state, sessions, &offer) {
                        addressed.draft(offer.session, session).offers.extend(offer_message(&offer));
                    }
                }
            }
            Effect::Revoke { node, lease } => {
                self.wake(node, outs);
                if let Some((id, session)) = self.sessions.of_node(node) {
                    addressed.draft(id, session).revokes.push(lease.into());
                }
            }
            Effect::Forget { job, epoch, nodes } => {
                for node in nodes {
                    if let Some((id, session)) = self.sessions.of_node(node) {
                        session.forget_offers(job);
                        addressed.draft(id, session).forgets.push(forget(job, epoch));
                    }
                }
            }
            Effect::Begun { .. } | Effect::Deposed => {}
        }
    }

    fn wake(&self, node: NodeOrd, outs: &mut Vec<Out>) {
        if self.agents.knows(node) {
            outs.push(Out::Wake { agent: node });
        }
    }
}
