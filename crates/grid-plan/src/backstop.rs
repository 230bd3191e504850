//! The leader's backstop behind the workers' own timeouts (W6): every lease that is out has a time by which it is over.
//!
//! ```text
//!   sent: timeout + grace ──accepted──► timeout + grace, from then on
//!     └───────────revoked────────────► 6 s + grace
//! ```
//!
//! On the leader's monotonic clock. A new term, and a new session of the node, give every lease its whole time again: what
//! may run again must have the time to. Without it a job whose worker is silent but not declared dead (V2) would never
//! end (I15). Soft state: what it proposes is `ExpireLease`, which `apply` ignores unless that very lease is still out.

use std::collections::{BTreeMap, BTreeSet};

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
    Revoked,
}

#[derive(Debug, Default)]
pub struct Backstop {
    armed: BTreeMap<(NodeOrd, LeaseKey), (Stage, u64)>,
    queue: BTreeSet<(u64, NodeOrd, LeaseKey)>,
}

impl Backstop {
    pub fn sent(&mut self, offer: &Offer, now_ms: u64) {
        self.arm(offer.node, offer.lease, Stage::Sent, offer.timeout_ms(), now_ms);
    }

    /// A worker holds the lease. Only the first time counts: a worker that says it again gains nothing.
    pub fn accepted(&mut self, node: NodeOrd, lease: LeaseKey, timeout_ms: u64, now_ms: u64) {
        self.arm(node, lease, Stage::Accepted, timeout_ms, now_ms);
    }

    pub fn revoked(&mut self, node: NodeOrd, lease: LeaseKey, now_ms: u64) {
        self.arm(node, lease, Stage::Revoked, REVOKE_MS, now_ms);
    }

    pub fn ended(&mut self, node: NodeOrd, lease: LeaseKey) {
        if let Some((_, deadline)) = self.armed.remove(&(node, lease)) {
            self.queue.remove(&(deadline, node, lease));
        }
    }

    /// A new term: every lease that is out gets its whole time.
    pub fn new_term(&mut self, state: &State, now_ms: u64) {
        self.armed.clear();
        self.queue.clear();
        for node in state.nodes.values() {
            self.new_session(state, node, now_ms);
        }
    }

    /// A new session of a node: every lease that is out there gets its whole time.
    pub fn new_session(&mut self, state: &State, node: &Node, now_ms: u64) {
        let first = (node.ord, LeaseKey::FIRST);
        let old: Vec<_> =
            self.armed.range(first..).map(|(key, _)| *key).take_while(|(ord, _)| *ord == node.ord).collect();
        for (ord, lease) in old {
            self.ended(ord, lease);
        }
        for effect in node_effects(state, node) {
            match effect {
                Effect::Offer(offer) => self.sent(&offer, now_ms),
                Effect::Revoke { node, lease } => self.revoked(node, lease, now_ms),
                Effect::Forget { .. } | Effect::Deposed => {}
            }
        }
    }

    /// Leases whose time is over; each is proposed once.
    pub fn expired(&mut self, now_ms: u64) -> Vec<Command> {
        let mut commands = Vec::new();
        while let Some((_, node, lease)) = self.queue.first().copied().filter(|(at, ..)| *at <= now_ms) {
            self.ended(node, lease);
            commands.push(Command::ExpireLease(ExpireLease { node, lease }));
        }
        commands
    }

    fn arm(&mut self, node: NodeOrd, lease: LeaseKey, stage: Stage, limit_ms: u64, now_ms: u64) {
        if self.armed.get(&(node, lease)).is_some_and(|(known, _)| *known >= stage) {
            return;
        }
        self.ended(node, lease);
        let deadline = now_ms.saturating_add(limit_ms).saturating_add(GRACE_MS);
        self.armed.insert((node, lease), (stage, deadline));
        self.queue.insert((deadline, node, lease));
    }
}

#[cfg(test)]
mod tests {
    use super::{Backstop, GRACE_MS, REVOKE_MS};
    use grid_core::State;
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

    const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
    const NODE: NodeOrd = NodeOrd(1);

    #[test]
    fn w6_the_backstop_counts_from_acceptance_and_fires_once() {
        let mut backstop = Backstop::default();
        backstop.accepted(NODE, LEASE, 1_000, 500);
        backstop.accepted(NODE, LEASE, 1_000, 900);
        assert!(backstop.expired(1_500 + GRACE_MS - 1).is_empty());
        assert_eq!(backstop.expired(1_500 + GRACE_MS).len(), 1);
        assert!(backstop.expired(u64::MAX).is_empty());
    }

    #[test]
    fn w9_a_revoke_that_nobody_confirms_has_an_end_too() {
        let mut backstop = Backstop::default();
        backstop.accepted(NODE, LEASE, 24 * 3_600_000, 0);
        backstop.revoked(NODE, LEASE, 1_000);
        backstop.accepted(NODE, LEASE, 24 * 3_600_000, 2_000);
        assert!(backstop.expired(1_000 + REVOKE_MS + GRACE_MS - 1).is_empty());
        assert_eq!(backstop.expired(1_000 + REVOKE_MS + GRACE_MS).len(), 1);
    }

    #[test]
    fn w6_what_ended_or_belongs_to_another_term_never_fires() {
        let mut backstop = Backstop::default();
        backstop.accepted(NODE, LEASE, 0, 0);
        backstop.ended(NODE, LEASE);
        backstop.accepted(NodeOrd(2), LEASE, 0, 0);
        backstop.new_term(&State::default(), 0);
        assert!(backstop.expired(u64::MAX).is_empty());
    }
}
