//! Which nodes are silent, and what that makes them (V1–V3).
//!
//! ```text
//!   heard: 0 ms ── warning_ms ─► Warning ── unhealthy_ms ─► Unhealthy ── dead_ms ─► Dead
//! ```
//!
//! V1: a node's silence grows by at most a second a tick; a tick that comes late says more about the leader than about
//! the nodes, so everyone starts afresh. V2: when more than half of the nodes are silent it is rather the network
//! that is broken, and nobody is declared dead.
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
    silence: BTreeMap<NodeOrd, (SessionId, u64)>,
    last_tick_ms: Option<u64>,
}

impl Liveness {
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, ..Self::default() }
    }

    pub fn heard(&mut self, node: NodeOrd, session: SessionId) {
        self.silence.insert(node, (session, 0));
    }

    /// A fresh grace period for everyone.
    pub fn new_term(&mut self) {
        self.silence.clear();
        self.last_tick_ms = None;
    }

    /// How long a node has been silent, as far as this leader knows.
    #[must_use]
    pub fn silent_ms(&self, node: NodeOrd) -> Option<u64> {
        self.silence.get(&node).map(|(_, ms)| *ms)
    }

    /// Time passes: returns the transitions it brings.
    pub fn tick(&mut self, state: &State, now_ms: u64) -> Vec<Command> {
        let mut passed = now_ms.saturating_sub(self.last_tick_ms.unwrap_or(now_ms));
        if self.last_tick_ms.is_some() && passed < self.thresholds.warning_ms / LOOKS_PER_WARNING {
            return Vec::new();
        }
        self.last_tick_ms = Some(now_ms);
        if passed > LATE_MS {
            self.silence.clear();
            passed = 0;
        }
        // One look at each of 10,000 nodes: the rest is done only if it may come to something.
        let (thresholds, mut moved) = (self.thresholds, false);
        for node in state.nodes.values().filter(|node| is_watched(node.status)) {
            let entry = self.silence.entry(node.ord).or_insert((node.session, 0));
            if entry.0 == node.session {
                entry.1 += passed.min(MOST_A_TICK_MS);
            } else {
                *entry = (node.session, 0);
            }
            moved |= [false, true].iter().any(|mass| thresholds.due(node.status, entry.1, *mass) != node.status);
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
            if to == node.status {
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
pub(crate) mod tests {
    use super::{Liveness, Thresholds};
    use grid_core::{Command, Node, Parts, State};
    use grid_types::node::{NodeFacts, NodeStatus};
    use grid_types::{LeaderEpoch, NodeOrd, SessionId};

    pub(crate) fn state(statuses: &[NodeStatus]) -> State {
        let nodes = (1u32..).zip(statuses).map(|(i, status)| Node {
            ord: NodeOrd(i),
            id: format!("n{i}").parse().unwrap(),
            facts: NodeFacts::default(),
            status: *status,
            session: SessionId(u64::from(i)),
            journal_id: Vec::new(),
            boot: 1,
            nonce: Vec::new(),
            registered_wall_ms: 0,
            changed_wall_ms: 0,
            changed_ms: 0,
            lapsed: false,
            leader_epoch: LeaderEpoch::default(),
            drained: false,
            agent: false,
            met: 0,
            asked: 0,
            is_continuous: false,
            past: Default::default(),
            secret: None,
            held: Default::default(),
            waiting: Default::default(),
        });
        State::from_parts(Parts { nodes: nodes.collect(), ..Parts::default() }).unwrap()
    }

    fn marks(commands: &[Command]) -> Vec<(u32, NodeStatus)> {
        let marks = commands.iter().map(|command| match command {
            Command::MarkNode(mark) => (mark.node.0, mark.to),
            other => panic!("{other:?}"),
        });
        marks.collect()
    }

    /// Ticks every half second; the nodes in `alive` are heard each time.
    fn run(liveness: &mut Liveness, state: &State, from_ms: u64, to_ms: u64, alive: &[u32]) -> Vec<(u32, NodeStatus)> {
        let mut last = Vec::new();
        for now in (from_ms..=to_ms).step_by(500) {
            for node in alive {
                liveness.heard(NodeOrd(*node), SessionId(u64::from(*node)));
            }
            last = marks(&liveness.tick(state, now));
        }
        last
    }

    #[test]
    fn silence_grows_into_warning_unhealthy_and_dead() {
        let state = state(&[NodeStatus::Ready; 3]);
        for (until, expected) in [
            (14_000, vec![]),
            (16_000, vec![(1, NodeStatus::Warning)]),
            (31_000, vec![(1, NodeStatus::Unhealthy)]),
            (61_000, vec![(1, NodeStatus::Dead)]),
        ] {
            let mut liveness = Liveness::new(Thresholds::default());
            assert_eq!(run(&mut liveness, &state, 0, until, &[2, 3]), expected, "{until}");
        }
    }

    #[test]
    fn v1_a_late_tick_grants_a_fresh_grace_period() {
        let state = state(&[NodeStatus::Ready; 3]);
        let mut liveness = Liveness::new(Thresholds::default());
        run(&mut liveness, &state, 0, 14_000, &[2, 3]);
        assert!(liveness.tick(&state, 600_000).is_empty(), "the leader slept, not the node");
        assert!(run(&mut liveness, &state, 600_500, 614_000, &[2, 3]).is_empty());
    }

    #[test]
    fn v1_silence_grows_by_a_second_a_tick_at_most() {
        let state = state(&[NodeStatus::Ready; 3]);
        let mut liveness = Liveness::new(Thresholds::default());
        for tick in 0..10 {
            liveness.tick(&state, tick * 2_500);
        }
        assert_eq!(liveness.silent_ms(NodeOrd(1)), Some(9_000));
    }

    #[test]
    fn v1_a_new_term_grants_a_fresh_grace_period() {
        let state = state(&[NodeStatus::Ready; 3]);
        let mut liveness = Liveness::new(Thresholds::default());
        run(&mut liveness, &state, 0, 14_500, &[2, 3]);
        liveness.new_term();
        assert!(run(&mut liveness, &state, 15_000, 29_000, &[2, 3]).is_empty());
    }

    #[test]
    fn v2_when_most_nodes_fall_silent_nobody_is_declared_dead() {
        let state = state(&[NodeStatus::Unhealthy, NodeStatus::Unhealthy, NodeStatus::Ready]);
        let mut liveness = Liveness::new(Thresholds::default());
        assert!(run(&mut liveness, &state, 0, 300_000, &[3]).is_empty(), "they stop at unhealthy");
        let back = run(&mut liveness, &state, 300_500, 301_000, &[1, 3]);
        assert_eq!(back, [(1, NodeStatus::Ready), (2, NodeStatus::Dead)], "their return decides");
    }

    #[test]
    fn v2_one_node_is_no_mass() {
        let state = state(&[NodeStatus::Unhealthy]);
        let mut liveness = Liveness::new(Thresholds::default());
        assert_eq!(run(&mut liveness, &state, 0, 61_000, &[]), [(1, NodeStatus::Dead)]);
    }

    #[test]
    fn v3_a_new_session_is_not_blamed_for_the_old_ones_silence() {
        let state = state(&[NodeStatus::Ready; 3]);
        let mut liveness = Liveness::new(Thresholds::default());
        liveness.heard(NodeOrd(1), SessionId(999));
        run(&mut liveness, &state, 0, 500, &[2, 3]);
        assert_eq!(liveness.silent_ms(NodeOrd(1)), Some(500));
    }

    #[test]
    fn a_draining_node_stays_draining_until_it_is_dead() {
        let state = state(&[NodeStatus::Draining, NodeStatus::Ready, NodeStatus::Ready]);
        let mut liveness = Liveness::new(Thresholds::default());
        assert!(run(&mut liveness, &state, 0, 59_000, &[2, 3]).is_empty());
        assert_eq!(run(&mut liveness, &state, 59_500, 61_000, &[2, 3]), [(1, NodeStatus::Dead)]);
    }
}
