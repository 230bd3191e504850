//! What an agent is told, and that it was told it.
//!
//! W10: a `once` lease whose answer was certainly never written, because the one who asked was gone before it was made, is
//! taken back ([`Parcel`]). Whether an answer that was written also arrived nobody knows: then the lease ends `unknown`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grid_core::{Command, Effect, HandOut, Node, Offer, Rejection, Reply, State, node_effects};
use grid_types::api::{AgentLeaseDoc, LeasesDoc};
use grid_types::decl::EffectClass;
use grid_types::{Code, LeaderEpoch, LeaseId, LeaseKey, NodeOrd, Span};

use super::seats::{Seat, Told};
use super::{Admitted, AgentPoll, GIVE_AGAIN_MS};
use crate::control::Refusal;
use crate::controller::Controller;
use crate::proposer::NoReply;
use crate::reconcile::is_wanted;
use crate::requests::refused;
use crate::shared::Shared;

/// Of one answer, about: more waits for the next question.
const MOST_BYTES: usize = 2 * 1024 * 1024;

/// What is to be said now.
#[derive(Default)]
struct Due {
    offers: Vec<Offer>,
    revoked: Vec<LeaseKey>,
}

impl Controller {
    /// Puts what is due into the log and makes the answer.
    pub(super) async fn hand_out(
        &self,
        poll: &AgentPoll,
        agent: Admitted,
        seat: &Seat,
        asked_mono_ms: u64,
    ) -> Result<LeasesDoc, Refusal> {
        let Admitted { node, session } = agent;
        let _one = seat.answering.lock().await;
        let due = self.look(poll, agent, seat, asked_mono_ms);
        let mut answer = LeasesDoc { leader_epoch: self.epoch(), ..LeasesDoc::default() };
        if !due.offers.is_empty() {
            let leases = due.offers.iter().map(|offer| offer.lease).collect();
            let command = Command::HandOut(HandOut { node, session, leases, returned: false });
            let parcel = Parcel::send(&self.shared, agent, self.fence_in(command)).await?;
            let now = self.shared.clock.mono_ms();
            answer.leader_epoch = parcel.epoch.wire();
            for offer in due.offers.iter().filter(|offer| parcel.leases.contains(&offer.lease)) {
                seat.told().given_mono_ms.insert(offer.lease, now);
                self.shared.soft().backstop.accepted(node, offer.lease, offer.timeout_ms(), now);
                answer.leases.extend(lease_doc(offer, parcel.epoch));
            }
            parcel.taken();
        }
        let now = self.shared.clock.mono_ms();
        for lease in due.revoked {
            seat.told().revoked_mono_ms.insert(lease, now);
            answer.revoked.push(LeaseId { node, lease }.to_string());
        }
        Ok(answer)
    }

    fn look(&self, poll: &AgentPoll, agent: Admitted, seat: &Seat, asked_mono_ms: u64) -> Due {
        let state = self.shared.state();
        let Some(node) = state.nodes.get(&agent.node) else { return Due::default() };
        let times = Times { now: self.shared.clock.mono_ms(), asked: asked_mono_ms };
        let mut due = due(&state, node, poll, &mut seat.told(), times);
        // E8: it stays in the state, and an open question looks again with every beat.
        if !self.shared.gate.is_open() {
            due.offers.clear();
        }
        due
    }

    pub(super) fn epoch(&self) -> u64 {
        self.shared.state().meta.leadership.epoch.wire()
    }
}

#[derive(Clone, Copy)]
struct Times {
    now: u64,
    asked: u64,
}

impl Times {
    /// `held` is true of the moment of the question: what was said after it is not in there.
    fn again(self, last: Option<&u64>) -> bool {
        last.is_none_or(|last| *last < self.asked && self.now.saturating_sub(*last) >= GIVE_AGAIN_MS)
    }

    /// Said again from time to time, until it is confirmed.
    fn once_more(self, last: Option<&u64>) -> bool {
        last.is_none_or(|last| self.now.saturating_sub(*last) >= GIVE_AGAIN_MS)
    }
}

fn due(state: &State, node: &Node, poll: &AgentPoll, told: &mut Told, times: Times) -> Due {
    let mut due = Due::default();
    let mut size = 0;
    let mut current = BTreeSet::new();
    for effect in node_effects(state, node) {
        match effect {
            Effect::Offer(offer) => {
                current.insert(offer.lease);
                if size < MOST_BYTES && is_due(state, node, poll, told, times, &offer) {
                    size += size_of(&offer);
                    due.offers.push(offer);
                }
            }
            Effect::Revoke { lease, .. } => {
                current.insert(lease);
                if times.once_more(told.revoked_mono_ms.get(&lease)) {
                    due.revoked.push(lease);
                }
            }
            Effect::Begun { .. } | Effect::Forget { .. } | Effect::Deposed => {}
        }
    }
    // W5: what it holds and nobody knows. What is settled it will hear when it reports.
    for LeaseId { node: of, lease } in &poll.held {
        let unknown = *of == node.ord && !current.contains(lease) && !is_wanted(state, node, lease);
        if unknown && times.once_more(told.revoked_mono_ms.get(lease)) {
            due.revoked.push(*lease);
        }
    }
    // What is over needs no memory.
    told.given_mono_ms.retain(|lease, _| current.contains(lease));
    told.revoked_mono_ms
        .retain(|lease, _| current.contains(lease) || poll.held.contains(&LeaseId { node: node.ord, lease: *lease }));
    due
}

fn is_due(state: &State, node: &Node, poll: &AgentPoll, told: &Told, times: Times, offer: &Offer) -> bool {
    let lease = offer.lease;
    let handed = state.jobs.get(&lease.job).and_then(|job| job.handed(node.ord));
    let Some(handed) = handed else { return true };
    let once = offer.task().is_none_or(|task| task.effect == EffectClass::Once);
    let held = poll.held.contains(&LeaseId { node: node.ord, lease });
    // Another leader gave it, and what it wrote down about that is gone.
    let by_another = handed != state.meta.leadership.epoch;
    !once && !held && (by_another || times.again(told.given_mono_ms.get(&lease)))
}

fn size_of(offer: &Offer) -> usize {
    let params = offer.task().map(|task| serde_json::to_string(&task.params).map_or(0, |text| text.len()));
    params.unwrap_or(0) + 300
}

fn lease_doc(offer: &Offer, epoch: LeaderEpoch) -> Option<AgentLeaseDoc> {
    let task = offer.task()?;
    let LeaseKey { job, job_epoch, step, attempt } = offer.lease;
    // Text, numbers and booleans can always be written.
    let params: BTreeMap<_, _> = task
        .params
        .iter()
        .map(|(name, value)| (name.clone(), serde_json::to_value(value).unwrap_or_default()))
        .collect();
    Some(AgentLeaseDoc {
        lease_id: LeaseId { node: offer.node, lease: offer.lease }.to_string(),
        job_id: job.to_string(),
        job_epoch: job_epoch.0,
        leader_epoch: epoch.wire(),
        step: step.0,
        attempt: attempt.0,
        backend: task.backend.clone(),
        action: task.action.clone(),
        params,
        timeout: Span::from_ms(task.timeout_ms).to_string(),
        effect: task.effect.word().to_owned(),
    })
}

/// Leases that are given to an agent in the log and not yet in an answer. Dropped before that, they go back.
struct Parcel {
    shared: Arc<Shared>,
    agent: Admitted,
    epoch: LeaderEpoch,
    leases: Vec<LeaseKey>,
    taken: bool,
}

impl Parcel {
    async fn send(shared: &Arc<Shared>, agent: Admitted, command: Command) -> Result<Self, Refusal> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let sender = Arc::clone(shared);
        // A parcel that finds nobody at the other end of the channel drops there.
        let then = move |reply| drop(answer.send(Self::of(sender, agent, reply)));
        shared.proposer.propose_then(&command, then).await;
        let gone = || Refusal::new(Code::OutcomeUnknown, "the controller is shutting down");
        answered.await.map_err(|_| gone())?
    }

    fn of(shared: Arc<Shared>, agent: Admitted, reply: Result<Reply, NoReply>) -> Result<Self, Refusal> {
        match reply {
            Ok(Reply::HandedOut { epoch, leases }) => Ok(Self { shared, agent, epoch, leases, taken: false }),
            Ok(_) => Err(Refusal::new(Code::Internal, "unexpected reply to a hand-out")),
            // It has just registered anew, or was declared dead: nothing is given, and the next question knows.
            Err(NoReply::Rejected(Rejection::StaleSession { .. } | Rejection::StatusMoved { .. })) => {
                let epoch = shared.state().meta.leadership.epoch;
                Ok(Self { shared, agent, epoch, leases: Vec::new(), taken: true })
            }
            Err(no_reply) => Err(refused(no_reply)),
        }
    }

    fn taken(mut self) {
        self.taken = true;
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        let leases = std::mem::take(&mut self.leases);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.taken || leases.is_empty() {
            return;
        }
        let (shared, Admitted { node, session }) = (Arc::clone(&self.shared), self.agent);
        runtime.spawn(async move {
            let command = Command::HandOut(HandOut { node, session, leases, returned: true });
            match shared.proposer.propose(&command).await {
                Ok(_) => ring(&shared, node),
                Err(e) => tracing::debug!("leases that nobody took stay handed out: {e}"),
            }
        });
    }
}

fn ring(shared: &Shared, node: NodeOrd) {
    shared.agents.ring(std::iter::once(node));
}

#[cfg(test)]
mod tests;
