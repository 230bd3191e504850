//! Handles a message of the leader: answers, revokes, forgets, permissions to start, then offers, in this order, so that a
//! lease that is in one message with its own revoke never runs.

use grid_fabric::closing::explained;
use grid_proto::v1;
use grid_types::{Attempt, JobEpoch, JobId, LeaderEpoch, LeaseKey, StepIndex};

use super::entry::{Entry, Phase, Settled};
use super::{Book, Now, Work};
use crate::engine::record::{Ended, Record, Status};

/// A Retry is reported again after this.
const RETRY_MS: u64 = 200;
/// Queued leases per slot; what is beyond is left to the leader, which offers it again.
const QUEUE_PER_SLOT: usize = 2;

/// What becomes of the session after a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    Go,
    /// Register again: the reason, and the API URL of a controller that may know more.
    Reconnect {
        reason: String,
        leader_url: Option<String>,
    },
}

impl Book {
    pub fn receive(&mut self, message: &v1::ToWorker, now: Now) -> Received {
        if let Some(closing) = &message.closing {
            let reason = format!("the controller closed the session: {}", explained(closing));
            let leader_url = Some(closing.leader_url.clone()).filter(|url| !url.is_empty());
            return Received::Reconnect { reason, leader_url };
        }
        if !self.obey(LeaderEpoch::from_wire(message.leader_epoch)) {
            let reason = format!("leader epoch {} is over, {} is newer", message.leader_epoch, self.epoch);
            return Received::Reconnect { reason, leader_url: None };
        }
        for answer in &message.answers {
            if let Some(lease) = answer.lease {
                self.answered(lease.into(), answer.kind(), now);
            }
        }
        for lease in &message.revokes {
            self.revoke((*lease).into(), now);
        }
        for forget in &message.forgets {
            self.forget(JobId(forget.job_id), JobEpoch(forget.job_epoch), now.wall_ms);
        }
        for answer in &message.begun {
            if let Some(lease) = answer.lease {
                self.begun(lease.into(), answer.kind(), answer.asked_ms, now);
            }
        }
        for offer in &message.offers {
            self.offered(offer, now);
        }
        self.list_asked |= message.ask_outstanding;
        self.ask_about(&message.ask_journal);
        Received::Go
    }

    /// W4.
    fn answered(&mut self, lease: LeaseKey, kind: v1::AnswerKind, now: Now) {
        use v1::AnswerKind::{Committed, Retry, SupersededAttempt, SupersededJob, SupersededSettled, Unspecified};
        if !self.leases.get(&lease).is_some_and(Entry::is_over) {
            return;
        }
        match kind {
            Committed => {
                // What the leader has stored whole need not be kept here. A superseded result it has thrown away.
                if self.leases.get(&lease).is_some_and(|entry| entry.output_is_reported) {
                    self.effects.discard.push(lease);
                }
                self.settle(lease, now.wall_ms);
            }
            SupersededJob | SupersededAttempt | SupersededSettled => {
                self.keep_output(lease);
                self.settle(lease, now.wall_ms);
            }
            Retry => self.say_again_at(lease, now.mono_ms + RETRY_MS),
            Unspecified => tracing::warn!(%lease, "an answer of no known kind is ignored"),
        }
    }

    /// No leader has stored it.
    fn keep_output(&mut self, lease: LeaseKey) {
        if self.leases.get(&lease).is_some_and(|entry| !entry.whole_output().is_empty()) {
            self.effects.keep.push(lease);
        }
    }

    fn settle(&mut self, lease: LeaseKey, at_ms: u64) {
        let Some(entry) = self.remove(lease) else { return };
        self.settled.insert(lease, entry.settled(at_ms));
        self.write(Record::Settled { lease, at_ms });
        self.bound_memory();
    }

    pub(super) fn revoke(&mut self, lease: LeaseKey, now: Now) {
        if let Some(settled) = self.take_settled(&lease) {
            // The leader compared lists before its own answer arrived. What is settled may not be on disk yet, so this
            // revoke is confirmed like any other.
            self.leases.insert(lease, settled.reopen());
        }
        let buried = self.forgotten.covers(&lease).then(|| forgotten(now));
        let interrupted = self.interrupted.remove(&lease).map(|started_at_ms| {
            Ended::without_run(Status::Cancelled, "its worker was restarted while it ran", started_at_ms)
        });
        let before = buried.or(interrupted);
        let entry = self.leases.entry(lease).or_insert_with(|| Entry { ended: before, ..Entry::unseen() });
        if entry.revoked {
            // The answer was lost on the way, or it is still being stopped.
            self.say(lease);
            return;
        }
        entry.revoked = true;
        if matches!(entry.phase, Phase::Running) {
            self.effects.stop.push(lease);
            self.effects.sync = true;
            self.write(Record::Revoked { lease });
            return;
        }
        entry.phase = Phase::Over;
        self.accepted.remove(&lease);
        self.queue.retain(|queued| *queued != lease);
        self.write(Record::Revoked { lease });
        self.after_sync(lease);
        self.leave_slot(lease, now);
    }

    /// The job ended in this epoch: only a controller that was restored from an older backup asks for its leases again. What still runs stays; the leader revokes it
    /// (W5). A later epoch is a run that was resumed since, and its results are news.
    fn forget(&mut self, job: JobId, ended_in: JobEpoch, at_ms: u64) {
        let over = self.leases.range(of_job(job)).filter(|(_, entry)| entry.is_over()).map(|(lease, _)| *lease);
        let over = over.chain(self.settled.range(of_job(job)).map(|(lease, _)| *lease));
        let over: Vec<_> = over.filter(|lease| lease.job_epoch <= ended_in).collect();
        let Some(epoch) = over.iter().map(|lease| lease.job_epoch).max() else { return };
        for lease in &over {
            self.keep_output(*lease);
            if let Some(entry) = self.remove(*lease) {
                self.settled.insert(*lease, entry.settled(at_ms));
            }
        }
        self.bury(job, epoch, at_ms);
        self.write(Record::Forgotten { job, epoch, at_ms, leases_kept: true });
        self.bound_memory();
    }

    /// W2.
    fn offered(&mut self, offer: &v1::Offer, now: Now) {
        let Some(lease) = offer.lease.map(LeaseKey::from) else { return };
        if offer.session != self.session.0 {
            tracing::warn!(%lease, session = offer.session, "an offer of another session is ignored");
            return;
        }
        if let Some(settled) = self.take_settled(&lease) {
            self.leases.insert(lease, settled.reopen());
            self.say(lease);
            return;
        }
        if let Some(entry) = self.leases.get(&lease) {
            if entry.is_over() {
                self.say(lease);
            } else {
                self.accepted.insert(lease);
            }
            return;
        }
        if offer.restored {
            // The leader has asked about the job and decided; what the journal says of other leases does not count.
            self.take(lease, offer, now);
        } else if self.forgotten.covers(&lease) {
            // It may have run here; nobody knows any more. An answer at least ends it.
            self.over_at_once(lease, forgotten(now));
        } else if self.newest_epoch(lease.job) > Some(lease.job_epoch) {
            self.revoke(lease, now);
        } else {
            self.take(lease, offer, now);
        }
    }

    fn take(&mut self, lease: LeaseKey, offer: &v1::Offer, now: Now) {
        if !self.accepts_offers || self.queue.len() >= self.slots * QUEUE_PER_SLOT {
            tracing::info!(%lease, "an offer is not taken: the worker drains or its queue is full");
            return;
        }
        self.interrupted.remove(&lease);
        let effect = offer.effect().class();
        let work = Work { lease, offer: offer.clone(), started_at_ms: 0, start_by_mono_ms: None };
        self.leases.insert(lease, Entry::new(Phase::Queued(Box::new(work)), effect));
        self.accepted.insert(lease);
        self.queue.push_back(lease);
        self.fill_slots(now);
    }

    /// Takes out a lease whose outcome is known and final, forgotten or not.
    pub(super) fn take_settled(&mut self, lease: &LeaseKey) -> Option<Settled> {
        self.settled.remove(lease).or_else(|| self.forgotten.take(lease))
    }

    fn newest_epoch(&self, job: JobId) -> Option<JobEpoch> {
        let outstanding = self.leases.range(of_job(job)).next_back().map(|(lease, _)| lease.job_epoch);
        let settled = self.settled.range(of_job(job)).next_back().map(|(lease, _)| lease.job_epoch);
        outstanding.max(settled).max(self.forgotten.epoch_of(job))
    }
}

fn forgotten(now: Now) -> Ended {
    let error = "this worker has already forgotten the lease: it may have run";
    Ended::without_run(Status::Unknown, error, now.wall_ms)
}

pub(super) fn of_job(job: JobId) -> std::ops::RangeInclusive<LeaseKey> {
    let lowest = LeaseKey { job, job_epoch: JobEpoch(0), step: StepIndex(0), attempt: Attempt(0) };
    let highest =
        LeaseKey { job, job_epoch: JobEpoch(u32::MAX), step: StepIndex(u32::MAX), attempt: Attempt(u32::MAX) };
    lowest..=highest
}
