use super::{Liveness, Thresholds};
use grid_core::{Command, Node, Parts, State};
use grid_types::node::NodeStatus;
use grid_types::{LeaderEpoch, NodeOrd, SessionId};

pub(crate) fn state(statuses: &[NodeStatus]) -> State {
    let nodes = (1u32..).zip(statuses).map(|(i, status)| Node {
        ord: NodeOrd(i),
        id: format!("n{i}").parse().unwrap(),
        facts: Box::default(),
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
        leased_jobs: Default::default(),
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

/// Ticks every half second; the nodes in `alive` send a message each time.
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

/// Ticks as [`run`] does; every mark is applied to the statuses, as the log would.
fn live(liveness: &mut Liveness, statuses: &mut [NodeStatus], ms: std::ops::Range<u64>, alive: &[u32]) {
    for now in ms.step_by(500) {
        for (node, to) in run(liveness, &state(statuses), now, now, alive) {
            statuses[usize::try_from(node - 1).unwrap()] = to;
        }
    }
}

#[test]
fn v1_a_new_term_raises_no_node_that_has_not_sent_a_message() {
    for status in [NodeStatus::Warning, NodeStatus::Unhealthy] {
        let mut statuses = [status, NodeStatus::Ready, NodeStatus::Ready];
        let mut liveness = Liveness::new(Thresholds::default());
        liveness.new_term();
        live(&mut liveness, &mut statuses, 0..14_500, &[2, 3]);
        assert_eq!(statuses, [status, NodeStatus::Ready, NodeStatus::Ready]);
        live(&mut liveness, &mut statuses, 14_500..15_500, &[1, 2, 3]);
        assert_eq!(statuses, [NodeStatus::Ready; 3], "it sends messages to this leader");
    }
}

#[test]
fn v1_a_late_tick_raises_no_silent_node() {
    for status in [NodeStatus::Warning, NodeStatus::Unhealthy] {
        let mut statuses = [status, NodeStatus::Ready, NodeStatus::Ready];
        let mut liveness = Liveness::new(Thresholds::default());
        live(&mut liveness, &mut statuses, 0..5_000, &[2, 3]);
        live(&mut liveness, &mut statuses, 600_000..614_000, &[2, 3]);
        assert_eq!(statuses, [status, NodeStatus::Ready, NodeStatus::Ready]);
    }
}

#[test]
fn v1_a_message_before_a_late_tick_still_counts() {
    let mut statuses = [NodeStatus::Unhealthy, NodeStatus::Ready, NodeStatus::Ready];
    let mut liveness = Liveness::new(Thresholds::default());
    live(&mut liveness, &mut statuses, 0..5_000, &[2, 3]);
    liveness.heard(NodeOrd(1), SessionId(1));
    live(&mut liveness, &mut statuses, 600_000..600_500, &[]);
    assert_eq!(statuses, [NodeStatus::Ready; 3]);
}

#[test]
fn v1_after_a_new_term_silence_goes_on_from_the_state_of_the_node() {
    let mut statuses =
        [NodeStatus::Unhealthy, NodeStatus::Warning, NodeStatus::Ready, NodeStatus::Ready, NodeStatus::Ready];
    let mut liveness = Liveness::new(Thresholds::default());
    live(&mut liveness, &mut statuses, 0..15_000, &[3, 4, 5]);
    assert_eq!(statuses[..2], [NodeStatus::Unhealthy, NodeStatus::Warning]);
    live(&mut liveness, &mut statuses, 15_000..16_000, &[3, 4, 5]);
    assert_eq!(statuses[..2], [NodeStatus::Unhealthy; 2]);
    live(&mut liveness, &mut statuses, 16_000..29_500, &[3, 4, 5]);
    assert_eq!(statuses[..2], [NodeStatus::Unhealthy; 2]);
    live(&mut liveness, &mut statuses, 29_500..31_000, &[3, 4, 5]);
    assert_eq!(statuses[..2], [NodeStatus::Dead, NodeStatus::Unhealthy]);
}

/// Thresholds may be close together; a worker needs time to find the new leader all the same.
#[test]
fn v1_nothing_gets_worse_in_the_first_warning_period_of_a_term() {
    let thresholds = Thresholds { warning_ms: 15_000, unhealthy_ms: 16_000, dead_ms: 17_000 };
    let mut statuses =
        [NodeStatus::Unhealthy, NodeStatus::Warning, NodeStatus::Ready, NodeStatus::Ready, NodeStatus::Ready];
    let mut liveness = Liveness::new(thresholds);
    live(&mut liveness, &mut statuses, 0..20_000, &[2, 3, 4, 5]);
    assert_eq!(statuses[..2], [NodeStatus::Dead, NodeStatus::Ready]);
    statuses[0] = NodeStatus::Unhealthy;
    liveness.new_term();
    live(&mut liveness, &mut statuses, 20_000..34_500, &[2, 3, 4, 5]);
    assert_eq!(statuses[0], NodeStatus::Unhealthy);
    live(&mut liveness, &mut statuses, 34_500..36_000, &[2, 3, 4, 5]);
    assert_eq!(statuses[0], NodeStatus::Dead);
}

#[test]
fn v2_the_hold_survives_new_terms_and_late_ticks() {
    let mut statuses = [NodeStatus::Ready; 3];
    let mut liveness = Liveness::new(Thresholds::default());
    live(&mut liveness, &mut statuses, 0..100_000, &[3]);
    let held = [NodeStatus::Unhealthy, NodeStatus::Unhealthy, NodeStatus::Ready];
    assert_eq!(statuses, held);
    for term in 1..20u64 {
        let from = term * 200_000;
        if term % 2 == 0 {
            liveness = Liveness::new(Thresholds::default());
        }
        liveness.new_term();
        live(&mut liveness, &mut statuses, from..from + 2_000 * term, &[3]);
        live(&mut liveness, &mut statuses, from + 60_000..from + 60_000 + 10_000 * term, &[3]);
        assert_eq!(statuses, held, "term {term}");
    }
    live(&mut liveness, &mut statuses, 10_000_000..10_001_000, &[2, 3]);
    assert_eq!(statuses, [NodeStatus::Unhealthy, NodeStatus::Ready, NodeStatus::Ready], "its return decides");
}

/// The reply to a proposal may be lost and the proposal committed all the same, after the grace period began.
#[test]
fn v1_a_mark_that_is_committed_late_is_not_taken_back_without_a_message() {
    let mut liveness = Liveness::new(Thresholds::default());
    let mut statuses = [NodeStatus::Ready; 3];
    live(&mut liveness, &mut statuses, 0..29_000, &[2, 3]);
    liveness.new_term();
    live(&mut liveness, &mut statuses, 29_000..30_000, &[2, 3]);
    assert_eq!(statuses[0], NodeStatus::Warning);
    statuses[0] = NodeStatus::Unhealthy;
    live(&mut liveness, &mut statuses, 30_000..45_000, &[2, 3]);
    assert_eq!(statuses[0], NodeStatus::Unhealthy);
}
