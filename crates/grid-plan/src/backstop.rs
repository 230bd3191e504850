//! Expires leases behind the workers' own timeouts (W6): every lease that is out has a time by which it is over.
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

#[cfg(test)]
mod tests;

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

    /// Changes of leases were lost: drops what is no longer out and arms what is missing. Every other deadline stays.
    pub fn catch_up(&mut self, state: &State, paused: bool, now_ms: u64) {
        self.armed.retain(|(node, lease), _| state.is_out(*node, *lease));
        for node in state.nodes.values() {
            self.arm_missing(state, node, paused, now_ms);
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
