//! W8: the reasons of what is skipped after an unknown outcome are true whatever the journal says later.

use grid_types::job::{Condition, Phase, PhaseNodes};
use grid_types::{JobId, Outcome};

use super::echo;
use crate::world::{Lease, World, cleanup, leaf, pipeline, retrying, when};

fn record() -> Phase {
    leaf("test", "record")
}

/// Two nodes, `continue`; the first one falls dead while it runs the first step, and has registered again.
fn one_unknown(phases: Vec<Phase>) -> (World, JobId, Lease) {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", phases);
    let lease = world.offered()[0];
    world.begin_all();
    world.mark_dead(1);
    world.register("node-1", b"journal-1", 2, b"again", false).unwrap();
    (world, job, lease)
}

fn reason(world: &World, job: JobId, step: u32, node: u32) -> String {
    world.skip_reason(job, step, node).unwrap_or_else(|| panic!("step {step} is not skipped on node {node}"))
}

#[test]
fn w8_a_node_is_not_said_to_have_failed_where_its_outcome_was_unknown() {
    for settled_first in [true, false] {
        let (mut world, job, lease) = one_unknown(vec![record(), record(), record()]);
        if settled_first {
            world.report(lease, Outcome::Success).unwrap();
        }
        world.succeed_all_offered();
        assert_eq!(world.offered()[0].1.step.0, 1, "the other node goes on");
        if !settled_first {
            world.report(lease, Outcome::Success).unwrap();
        }
        world.finish_all();
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Success);
        for step in [1, 2] {
            let said = reason(&world, job, step, 1);
            assert_eq!(said, "excluded: the outcome of a step on this node was unknown at the time");
        }
    }
}

#[test]
fn w8_a_node_on_which_a_step_failed_is_said_to_have_failed() {
    let (mut world, job, lease) = one_unknown(vec![record(), record()]);
    world.report(lease, Outcome::Failed).unwrap();
    world.finish_all();
    assert_eq!(reason(&world, job, 1, 1), "excluded: a step failed on this node");
}

#[test]
fn w8_a_pipeline_and_conditions_say_that_the_outcome_was_unknown() {
    let on_success = when(Condition::OnSuccess, record());
    let healthy = Phase { nodes: Some(PhaseNodes::Healthy), ..cleanup(vec![echo()]) };
    let (mut world, job, lease) = one_unknown(vec![pipeline(vec![record(), record()]), on_success, healthy]);
    world.finish_all();
    let _settled = world.report(lease, Outcome::Success);
    assert_eq!(
        reason(&world, job, 1, 1),
        "the outcome of an earlier step of the pipeline on this node was unknown at the time"
    );
    assert_eq!(reason(&world, job, 2, 2), "condition on_success: the outcome of a step was unknown at the time");
    assert_eq!(reason(&world, job, 3, 1), "nodes: healthy; the outcome of a step on this node was unknown at the time");
}

/// Whether a step is wanted is decided when the node gets there, not before each attempt.
#[test]
fn w8_a_clean_up_that_has_begun_is_tried_again_although_the_journal_says_that_nothing_failed() {
    for is_restored in [false, true] {
        let mut world = World::with_nodes(1);
        let job =
            world.submit("all", vec![record(), cleanup(vec![when(Condition::OnFailure, retrying("ping", "echo", 2))])]);
        let lease = world.offered()[0];
        world.report(lease, Outcome::Unknown).unwrap();
        let attempt = world.offered()[0];
        if is_restored {
            world.restore(1);
            world.return_whole(1, &[job], &[(attempt, None)]);
            world.confirm(job, None).unwrap();
        }
        world.report(lease, Outcome::Success).unwrap();
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Success);
        world.fail(attempt);
        world.advance_ms(2_000);
        let offered: Vec<_> = world.offered().iter().map(|(_, lease)| (lease.step.0, lease.attempt.0)).collect();
        assert_eq!(offered, [(1, 2)], "restored: {is_restored}");
    }
}
