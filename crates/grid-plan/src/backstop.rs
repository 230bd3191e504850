//! The leader's backstop behind the workers' own timeouts (W6).
//!
//! Counts from the moment the worker accepted the lease, on the leader's monotonic clock; a new term starts with an
//! empty one, so every lease gets its whole time again. Soft state: what it proposes is `ExpireLease`, which `apply`
//! ignores unless that very lease is still out.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{Command, ExpireLease};
use grid_types::{LeaseKey, NodeOrd};

/// The worker kills for 5 s and then has to get through: only a lost worker takes longer.
const GRACE_MS: u64 = 30_000;

#[derive(Debug, Default)]
pub struct Backstop {
    deadlines: BTreeMap<(NodeOrd, LeaseKey), u64>,
    queue: BTreeSet<(u64, NodeOrd, LeaseKey)>,
}

impl Backstop {
    /// A worker holds the lease. Only the first time counts.
    pub fn accepted(&mut self, node: NodeOrd, lease: LeaseKey, timeout_ms: u64, now_ms: u64) {
        let deadline = now_ms.saturating_add(timeout_ms).saturating_add(GRACE_MS);
        if let std::collections::btree_map::Entry::Vacant(slot) = self.deadlines.entry((node, lease)) {
            slot.insert(deadline);
            self.queue.insert((deadline, node, lease));
        }
    }

    pub fn ended(&mut self, node: NodeOrd, lease: LeaseKey) {
        if let Some(deadline) = self.deadlines.remove(&(node, lease)) {
            self.queue.remove(&(deadline, node, lease));
        }
    }

    pub fn new_term(&mut self) {
        self.deadlines.clear();
        self.queue.clear();
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
}

#[cfg(test)]
mod tests {
    use super::{Backstop, GRACE_MS};
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

    const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };

    #[test]
    fn w6_the_backstop_counts_from_acceptance_and_fires_once() {
        let mut backstop = Backstop::default();
        backstop.accepted(NodeOrd(1), LEASE, 1_000, 500);
        backstop.accepted(NodeOrd(1), LEASE, 1_000, 900);
        assert!(backstop.expired(1_500 + GRACE_MS - 1).is_empty());
        assert_eq!(backstop.expired(1_500 + GRACE_MS).len(), 1);
        assert!(backstop.expired(u64::MAX).is_empty());
    }

    #[test]
    fn w6_what_ended_or_belongs_to_another_term_never_fires() {
        let mut backstop = Backstop::default();
        backstop.accepted(NodeOrd(1), LEASE, 0, 0);
        backstop.ended(NodeOrd(1), LEASE);
        backstop.accepted(NodeOrd(2), LEASE, 0, 0);
        backstop.new_term();
        assert!(backstop.expired(u64::MAX).is_empty());
    }
}
