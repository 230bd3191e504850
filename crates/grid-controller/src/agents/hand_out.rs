//! Records which leases an agent receives, and builds its poll response.
//!
//! W10: a `once` lease whose answer was certainly never written, because the one who asked was gone before it was made, is
//! taken back ([`Parcel`]). Whether an answer that was written also arrived nobody knows: then the lease ends `unknown`.

use std::collections::BTreeMap;
use std::sync::Arc;

use grid_core::{Command, HandOut, Offer, Reply};
use grid_types::api::{AgentLeaseDoc, LeasesDoc};
use grid_types::{Code, LeaderEpoch, LeaseId, LeaseKey, Span};

use super::Admitted;
use crate::control::{Permit, Refusal, refused};
use crate::controller::{Controller, fenced};
use crate::leader::{AgentAsks, Due, moved_on};
use crate::reply::NoReply;
use crate::shared::Place;

impl Controller {
    /// Puts what is due into the log and makes the answer.
    pub(super) async fn hand_out(
        &self,
        permit: Permit,
        asks: AgentAsks<'_>,
        place: &Place,
    ) -> Result<LeasesDoc, Refusal> {
        let AgentAsks { node, session, .. } = asks;
        let _one = place.answering.lock().await;
        let due = self.shared.look(|leader, now| leader.on_agent_poll(now, asks)).unwrap_or_default();
        let mut answer = LeasesDoc { leader_epoch: self.epoch(), ..LeasesDoc::default() };
        let Due { mut offers, revoked } = due;
        let mut parcel = None;
        if !offers.is_empty() {
            let leases = offers.iter().map(|offer| offer.lease).collect();
            let command = Command::HandOut(HandOut { node, session, leases, returned: false });
            let given = Parcel::send(self, Admitted { node, session }, fenced(permit, command)).await?;
            answer.leader_epoch = given.epoch.wire();
            offers.retain(|offer| given.leases.contains(&offer.lease));
            answer.leases.extend(offers.iter().filter_map(|offer| lease_doc(offer, given.epoch)));
            parcel = Some(given);
        }
        answer.revoked.extend(revoked.iter().map(|lease| LeaseId { node, lease: *lease }.to_string()));
        let answered = Due { offers, revoked };
        self.shared.look(|leader, now| leader.on_agent_answered(now, node, &answered));
        if let Some(parcel) = parcel {
            parcel.taken();
        }
        Ok(answer)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.shared.state().meta.leadership.epoch.wire()
    }
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
    controller: Controller,
    agent: Admitted,
    epoch: LeaderEpoch,
    leases: Vec<LeaseKey>,
    taken: bool,
}

impl Parcel {
    async fn send(controller: &Controller, agent: Admitted, command: Command) -> Result<Self, Refusal> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let sender = controller.clone();
        // A parcel that finds nobody at the other end of the channel drops there.
        let then = move |reply| drop(answer.send(Self::of(sender, agent, reply)));
        controller.shared.log.proposer.propose_then(&command, then).await;
        let gone = || Refusal::new(Code::OutcomeUnknown, "the controller is shutting down");
        answered.await.map_err(|_| gone())?
    }

    fn of(controller: Controller, agent: Admitted, reply: Result<Reply, NoReply>) -> Result<Self, Refusal> {
        match reply {
            Ok(Reply::HandedOut { epoch, leases }) => Ok(Self { controller, agent, epoch, leases, taken: false }),
            Ok(_) => Err(Refusal::new(Code::Internal, "unexpected reply to a hand-out")),
            // It has just registered again, or was declared dead: it receives nothing, and its next poll finds the new session.
            Err(no_reply) if moved_on(&no_reply) => {
                let epoch = controller.shared.state().meta.leadership.epoch;
                Ok(Self { controller, agent, epoch, leases: Vec::new(), taken: true })
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
        // Without a runtime the process ends, and the next leader settles it.
        if self.taken || leases.is_empty() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (shared, Admitted { node, session }) = (Arc::clone(&self.controller.shared), self.agent);
        self.controller.tasks.start_finite("lease-return", async move {
            let command = Command::HandOut(HandOut { node, session, leases, returned: true });
            match shared.log.proposer.propose(&command).await {
                Ok(_) => shared.leading.polls.ring(node),
                Err(e) => tracing::debug!("leases that nobody took stay handed out: {e}"),
            }
        });
    }
}
