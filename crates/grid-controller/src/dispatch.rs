//! Effects and answers become messages. Followers drop them; a leader sends each to the session it is for, if that is
//! open, and relies on `reconcile` for the rest.
//!
//! One message per session and batch: a frame costs a worker's session more than everything in it. So what waits here is
//! taken together, and an answer travels with the offer that follows from it.
//! While leadership is handed over (E7), or no majority answers (E5), results are still answered, and nothing is given out.

use std::collections::HashMap;
use std::sync::Arc;

use grid_core::{Answer, Effect, Offer, Stale};
use grid_proto::v1;
use grid_types::NodeOrd;
use tokio::sync::{Notify, mpsc};

use crate::machine::{Answered, Outgoing};
use crate::reconcile::offer_message;
use crate::shared::Shared;

type Messages = HashMap<NodeOrd, v1::ToWorker>;

pub async fn dispatch(shared: Arc<Shared>, mut outgoing: mpsc::UnboundedReceiver<Outgoing>, deposed: Arc<Notify>) {
    while let Some(mut batch) = outgoing.recv().await {
        while let Ok(next) = outgoing.try_recv() {
            batch.effects.extend(next.effects);
            batch.answers.extend(next.answers);
        }
        if batch.effects.contains(&Effect::Deposed) {
            deposed.notify_one();
        }
        let now_mono_ms = shared.clock.mono_ms();
        arm(&shared, &batch, now_mono_ms);
        // E5: cut off for a moment, it gives out nothing; the next beats tell what that left out. An answer tells what is
        // stored already, whoever leads now.
        if shared.open_term().is_none() {
            batch.effects.clear();
        }
        send(&shared, batch, now_mono_ms);
    }
}

fn send(shared: &Shared, batch: Outgoing, now_mono_ms: u64) {
    shared.agents.ring(batch.effects.iter().filter_map(told_to));
    let mut messages = answer_messages(shared, &batch.answers);
    let mut sessions = shared.sessions();
    let gives_out = shared.gate.is_open();
    for effect in batch.effects {
        match effect {
            // E8: it is in the state, and comes up when the gate opens.
            Effect::Offer(_) if !gives_out => {}
            Effect::Offer(offer) => {
                let Some(session) = sessions.get_mut(offer.session).filter(|session| session.outbox.is_some()) else {
                    continue;
                };
                session.offered_mono_ms.insert(offer.lease, now_mono_ms);
                add_offer(&mut messages, &offer);
            }
            Effect::Revoke { node, lease } => messages.entry(node).or_default().revokes.push(lease.into()),
            Effect::Forget { job, nodes } => {
                for node in nodes {
                    if let Some(session) = sessions.of_node(node) {
                        session.forget_offers(job);
                        messages.entry(node).or_default().forgets.push(v1::Forget { job_id: job.0 });
                    }
                }
            }
            Effect::Deposed => {}
        }
    }
    for (node, message) in messages {
        if let Some(session) = sessions.of_node(node) {
            session.send(message);
        }
    }
}

/// The node that something is offered to, or taken back from.
fn told_to(effect: &Effect) -> Option<NodeOrd> {
    match effect {
        Effect::Offer(offer) => Some(offer.node),
        Effect::Revoke { node, .. } => Some(*node),
        Effect::Forget { .. } | Effect::Deposed => None,
    }
}

fn answer_messages(shared: &Shared, answers: &[Answered]) -> Messages {
    let mut messages = Messages::new();
    if answers.is_empty() {
        return messages;
    }
    let state = shared.state();
    for answered in answers {
        let message = messages.entry(answered.node).or_default();
        let (lease, job) = (answered.lease, answered.lease.job);
        message.answers.push(v1::Answer { lease: Some(lease.into()), kind: kind_of(answered.answer).into() });
        // The job has ended, and its own Forget may have gone out before this answer.
        if !state.jobs.contains_key(&job) && message.forgets.last().is_none_or(|forget| forget.job_id != job.0) {
            message.forgets.push(v1::Forget { job_id: job.0 });
        }
    }
    messages
}

fn kind_of(answer: Answer) -> v1::AnswerKind {
    match answer {
        Answer::Committed => v1::AnswerKind::Committed,
        Answer::Superseded(Stale::Job) => v1::AnswerKind::SupersededJob,
        Answer::Superseded(Stale::Attempt) => v1::AnswerKind::SupersededAttempt,
        Answer::Superseded(Stale::Settled) => v1::AnswerKind::SupersededSettled,
    }
}

/// Every lease that is out has an end (W6), whether its worker is there or not.
fn arm(shared: &Shared, batch: &Outgoing, now_mono_ms: u64) {
    let mut soft = shared.soft();
    for answered in &batch.answers {
        soft.backstop.ended(answered.node, answered.lease);
    }
    for effect in &batch.effects {
        match effect {
            Effect::Offer(offer) => soft.backstop.sent(offer, now_mono_ms),
            Effect::Revoke { node, lease } => soft.backstop.revoked(*node, *lease, now_mono_ms),
            Effect::Forget { .. } | Effect::Deposed => {}
        }
    }
}

fn add_offer(messages: &mut Messages, offer: &Offer) {
    messages.entry(offer.node).or_default().offers.extend(offer_message(offer));
}
