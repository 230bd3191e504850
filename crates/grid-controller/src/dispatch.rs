//! Effects and answers become messages. Followers drop them; a leader sends each to the session it is for, if that is
//! open, and relies on `reconcile` for the rest.
//!
//! One message per session and batch: a frame costs a worker's session more than everything in it. So what waits here is
//! taken together, and an answer travels with the offer that follows from it. Answers and forgets alone wait for what
//! comes next, a moment if nothing does, [`LONGEST_WAIT`] at most: nobody waits for them.
//! While leadership is handed over (E7), or no majority answers (E5), results are still answered, and nothing is given out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use grid_core::{Answer, Effect, Offer, Stale, State};
use grid_fabric::Outbox;
use grid_proto::v1;
use grid_types::{JobEpoch, JobId, LeaseKey, NodeOrd};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::machine::{Answered, Outgoing};
use crate::reconcile::offer_message;
use crate::shared::Shared;

type Messages = HashMap<NodeOrd, v1::ToWorker>;

/// A pause of this length ends the wait of answers and forgets.
const QUIET: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub async fn dispatch(shared: Arc<Shared>, mut outgoing: mpsc::UnboundedReceiver<Outgoing>, deposed: Arc<Notify>) {
    let mut patient = Patient::default();
    loop {
        let mut batch = tokio::select! {
            batch = outgoing.recv() => match batch {
                Some(batch) => batch,
                None => return,
            },
            () = patient.waited() => {
                patient.hurry();
                continue;
            }
        };
        while let Ok(next) = outgoing.try_recv() {
            batch.effects.extend(next.effects);
            batch.answers.extend(next.answers);
        }
        if batch.effects.contains(&Effect::Deposed) {
            deposed.notify_one();
        }
        let now_mono_ms = shared.clock.mono_ms();
        // Asked once: what is not sent must not be counted as sent.
        let is_open = shared.open_term().is_some();
        let gives_out = is_open && shared.gate.is_open();
        arm(&shared, &batch, gives_out, now_mono_ms);
        // E5: cut off for a moment, it gives out nothing; the next beats tell what that left out. An answer tells what is
        // stored already, whoever leads now.
        if !is_open {
            batch.effects.clear();
        }
        patient.extend(send(&shared, batch, gives_out, now_mono_ms));
    }
}

/// Sessions with something that may wait.
#[derive(Default)]
struct Patient {
    outboxes: Vec<Outbox>,
    /// When the first of them began to wait, and the last.
    since: Option<(Instant, Instant)>,
}

impl Patient {
    fn extend(&mut self, outboxes: Vec<Outbox>) {
        if !outboxes.is_empty() {
            let now = Instant::now();
            self.since = Some((self.since.map_or(now, |(first, _)| first), now));
            self.outboxes.extend(outboxes);
        }
    }

    /// Never if nobody waits.
    async fn waited(&self) {
        match self.since {
            Some((first, last)) => tokio::time::sleep_until((first + LONGEST_WAIT).min(last + QUIET)).await,
            None => std::future::pending().await,
        }
    }

    fn hurry(&mut self) {
        self.outboxes.drain(..).for_each(|outbox| outbox.hurry());
        self.since = None;
    }
}

/// Returns the sessions for which something was queued that may wait.
fn send(shared: &Shared, batch: Outgoing, gives_out: bool, now_mono_ms: u64) -> Vec<Outbox> {
    shared.agents.ring(batch.effects.iter().filter_map(told_to));
    let mut messages = answer_messages(shared, &batch.answers);
    let mut sessions = shared.sessions();
    for answered in &batch.answers {
        if let Some(session) = sessions.of_node(answered.node) {
            session.put_down(answered.lease);
        }
    }
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
            Effect::Forget { job, epoch, nodes } => {
                for node in nodes {
                    if let Some(session) = sessions.of_node(node) {
                        session.forget_offers(job);
                        messages.entry(node).or_default().forgets.push(forget(job, epoch));
                    }
                }
            }
            // The worker is answered by the task that proposed it (`hub`).
            Effect::Begun { .. } | Effect::Deposed => {}
        }
    }
    let mut patient = Vec::new();
    for (node, message) in messages {
        let Some(session) = sessions.of_node(node) else { continue };
        if message.offers.is_empty() && message.revokes.is_empty() {
            patient.extend(session.send_with_next(message));
        } else {
            session.send(message);
        }
    }
    patient
}

/// The node that something is offered to, or taken back from.
fn told_to(effect: &Effect) -> Option<NodeOrd> {
    match effect {
        Effect::Offer(offer) => Some(offer.node),
        Effect::Revoke { node, .. } => Some(*node),
        Effect::Begun { .. } | Effect::Forget { .. } | Effect::Deposed => None,
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
        final_answer(&state, message, answered.lease, answered.answer);
    }
    messages
}

/// Adds a final answer (W4) to a message.
pub fn final_answer(state: &State, message: &mut v1::ToWorker, lease: LeaseKey, answer: Answer) {
    let job = lease.job;
    message.answers.push(v1::Answer { lease: Some(lease.into()), kind: kind_of(answer).into() });
    // The job has ended, and its own Forget may have gone out before this answer.
    if !state.jobs.contains_key(&job) && message.forgets.last().is_none_or(|forget| forget.job_id != job.0) {
        let epoch = state.stubs.get(&job).map_or(lease.job_epoch, |stub| stub.epoch);
        message.forgets.push(forget(job, epoch));
    }
}

/// Names the epoch in which the job ended: if it is resumed before this arrives, its new leases are not meant.
pub fn forget(job: JobId, epoch: JobEpoch) -> v1::Forget {
    v1::Forget { job_id: job.0, job_epoch: epoch.0 }
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
fn arm(shared: &Shared, batch: &Outgoing, gives_out: bool, now_mono_ms: u64) {
    let state = shared.state();
    let mut soft = shared.soft();
    for answered in &batch.answers {
        // A report that came to nothing leaves the lease out, and its deadline with it.
        let job = state.jobs.get(&answered.lease.job);
        let is_out = job.and_then(|job| job.lease_at(answered.node)).is_some_and(|(lease, _)| lease == answered.lease);
        if !is_out {
            soft.backstop.ended(answered.node, answered.lease);
        }
    }
    drop(state);
    for effect in &batch.effects {
        match effect {
            // E8: what is not sent has no deadline yet.
            Effect::Offer(_) if !gives_out => soft.backstop.withheld(),
            Effect::Offer(offer) => soft.backstop.sent(offer, now_mono_ms),
            Effect::Begun { node, lease, timeout_ms } => {
                soft.backstop.begun(*node, *lease, *timeout_ms, now_mono_ms);
            }
            Effect::Revoke { node, lease } => soft.backstop.revoked(*node, *lease, now_mono_ms),
            Effect::Forget { .. } | Effect::Deposed => {}
        }
    }
}

fn add_offer(messages: &mut Messages, offer: &Offer) {
    messages.entry(offer.node).or_default().offers.extend(offer_message(offer));
}
