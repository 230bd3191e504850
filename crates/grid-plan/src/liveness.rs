//! Plans changes of node status: measures how long each node has been silent, and marks it accordingly (V1–V3).
//!
//! ```text
//!   last message: 0 ms ── warning_ms ─► Warning ── unhealthy_ms ─► Unhealthy ── dead_ms ─► Dead
//! ```
//!
//! V1: a node's silence grows by at most a second a tick. A tick that comes late says more about the leader than about
//! the nodes, and a new leader has received no message yet: both begin a grace period. It delays what silence makes worse
//! and makes nothing better: each node's silence continues from the least that its state means (an unhealthy node was
//! silent for `unhealthy_ms`), and for `warning_ms` no state gets worse. Only a message of its session, received in this
//! term, makes a node Ready.
//! V2: when more than half of the nodes are silent it is rather the network that is broken, and nobody is declared dead.
//! This needs no record of its own: such a node stays Unhealthy, so a new leader counts it as silent from the start.
//! Heartbeats are soft state: only the transitions go through the log.

use std::collections::BTreeMap;

use grid_core::{Command, MarkNode, State};
use grid_types::node::NodeStatus;
use grid_types::{NodeCause, NodeOrd, SessionId};

/// A tick later than this is the leader's own fault.
const LATE_MS: u64 = 3_000;
const MOST_A_TICK_MS: u64 = 1_000;
/// Nobody is looked at more often than this part of the shortest threshold.
const LOOKS_PER_WARNING: u64 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    pub warning_ms: u64,
    pub unhealthy_ms: u64,
    pub dead_ms: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { warning_ms: 15_000, unhealthy_ms: 30_000, dead_ms: 60_000 }
    }
}

#[derive(Debug, Default)]
pub struct Liveness {
    thresholds: Thresholds,
    silence: BTreeMap<NodeOrd, Silence>,
    last_tick_ms: Option<u64>,
    /// What is left of the grace period.
    grace_ms: u64,
}

#[derive(Debug)]
struct Silence {
    session: SessionId,
    ms: u64,
    /// A message came less than `warning_ms` ago: the node may be silent for less than its state means.
    is_heard: bool,
}

impl Liveness {
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, grace_ms: thresholds.warning_ms, ..Self::default() }
    }

    pub fn heard(&mut self, node: NodeOrd, session: SessionId) {
        self.silence.insert(node, Silence { session, ms: 0, is_heard: true });
    }

    /// A fresh grace period for everyone. What an earlier term received does not count.
    pub fn new_term(&mut self) {
        self.silence.clear();
        self.last_tick_ms = None;
        self.grace_ms = self.thresholds.warning_ms;
    }

    /// How long a node has been silent, as far as this leader knows.
    #[must_use]
    pub fn silent_ms(&self, node: NodeOrd) -> Option<u64> {
        self.silence.get(&node).map(|silence| silence.ms)
    }

    /// N5: for a while some nodes could not be heard. As after a tick that comes late.
    pub fn grant_grace(&mut self) {
        self.grace_ms = self.thresholds.warning_ms;
    }

    /// Time passes: returns the transitions it brings.
    pub fn tick(&mut self, state: &State, now_ms: u64) -> Vec<Command> {
        self.tick_but(state, now_ms, |_| false)
    }

    /// The same, where the silence of some nodes does not count.
    pub fn tick_but(&mut self, state: &State, now_ms: u64, stands_still: impl Fn(NodeOrd) -> bool) -> Vec<Command> {
        let passed = now_ms.saturating_sub(self.last_tick_ms.unwrap_or(now_ms));
        if self.last_tick_ms.is_some() && passed < self.thresholds.warning_ms / LOOKS_PER_WARNING {
            return Vec::new();
        }
        self.last_tick_ms = Some(now_ms);
        let is_late = passed > LATE_MS;
        let passed = if is_late { 0 } else { passed.min(MOST_A_TICK_MS) };
        self.grace_ms = if is_late { self.thresholds.warning_ms } else { self.grace_ms.saturating_sub(passed) };
        // One look at each of 10,000 nodes: the rest is done only if it may come to something.
        let (thresholds, mut moved) = (self.thresholds, false);
        for node in state.nodes.values().filter(|node| is_watched(node.status)) {
            let least_ms = thresholds.least_silence(node.status);
            let unheard = || Silence { session: node.session, ms: least_ms, is_heard: false };
            let silence = self.silence.entry(node.ord).or_insert_with(unheard);
            if silence.session != node.session {
                *silence = unheard();
            }
            silence.ms += if stands_still(node.ord) { 0 } else { passed };
            silence.is_heard &= silence.ms < thresholds.warning_ms;
            if !silence.is_heard {
                silence.ms = silence.ms.max(least_ms);
            }
            if is_late {
                silence.ms = silence.ms.min(least_ms);
            }
            let ms = silence.ms;
            moved |= [false, true].iter().any(|mass| thresholds.due(node.status, ms, *mass) != node.status);
        }
        if moved { self.plan(state) } else { Vec::new() }
    }

    fn plan(&self, state: &State) -> Vec<Command> {
        let watched = || state.nodes.values().filter(|node| is_watched(node.status));
        let silent_for = |node: &NodeOrd| self.silent_ms(*node).unwrap_or(0);
        let silent = watched().filter(|node| silent_for(&node.ord) >= self.thresholds.unhealthy_ms).count();
        // One node is no mass: a cluster of one worker must still be able to lose it.
        let mass = silent >= 2 && silent * 2 > watched().count();
        let marks = watched().filter_map(|node| {
            let silent_ms = silent_for(&node.ord);
            let to = self.thresholds.due(node.status, silent_ms, mass);
            if to == node.status || (to != NodeStatus::Ready && self.grace_ms > 0) {
                return None;
            }
            let cause = Some(match to {
                NodeStatus::Ready => NodeCause::MessageReceived,
                _ => NodeCause::Silent { silent_ms, mass: mass && to == NodeStatus::Unhealthy },
            });
            Some(Command::MarkNode(MarkNode { node: node.ord, session: node.session, from: node.status, to, cause }))
        });
        marks.collect()
    }
}

impl Thresholds {
    /// How long a node of which nothing else is known has been silent, at least.
    fn least_silence(self, status: NodeStatus) -> u64 {
        match status {
            NodeStatus::Warning => self.warning_ms,
            NodeStatus::Unhealthy => self.unhealthy_ms,
            _ => 0,
        }
    }

    fn due(self, from: NodeStatus, silent_ms: u64, mass: bool) -> NodeStatus {
        let by_silence = match silent_ms {
            ms if ms >= self.dead_ms && !mass => NodeStatus::Dead,
            ms if ms >= self.unhealthy_ms => NodeStatus::Unhealthy,
            ms if ms >= self.warning_ms => NodeStatus::Warning,
            _ => NodeStatus::Ready,
        };
        // Draining says more than warning or unhealthy would: it gets no new work either way.
        if from == NodeStatus::Draining && by_silence != NodeStatus::Dead { from } else { by_silence }
    }
}

fn is_watched(status: NodeStatus) -> bool {
    match status {
        NodeStatus::Ready | NodeStatus::Warning | NodeStatus::Unhealthy | NodeStatus::Draining => true,
        NodeStatus::Dead | NodeStatus::Left | NodeStatus::Removed => false,
    }
}

#[cfg(test)]
pub(crate) mod tests;
