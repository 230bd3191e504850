//! Chooses what a leader may drop: ended jobs that are old or too many (L6, L8), and nodes that nothing uses any more.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{MAX_PRUNED, MAX_RECLAIMED, PruneHistory, State};
use grid_types::limits::{AGENT_SILENT_MS, MAX_ENDED_JOBS};
use grid_types::node::NodeStatus;
use grid_types::{NodeOrd, SessionId};

/// The next jobs to forget, oldest first; none if nothing is that old.
///
/// `now_ms` is leader time: days without a leader do not count, and a wall clock that jumps forgets nothing (W6).
#[must_use]
pub fn old_history(state: &State, now_ms: u64, history_ms: u64) -> Option<PruneHistory> {
    too_old(state, now_ms, history_ms).or_else(|| too_many(state, MAX_ENDED_JOBS))
}

fn too_old(state: &State, now_ms: u64, history_ms: u64) -> Option<PruneHistory> {
    let ended_before_ms = now_ms.checked_sub(history_ms)?;
    let old = state.stubs.iter().filter(|(_, stub)| stub.ended_ms < ended_before_ms);
    let jobs: Vec<_> = old.take(MAX_PRUNED).map(|(id, _)| *id).collect();
    (!jobs.is_empty()).then_some(PruneHistory { ended_before_ms, jobs, events_before_ms: 0 })
}

/// L8: stubs are bounded in number as well as in age; the oldest leave with their history.
fn too_many(state: &State, most: usize) -> Option<PruneHistory> {
    let surplus = state.stubs.len().checked_sub(most).filter(|surplus| *surplus > 0)?;
    let oldest = || state.stubs.iter().take(surplus.min(MAX_PRUNED));
    let newest_ms = oldest().map(|(_, stub)| stub.ended_ms).max()?;
    let jobs = oldest().map(|(id, _)| *id).collect();
    Some(PruneHistory { ended_before_ms: newest_ms.saturating_add(1), jobs, events_before_ms: 0 })
}

/// Nodes that only take up room. Candidates: whether a stored job names them is for the store to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unused {
    /// Removed by an operator, or lapsed: to be reclaimed.
    pub tombstones: BTreeMap<NodeOrd, SessionId>,
    /// Agents that have not asked for a day: to be removed.
    pub silent_agents: BTreeSet<NodeOrd>,
}

#[must_use]
pub fn unused_nodes(state: &State, now_ms: u64) -> Unused {
    let mut unused = Unused::default();
    for node in state.nodes.values() {
        let is_gone = matches!(node.status, NodeStatus::Dead | NodeStatus::Left);
        let silent_ms = now_ms.saturating_sub(node.changed_ms);
        if node.status == NodeStatus::Removed && unused.tombstones.len() < MAX_RECLAIMED {
            unused.tombstones.insert(node.ord, node.session);
        } else if node.agent && is_gone && silent_ms >= AGENT_SILENT_MS && unused.silent_agents.len() < MAX_RECLAIMED {
            unused.silent_agents.insert(node.ord);
        }
    }
    let expected: BTreeSet<NodeOrd> = state.jobs.values().flat_map(|job| job.expected.iter().copied()).collect();
    unused.tombstones.retain(|node, _| !expected.contains(node));
    unused.silent_agents.retain(|node| !expected.contains(node));
    unused
}

#[cfg(test)]
mod tests {
    use super::{Unused, old_history, too_many, unused_nodes};
    use crate::liveness::tests::state;
    use grid_core::{MAX_PRUNED, Parts, State, Stub};
    use grid_types::limits::AGENT_SILENT_MS;
    use grid_types::node::NodeStatus;
    use grid_types::{JobEpoch, JobId, JobStatus, NodeOrd, SessionId};

    #[test]
    fn l6_the_oldest_go_first_and_only_so_many_at_once() {
        let stub = |ended_ms| Stub { epoch: JobEpoch(1), status: JobStatus::Completed, ended_ms };
        let stubs = (1..=2_000u64).map(|id| (JobId(id), stub(10_000 + id))).collect();
        let state = State::from_parts(Parts { stubs, ..Parts::default() }).unwrap();
        assert_eq!(old_history(&state, 20_000, 20_001), None, "longer than time itself");
        assert_eq!(old_history(&state, 20_000, 9_999), None, "nothing is that old");
        let some = old_history(&state, 20_000, 9_997).unwrap();
        assert_eq!((some.ended_before_ms, some.jobs), (10_003, vec![JobId(1), JobId(2)]));
        let many = old_history(&state, 20_000, 1).unwrap();
        assert_eq!((many.jobs.len(), many.jobs[0]), (MAX_PRUNED, JobId(1)));
    }

    #[test]
    fn l8_the_oldest_stubs_beyond_the_bound_leave_however_young_they_are() {
        let stub = |ended_ms| Stub { epoch: JobEpoch(1), status: JobStatus::Completed, ended_ms };
        let stubs = (1..=10u64).map(|id| (JobId(id), stub(100 - id))).collect();
        let state = State::from_parts(Parts { stubs, ..Parts::default() }).unwrap();
        assert_eq!(too_many(&state, 10), None);
        let surplus = too_many(&state, 8).unwrap();
        assert_eq!((surplus.ended_before_ms, surplus.jobs), (100, vec![JobId(1), JobId(2)]));
    }

    #[test]
    fn issue13_19_removed_nodes_and_agents_that_were_silent_for_a_day_are_unused() {
        let mut state = state(&[NodeStatus::Removed, NodeStatus::Dead, NodeStatus::Dead, NodeStatus::Ready]);
        for ord in [3, 4] {
            state.nodes.get_mut(&NodeOrd(ord)).unwrap().agent = true;
        }
        let tombstones = [(NodeOrd(1), SessionId(1))].into();
        let unused = Unused { tombstones, ..Unused::default() };
        assert_eq!(unused_nodes(&state, AGENT_SILENT_MS - 1), unused, "the agent may come back");
        let unused = Unused { silent_agents: [NodeOrd(3)].into(), ..unused };
        assert_eq!(unused_nodes(&state, AGENT_SILENT_MS), unused, "a worker stays, and so does a node that is there");
    }
}
