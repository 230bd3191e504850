//! Compares a worker's outstanding leases with the state and repairs the difference (W5). Level-triggered: whatever message
//! was lost, the next comparison sends it again.

use std::collections::BTreeSet;

use grid_core::{Effect, Node, State, node_effects};
use grid_proto::v1;
use grid_types::LeaseKey;
use prost::Message;

use super::Now;
use super::sessions::Session;
use super::wire::offer_message;

/// What is expected and not outstanding is offered again after this long.
const OFFER_AGAIN_MS: u64 = 3_000;
/// Offered in one go, about: more would overflow the session's queue, and what is left is due at the next heartbeat.
const MOST_BYTES: usize = 2 * 1024 * 1024;

/// Whether a node holds what it should, by the digest of its heartbeat. Never as long as a Revoke is out: it may have been
/// lost, whether its lease is outstanding or not, and is said again until its end is confirmed (W9).
pub fn agrees(state: &State, node: &Node, outstanding_digest: u64) -> bool {
    let mut leases = Vec::new();
    for effect in node_effects(state, node) {
        match effect {
            Effect::Offer(offer) => leases.push(offer.lease),
            Effect::Revoke { .. } => return false,
            Effect::Begun { .. } | Effect::Forget { .. } | Effect::Deposed => {}
        }
    }
    grid_proto::outstanding_digest(&leases) == outstanding_digest
}

/// What to send to a worker whose leases are `outstanding`. Leases it accepted are in the second part, with their timeouts. While dispatch is
/// paused (E8), nothing is offered.
///
/// The list may be old: under load it is seconds on its way. What was offered after it was asked for may have arrived
/// meanwhile, and what was reported or answered since is not outstanding any more; neither needs a message.
pub fn reconcile(
    now: &Now<'_>,
    node: &Node,
    session: &mut Session,
    outstanding: &BTreeSet<LeaseKey>,
) -> (v1::ToWorker, Vec<(LeaseKey, u64)>) {
    let (state, now_mono_ms) = (now.state, now.mono_ms);
    let asked = session.asked.take().unwrap_or_default();
    let mut message = v1::ToWorker::default();
    let mut accepted = Vec::new();
    let mut known = BTreeSet::new();
    let mut size = 0;
    for effect in node_effects(state, node) {
        match effect {
            Effect::Offer(offer) => {
                known.insert(offer.lease);
                if outstanding.contains(&offer.lease) {
                    accepted.push((offer.lease, offer.timeout_ms()));
                } else if now.mandate.offers()
                    && size < MOST_BYTES
                    && is_due(session, offer.lease, asked.at_mono_ms, now_mono_ms)
                {
                    session.offered_mono_ms.insert(offer.lease, now_mono_ms);
                    let offered = offer_message(&offer);
                    size += offered.as_ref().map_or(0, Message::encoded_len);
                    message.offers.extend(offered);
                }
            }
            Effect::Revoke { lease, .. } => {
                known.insert(lease);
                message.revokes.push(lease.into());
            }
            Effect::Begun { .. } | Effect::Forget { .. } | Effect::Deposed => {}
        }
    }
    for lease in outstanding.difference(&known).filter(|lease| !is_wanted(state, node, lease)) {
        if !session.reported.has(lease) && !asked.answered.contains(lease) {
            message.revokes.push((*lease).into());
        }
    }
    (message, accepted)
}

fn is_due(session: &Session, lease: LeaseKey, asked_mono_ms: u64, now_mono_ms: u64) -> bool {
    let is_lost = |last: &u64| *last < asked_mono_ms && now_mono_ms.saturating_sub(*last) >= OFFER_AGAIN_MS;
    !session.reported.has(&lease) && session.offered_mono_ms.get(&lease).is_none_or(is_lost)
}

/// W8: an `unknown` that the worker's journal may still settle is not taken away from it. E2: nor is what it has from a
/// time after the backup that was restored, as long as it may still be offered.
pub fn is_wanted(state: &State, node: &Node, lease: &LeaseKey) -> bool {
    let Some(job) = state.jobs.get(&lease.job) else { return false };
    if job.may_come(node.ord, *lease) {
        return true;
    }
    let unknown = job.head.unknown.get(&(lease.step, node.ord)) == Some(&lease.attempt);
    unknown && lease.job_epoch >= job.head.run_epoch && !job.head.status.is_ended()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use grid_core::{
        BeginTerm, CancelJob, Command, ConfirmRevoke, Entry, EntryHead, MarkNode, Quotas, RecordResult, RegisterNode,
        RequestHash, State, SubmitJob, apply,
    };
    use grid_proto::v1;
    use grid_types::node::{Capacity, NodeFacts, NodeStatus};
    use grid_types::{Attempt, JobId, LeaseKey, NodeOrd, Outcome, SessionId};
    use serde_json::json;

    use super::super::sessions::{Asked, Session};
    use super::super::{Mandate, Now};
    use super::{OFFER_AGAIN_MS, agrees, reconcile};

    struct World {
        state: State,
        session: Session,
        mandate: Mandate,
    }

    impl World {
        /// Two nodes with a job of `ping echo` out to them; the comparisons are for the first.
        fn new() -> Self {
            let session = Session::new(NodeOrd(1), 0, 0);
            let mut world = Self { state: State::default(), session, mandate: Mandate::Full };
            world.apply(Command::BeginTerm(BeginTerm {
                term: 1,
                leader: "c1".parse().unwrap(),
                api_url: String::new(),
                grpc_addr: String::new(),
                quotas: Quotas::default(),
                cluster_id: "c".to_owned(),
                restored: None,
                feature_level: grid_core::FEATURE_LEVEL,
            }));
            for id in ["n1", "n2"] {
                world.apply(Command::RegisterNode(RegisterNode {
                    id: id.parse().unwrap(),
                    facts: NodeFacts {
                        backends: [("ping".to_owned(), BTreeSet::from(["echo".to_owned()]))].into(),
                        capacity: Capacity { slots: 1, ..Capacity::default() },
                        ..NodeFacts::default()
                    },
                    journal_id: id.as_bytes().to_vec(),
                    boot: 1,
                    nonce: b"n".to_vec(),
                    known_session_lives: false,
                    agent: false,
                    outstanding: Vec::new(),
                    unstarted: Vec::new(),
                    secret: None,
                }));
            }
            let body =
                json!({"target": "all", "tasks": [{"backend": "ping", "action": "echo"}], "strategy": "continue"});
            let spec = grid_types::job::parse_job(&body).unwrap();
            let namespace = "default".parse().unwrap();
            world.apply(Command::SubmitJob(SubmitJob {
                id: JobId(7),
                namespace,
                spec,
                key: None,
                plan: None,
                request: RequestHash::default(),
            }));
            world
        }

        fn apply(&mut self, command: Command) {
            let leadership = &self.state.meta.leadership;
            let head = EntryHead { epoch: leadership.epoch, term: 1, now_ms: 0, wall_ms: 0, commands: 1 };
            let applied = apply(&mut self.state, &Entry { head, commands: vec![command] });
            assert!(applied.replies[0].is_ok(), "{:?}", applied.replies);
        }

        fn compare(&mut self, outstanding: &[LeaseKey], now_mono_ms: u64) -> v1::ToWorker {
            self.compare_old(outstanding, now_mono_ms, now_mono_ms)
        }

        /// With a list that was asked for at `asked_mono_ms`.
        fn compare_old(&mut self, outstanding: &[LeaseKey], asked_mono_ms: u64, now_mono_ms: u64) -> v1::ToWorker {
            let outstanding = outstanding.iter().copied().collect();
            let node = &self.state.nodes[&NodeOrd(1)];
            self.session.asked.get_or_insert_default().at_mono_ms = asked_mono_ms;
            let now = Now { state: &self.state, mono_ms: now_mono_ms, wall_ms: 0, mandate: self.mandate };
            reconcile(&now, node, &mut self.session, &outstanding).0
        }

        fn agrees(&self, outstanding: &[LeaseKey]) -> bool {
            agrees(&self.state, &self.state.nodes[&NodeOrd(1)], grid_proto::outstanding_digest(outstanding))
        }

        fn lease(&self) -> LeaseKey {
            self.state.jobs[&JobId(7)].lease_at(NodeOrd(1)).unwrap().0
        }
    }

    fn result(lease: LeaseKey) -> Command {
        Command::RecordResult(RecordResult {
            node: NodeOrd(1),
            session: SessionId(1),
            lease,
            outcome: Outcome::Success,
            error: None,
            output_tail: Vec::new(),
            output_bytes: 0,
            output_truncated: false,
            detail: None,
            duration_ms: 0,
            started_wall_ms: 0,
        })
    }

    fn revoked(lease: LeaseKey) -> Command {
        Command::ConfirmRevoke(ConfirmRevoke {
            node: NodeOrd(1),
            session: SessionId(1),
            lease,
            ended: None,
            duration_ms: 0,
            started_wall_ms: 0,
            output_tail: Vec::new(),
            output_bytes: 0,
            error: None,
        })
    }

    #[test]
    fn w5_what_is_expected_and_not_outstanding_is_offered_again_after_3_s() {
        let mut world = World::new();
        assert_eq!(world.compare(&[], 10_000).offers.len(), 1);
        assert!(world.compare(&[], 10_000 + OFFER_AGAIN_MS - 1).offers.is_empty(), "it may be on its way");
        assert_eq!(world.compare(&[], 10_000 + OFFER_AGAIN_MS).offers.len(), 1);
        let outstanding = [world.lease()];
        assert_eq!(world.compare(&outstanding, 99_000), v1::ToWorker::default());
        assert!(world.agrees(&outstanding) && !world.agrees(&[]));
    }

    #[test]
    fn w5_a_list_says_nothing_of_what_was_sent_after_it_was_asked_for() {
        let mut world = World::new();
        world.session.offered_mono_ms.insert(world.lease(), 5_000);
        assert!(world.compare_old(&[], 5_000, 60_000).offers.is_empty(), "the offer may have arrived since");
        assert_eq!(world.compare_old(&[], 5_001, 60_000).offers.len(), 1, "it was there to be read first");
    }

    #[test]
    fn w5_what_was_reported_is_neither_offered_nor_revoked_whatever_an_old_list_says() {
        let mut world = World::new();
        let (known, stranger) = (world.lease(), LeaseKey { job: JobId(99), ..world.lease() });
        world.session.asked = Some(Asked::default());
        assert!(world.session.take_up(&result(known)) && world.session.take_up(&result(stranger)));
        assert!(!world.session.take_up(&result(known)), "said twice, it is recorded once");
        assert_eq!(world.compare(&[stranger], 60_000), v1::ToWorker::default(), "on their way into the log");
        world.session.asked = Some(Asked::default());
        world.session.put_down(stranger);
        assert!(world.compare(&[known, stranger], 60_000).revokes.is_empty(), "the list is older than the answer");
        assert_eq!(world.compare(&[known, stranger], 60_000).revokes, [v1::Lease::from(stranger)], "this one is not");
        world.session.put_down(known);
        assert!(world.session.take_up(&result(known)), "after a Retry it is said again");
    }

    #[test]
    fn w9_the_end_of_a_revoke_is_recorded_though_a_result_of_its_lease_is_on_its_way() {
        let mut world = World::new();
        let lease = world.lease();
        assert!(world.session.take_up(&result(lease)));
        assert!(world.session.take_up(&revoked(lease)), "the cancel came first: that result will be refused");
    }

    #[test]
    fn e8_a_paused_leader_offers_nothing_and_still_revokes_and_accepts() {
        let mut world = World::new();
        world.mandate = Mandate::Paused;
        let (known, stranger) = (world.lease(), LeaseKey { job: JobId(99), ..world.lease() });
        assert_eq!(world.compare(&[], 10_000), v1::ToWorker::default());
        assert_eq!(world.compare(&[known, stranger], 10_000).revokes, [v1::Lease::from(stranger)]);
        world.mandate = Mandate::Full;
        assert_eq!(world.compare(&[], 10_000).offers.len(), 1, "what was withheld counts as never offered");
    }

    #[test]
    fn w5_what_is_outstanding_and_not_known_is_revoked() {
        let mut world = World::new();
        let stranger = LeaseKey { job: JobId(99), ..world.lease() };
        let known = world.lease();
        let message = world.compare(&[known, stranger], 0);
        assert_eq!(message.revokes, [v1::Lease::from(stranger)]);
        assert!(message.offers.is_empty());
    }

    #[test]
    fn e2_what_a_worker_has_from_after_the_backup_stays_with_it() {
        let mut world = World::new();
        let lease = world.lease();
        let later = LeaseKey { attempt: Attempt(2), ..lease };
        assert_eq!(world.compare(&[lease, later], 0), v1::ToWorker::default());
        let other_run = LeaseKey { job_epoch: lease.job_epoch.next(), ..lease };
        assert_eq!(world.compare(&[lease, other_run], 0).revokes, [v1::Lease::from(other_run)]);
    }

    #[test]
    fn w9_a_cancelled_lease_is_revoked_until_its_end_is_confirmed() {
        let mut world = World::new();
        let lease = world.lease();
        world.apply(Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job: JobId(7) }));
        for outstanding in [&[lease][..], &[]] {
            let message = world.compare(outstanding, 0);
            assert_eq!((message.revokes, message.offers.len()), (vec![v1::Lease::from(lease)], 0));
            assert!(!world.agrees(outstanding), "the next heartbeat says it again");
        }
    }

    #[test]
    fn w8_an_unknown_that_the_journal_may_settle_is_left_to_it() {
        let mut world = World::new();
        let (lease, session) = (world.lease(), world.state.nodes[&NodeOrd(1)].session);
        let (from, to) = (NodeStatus::Ready, NodeStatus::Dead);
        world.apply(Command::MarkNode(MarkNode { node: NodeOrd(1), session, from, to, cause: None }));
        assert!(world.compare(&[lease], 0).revokes.is_empty(), "the second node keeps the job running");
        world.apply(Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job: JobId(7) }));
        assert_eq!(world.compare(&[lease], 0).revokes, [v1::Lease::from(lease)], "now nobody waits for it");
    }
}
