//! The leader's backstop behind the workers' own timeouts (W6): every lease that is out has a time by which it is over.
//!
//! ```text
//!   sent: timeout + grace ──accepted──► timeout + grace, from then on ──begun (W3)──► once more
//!     └───────────revoked────────────► 6 s + grace
//! ```
//!
//! On the leader's monotonic clock. A new term, and a new session of the node, give every lease its whole time again: what
//! may run again must have the time to. Without it a job whose worker is silent but not declared dead (V2) would never
//! end (I15). Soft state: what it proposes is `ExpireLease`, which `apply` ignores unless that very lease is still out.
//! E8: while dispatch is paused, a lease that was not sent has no deadline; it gets one when dispatch goes on
//! ([`Backstop::go_on`]). One that a worker holds, has begun (W3) or must give back has one in any case.
//!
//! Deadlines are not sorted: nearly every lease ends long before its own, so that a sorted queue would cost two changes of it a
//! lease for nothing. They are searched when the earliest may have passed. A worker that is well ends its leases a
//! grace period before their deadlines, so that this happens at most once in that time, and in each tick only while workers are lost.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use grid_core::{Command, Effect, ExpireLease, Node, Offer, State, node_effects};
use grid_types::{LeaseKey, NodeOrd};

/// The worker kills for 5 s and then has to get through: only a lost worker takes longer.
const GRACE_MS: u64 = 30_000;
/// W9: how long a worker takes to end a revoked lease.
const REVOKE_MS: u64 = 6_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Sent,
    Accepted,
    Begun,
    Revoked,
}

#[derive(Debug, Clone, Copy)]
struct Armed {
    stage: Stage,
    /// The lease has begun (W3), as far as this deadline knows.
    begun: bool,
    deadline_ms: u64,
}

#[derive(Debug)]
pub struct Backstop {
    armed: BTreeMap<(NodeOrd, LeaseKey), Armed>,
    /// No deadline is before this.
    earliest_ms: u64,
    /// Something was not sent because dispatch is paused, and has no deadline.
    withheld: bool,
}

impl Default for Backstop {
    fn default() -> Self {
        Self { armed: BTreeMap::new(), earliest_ms: u64::MAX, withheld: false }
    }
}

impl Backstop {
    pub fn sent(&mut self, offer: &Offer, now_ms: u64) {
        self.arm(offer.node, offer.lease, Stage::Sent, offer.timeout_ms(), now_ms);
    }

    /// A worker holds the lease. Only the first time counts: a worker that says it again gains nothing.
    pub fn accepted(&mut self, node: NodeOrd, lease: LeaseKey, timeout_ms: u64, now_ms: u64) {
        self.arm(node, lease, Stage::Accepted, timeout_ms, now_ms);
    }

    /// W3: a `once` lease starts now.
    pub fn begun(&mut self, node: NodeOrd, lease: LeaseKey, timeout_ms: u64, now_ms: u64) {
        self.arm(node, lease, Stage::Begun, timeout_ms, now_ms);
    }

    pub fn revoked(&mut self, node: NodeOrd, lease: LeaseKey, now_ms: u64) {
        self.arm(node, lease, Stage::Revoked, REVOKE_MS, now_ms);
    }

    pub fn ended(&mut self, node: NodeOrd, lease: LeaseKey) {
        self.armed.remove(&(node, lease));
    }

    /// A new term: every lease that is out gets its whole time. `paused`: nothing is sent for now (E8).
    pub fn new_term(&mut self, state: &State, paused: bool, now_ms: u64) {
        self.armed.clear();
        self.earliest_ms = u64::MAX;
        for node in state.nodes.values() {
            self.new_session(state, node, paused, now_ms);
        }
    }

    /// A new session of a node: every lease that is out there gets its whole time.
    pub fn new_session(&mut self, state: &State, node: &Node, paused: bool, now_ms: u64) {
        let first = (node.ord, LeaseKey::FIRST);
        let old: Vec<_> =
            self.armed.range(first..).map(|(key, _)| *key).take_while(|(ord, _)| *ord == node.ord).collect();
        for (ord, lease) in old {
            self.ended(ord, lease);
        }
        self.arm_missing(state, node, paused, now_ms);
    }

    /// An offer was not sent, because dispatch is paused (E8).
    pub fn withheld(&mut self) {
        self.withheld = true;
    }

    /// Dispatch goes on, or was never paused: what was not sent meanwhile has its whole time from now on.
    pub fn go_on(&mut self, state: &State, now_ms: u64) {
        if !std::mem::take(&mut self.withheld) {
            return;
        }
        for node in state.nodes.values() {
            self.arm_missing(state, node, false, now_ms);
        }
    }

    fn arm_missing(&mut self, state: &State, node: &Node, paused: bool, now_ms: u64) {
        for effect in node_effects(state, node) {
            match effect {
                Effect::Offer(offer) if has_begun(state, node, offer.lease) => {
                    self.begun(node.ord, offer.lease, offer.timeout_ms(), now_ms);
                }
                Effect::Offer(_) if paused => self.withheld(),
                Effect::Offer(offer) => self.sent(&offer, now_ms),
                Effect::Revoke { node: ord, lease } => {
                    self.revoked(ord, lease, now_ms);
                    if let Some(armed) = self.armed.get_mut(&(ord, lease)) {
                        armed.begun = has_begun(state, node, lease);
                    }
                }
                Effect::Begun { .. } | Effect::Forget { .. } | Effect::Deposed => {}
            }
        }
    }

    /// Leases whose time is over; each is proposed once.
    ///
    /// One that has begun without this deadline knowing it (a restore adopts what its worker has, E2) gets the time of a
    /// lease that begins; a revoked one has had it.
    pub fn expired(&mut self, state: &State, now_ms: u64) -> Vec<Command> {
        let mut commands = Vec::new();
        for (node, lease, armed) in self.take_due(now_ms) {
            let job = state.jobs.get(&lease.job).filter(|job| job.lease_at(node).is_some_and(|(out, _)| out == lease));
            let begun = armed.begun || job.is_some_and(|job| job.begun(node).is_some());
            let is_news = begun && !armed.begun && armed.stage < Stage::Begun;
            if let Some(job) = job.filter(|_| is_news) {
                let step = usize::try_from(lease.step.0).unwrap_or(usize::MAX);
                let timeout_ms = job.spec.steps().nth(step).map_or(0, |(_, task)| task.timeout_ms);
                self.begun(node, lease, timeout_ms, now_ms);
                continue;
            }
            commands.push(Command::ExpireLease(ExpireLease { node, lease, begun }));
        }
        commands
    }

    /// Removes the leases whose deadline has passed, the earliest deadline first.
    fn take_due(&mut self, now_ms: u64) -> Vec<(NodeOrd, LeaseKey, Armed)> {
        if now_ms < self.earliest_ms {
            return Vec::new();
        }
        let mut due = Vec::new();
        self.earliest_ms = u64::MAX;
        for ((node, lease), armed) in &self.armed {
            if armed.deadline_ms <= now_ms {
                due.push((*node, *lease, *armed));
            } else {
                self.earliest_ms = self.earliest_ms.min(armed.deadline_ms);
            }
        }
        due.sort_by_key(|(node, lease, armed)| (armed.deadline_ms, *node, *lease));
        for (node, lease, _) in &due {
            self.armed.remove(&(*node, *lease));
        }
        due
    }

    /// What was proposed did not get into the log, for example during a hand-over that failed: it is due again soon.
    pub fn not_expired(&mut self, expire: &ExpireLease, now_ms: u64) {
        let stage = if expire.begun { Stage::Begun } else { Stage::Accepted };
        self.arm(expire.node, expire.lease, stage, 0, now_ms);
    }

    fn arm(&mut self, node: NodeOrd, lease: LeaseKey, stage: Stage, limit_ms: u64, now_ms: u64) {
        let deadline_ms = now_ms.saturating_add(limit_ms).saturating_add(GRACE_MS);
        let begun = stage == Stage::Begun;
        match self.armed.entry((node, lease)) {
            Entry::Vacant(free) => {
                free.insert(Armed { stage, begun, deadline_ms });
            }
            Entry::Occupied(known) if known.get().stage >= stage => return,
            Entry::Occupied(mut known) => {
                let begun = begun || known.get().begun;
                *known.get_mut() = Armed { stage, begun, deadline_ms };
            }
        }
        self.earliest_ms = self.earliest_ms.min(deadline_ms);
    }
}

fn has_begun(state: &State, node: &Node, lease: LeaseKey) -> bool {
    state.jobs.get(&lease.job).is_some_and(|job| job.begun(node.ord).is_some())
}

#[cfg(test)]
mod tests {
    use super::{Backstop, GRACE_MS, REVOKE_MS};
    use grid_core::{
        BeginLease, BeginTerm, Command, Entry, EntryHead, ExpireLease, Quotas, RegisterNode, State, SubmitJob, apply,
    };
    use grid_types::job::parse_job;
    use grid_types::node::{Capacity, NodeFacts};
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

    use serde_json::json;

    const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
    const NODE: NodeOrd = NodeOrd(1);

    #[test]
    fn w6_the_backstop_counts_from_acceptance_and_fires_once() {
        let mut backstop = Backstop::default();
        backstop.accepted(NODE, LEASE, 1_000, 500);
        backstop.accepted(NODE, LEASE, 1_000, 900);
        assert!(backstop.expired(&State::default(), 1_500 + GRACE_MS - 1).is_empty());
        assert_eq!(backstop.expired(&State::default(), 1_500 + GRACE_MS).len(), 1);
        assert!(backstop.expired(&State::default(), u64::MAX).is_empty());
    }

    #[test]
    fn w6_leases_expire_in_the_order_of_their_deadlines_whatever_ended_before() {
        let mut backstop = Backstop::default();
        let nodes = [(1, 3_000), (2, 1_000), (3, 2_000), (4, 500)];
        for (node, timeout_ms) in nodes {
            backstop.accepted(NodeOrd(node), LEASE, timeout_ms, 0);
        }
        backstop.ended(NodeOrd(4), LEASE);
        let expired = |backstop: &mut Backstop, now_ms| -> Vec<u32> {
            let node = |command: Command| match command {
                Command::ExpireLease(ExpireLease { node, .. }) => node.0,
                other => panic!("{other:?}"),
            };
            backstop.expired(&State::default(), now_ms + GRACE_MS).into_iter().map(node).collect()
        };
        assert_eq!(expired(&mut backstop, 500), [0; 0], "the one that was due first has ended");
        assert_eq!(expired(&mut backstop, 2_000), [2, 3]);
        backstop.accepted(NodeOrd(5), LEASE, 2_500, 0);
        assert_eq!(expired(&mut backstop, 2_500), [5], "armed after the search, due before what it found");
        assert_eq!(expired(&mut backstop, 3_000), [1]);
    }

    #[test]
    fn w9_a_revoke_that_nobody_confirms_has_an_end_too() {
        let mut backstop = Backstop::default();
        backstop.accepted(NODE, LEASE, 24 * 3_600_000, 0);
        backstop.revoked(NODE, LEASE, 1_000);
        backstop.accepted(NODE, LEASE, 24 * 3_600_000, 2_000);
        assert!(backstop.expired(&State::default(), 1_000 + REVOKE_MS + GRACE_MS - 1).is_empty());
        assert_eq!(backstop.expired(&State::default(), 1_000 + REVOKE_MS + GRACE_MS).len(), 1);
    }

    #[test]
    fn w6_what_ended_or_belongs_to_another_term_never_fires() {
        let mut backstop = Backstop::default();
        backstop.accepted(NODE, LEASE, 0, 0);
        backstop.ended(NODE, LEASE);
        backstop.accepted(NodeOrd(2), LEASE, 0, 0);
        backstop.new_term(&State::default(), false, 0);
        assert!(backstop.expired(&State::default(), u64::MAX).is_empty());
    }

    /// One `once` lease that is out to one node.
    fn leased() -> (State, LeaseKey) {
        let mut state = State::default();
        let begin = BeginTerm {
            term: 1,
            leader: "c1".parse().unwrap(),
            api_url: String::new(),
            grpc_addr: String::new(),
            quotas: Quotas::default(),
            cluster_id: "c".to_owned(),
            restored: None,
            feature_level: grid_core::FEATURE_LEVEL,
        };
        let node = RegisterNode {
            id: "n1".parse().unwrap(),
            facts: NodeFacts {
                backends: [("test".to_owned(), ["record".to_owned()].into())].into(),
                capacity: Capacity { slots: 1, ..Capacity::default() },
                ..NodeFacts::default()
            },
            journal_id: b"j".to_vec(),
            boot: 1,
            nonce: b"n".to_vec(),
            known_session_lives: false,
            agent: false,
            outstanding: Vec::new(),
            unstarted: Vec::new(),
            secret: None,
        };
        let task = json!({"backend": "test", "action": "record", "params": {"path": "/p"}, "timeout": "1s"});
        let spec = parse_job(&json!({"target": "all", "tasks": [task]})).unwrap();
        let (namespace, request) = ("default".parse().unwrap(), grid_core::RequestHash::default());
        let submit = SubmitJob { id: JobId(7), namespace, spec, key: None, plan: None, request };
        put(&mut state, Command::BeginTerm(begin));
        put(&mut state, Command::RegisterNode(node));
        put(&mut state, Command::SubmitJob(submit));
        let lease = state.jobs[&JobId(7)].lease_at(NODE).unwrap().0;
        (state, lease)
    }

    fn put(state: &mut State, command: Command) {
        let epoch = state.meta.leadership.epoch;
        let head = EntryHead { epoch, term: 1, now_ms: 0, wall_ms: 0, commands: 1 };
        let applied = apply(state, &Entry { head, commands: vec![command] });
        assert!(applied.replies[0].is_ok(), "{:?}", applied.replies);
    }

    #[test]
    fn e8_what_is_not_sent_while_dispatch_is_paused_has_no_deadline() {
        let (state, lease) = leased();
        let mut backstop = Backstop::default();
        backstop.new_term(&state, true, 0);
        backstop.new_session(&state, &state.nodes[&NODE], true, 0);
        assert!(backstop.expired(&state, u64::MAX).is_empty());
        backstop.go_on(&state, 500_000);
        assert!(backstop.expired(&state, 500_000 + 1_000 + GRACE_MS - 1).is_empty(), "its whole time from now on");
        let expire = Command::ExpireLease(ExpireLease { node: NODE, lease, begun: false });
        assert_eq!(backstop.expired(&state, 500_000 + 1_000 + GRACE_MS), [expire]);
        backstop.go_on(&state, 600_000);
        assert!(backstop.expired(&state, u64::MAX).is_empty(), "nothing was withheld since");

        backstop.new_term(&state, false, 0);
        assert_eq!(backstop.expired(&state, u64::MAX).len(), 1, "otherwise it counts from the commit");
        backstop.new_term(&state, true, 0);
        backstop.accepted(NODE, lease, 1_000, 0);
        assert_eq!(backstop.expired(&state, u64::MAX).len(), 1, "so does what a worker holds");
    }

    #[test]
    fn w3_a_lease_that_begins_has_its_whole_time_again_even_while_dispatch_is_paused() {
        let (mut state, lease) = leased();
        let mut backstop = Backstop::default();
        backstop.accepted(NODE, lease, 1_000, 0);
        backstop.begun(NODE, lease, 1_000, 20_000);
        assert!(backstop.expired(&state, 21_000 + GRACE_MS - 1).is_empty());
        let expire = Command::ExpireLease(ExpireLease { node: NODE, lease, begun: true });
        assert_eq!(backstop.expired(&state, 21_000 + GRACE_MS), std::slice::from_ref(&expire));

        let session = state.nodes[&NODE].session;
        put(&mut state, Command::BeginLease(BeginLease { node: NODE, session, lease }));
        backstop.new_term(&state, true, 0);
        assert_eq!(backstop.expired(&state, u64::MAX), [expire], "the next leader knows that it runs");
    }

    #[test]
    fn e2_a_lease_that_was_adopted_has_a_deadline_that_counts() {
        let (mut state, lease) = leased();
        let session = state.nodes[&NODE].session;
        put(&mut state, Command::BeginLease(BeginLease { node: NODE, session, lease }));
        let mut backstop = Backstop::default();
        backstop.accepted(NODE, lease, 1_000, 0);
        assert!(backstop.expired(&state, 1_000 + GRACE_MS).is_empty(), "it has begun since: its whole time again");
        let expire = Command::ExpireLease(ExpireLease { node: NODE, lease, begun: true });
        assert_eq!(backstop.expired(&state, 2_000 + 2 * GRACE_MS), std::slice::from_ref(&expire));
        backstop.accepted(NODE, lease, 1_000, 0);
        backstop.revoked(NODE, lease, 0);
        assert_eq!(backstop.expired(&state, REVOKE_MS + GRACE_MS), [expire], "a revoked one has had its time");
    }

    #[test]
    fn e7_an_expiry_that_was_not_committed_is_proposed_again() {
        let mut backstop = Backstop::default();
        let state = State::default();
        backstop.accepted(NODE, LEASE, 1_000, 0);
        let lost = backstop.expired(&state, 1_000 + GRACE_MS);
        let [Command::ExpireLease(expire)] = &lost[..] else { panic!("{lost:?}") };
        backstop.not_expired(expire, 50_000);
        assert!(backstop.expired(&state, 50_000 + GRACE_MS - 1).is_empty());
        assert_eq!(backstop.expired(&state, 50_000 + GRACE_MS), lost);
    }
}
