//! J10: a node is not left half-way in an atomic pipeline.

use grid_types::job::{OnUnknown, Phase};
use grid_types::node::NodeStatus;
use grid_types::{JobStatus, Outcome};

use super::echo;
use crate::effect::Effect;
use crate::world::{World, cleanup, leaf, pipeline, retrying, rolling};

fn atomic(phases: Vec<Phase>) -> Phase {
    Phase { atomic: true, ..pipeline(phases) }
}

/// What is offered, as (node, step).
fn places(world: &World) -> Vec<(u32, u32)> {
    world.offered().iter().map(|(node, lease)| (node.0, lease.step.0)).collect()
}

#[test]
fn j10_a_node_that_has_begun_is_walked_to_its_end_after_fail_fast() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![atomic(vec![echo(), echo(), echo()]), echo(), cleanup(vec![echo()])]);
    let leases = world.offered();
    world.fail(leases[0]);
    world.succeed(leases[1]);
    assert_eq!(places(&world), [(2, 1)], "the other node goes on");
    world.succeed_all_offered();
    assert_eq!(places(&world), [(2, 2)]);
    world.succeed_all_offered();
    assert_eq!(places(&world), [(1, 4), (2, 4)], "the clean-up waited for it, the next phase is skipped");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    let rows = world.rows_of(job);
    assert!((0..3).all(|step| rows[&(step, 2)] == Outcome::Success));
    assert_eq!((rows[&(1, 1)], rows[&(3, 2)]), (Outcome::Skipped, Outcome::Skipped));
}

#[test]
fn j10_without_atomic_running_steps_finish_and_pipelines_stop() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![echo(), echo()])]);
    let leases = world.offered();
    world.fail(leases[0]);
    world.succeed(leases[1]);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.rows_of(job)[&(1, 2)], Outcome::Skipped);
}

#[test]
fn j10_nodes_that_have_not_begun_are_skipped() {
    let mut world = World::with_nodes(3);
    let job = world.submit("all", vec![rolling(2, atomic(vec![echo(), echo()]))]);
    let leases = world.offered();
    assert_eq!(places(&world), [(1, 0), (2, 0)]);
    world.fail(leases[0]);
    world.succeed(leases[1]);
    assert_eq!(places(&world), [(2, 1)], "the third node is not let in");
    world.finish_all();
    let rows = world.rows_of(job);
    assert_eq!((rows[&(0, 3)], rows[&(1, 3)]), (Outcome::Skipped, Outcome::Skipped));
}

#[test]
fn j10_retries_and_waits_go_on_and_failures_count() {
    let mut world = World::with_nodes(3);
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let job = world.submit("all", vec![atomic(vec![retrying("ping", "echo", 1), echo()])]);
    let leases = world.offered();
    // The second waits for its retry, the third for an operator, when the first trips the job.
    world.fail(leases[1]);
    world.report(leases[2], Outcome::Unknown).unwrap();
    world.fail(leases[0]);
    world.advance_ms(1_500);
    let retries = world.offered();
    assert_eq!(retries.len(), 2, "the first trips only when its retry has failed");
    world.fail(retries[0]);
    assert_eq!(world.job(job).head.failed.len(), 1);
    assert_eq!(world.status(job), JobStatus::Running);
    assert_eq!(world.count(job, 0, Outcome::Unknown), 1, "it still waits for an operator");
    world.fail(retries[1]);
    assert_eq!(world.job(job).head.failed.len(), 2, "its failure counts");
    world.resolve(job, 0, 3, crate::commands::Verdict::Success).unwrap();
    assert_eq!(places(&world), [(3, 1)]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn j10_a_node_that_is_away_is_still_waited_for() {
    let mut world = World::with_nodes(2);
    world.next_job(|spec| spec.offline = grid_types::job::Offline::Wait);
    let job = world.submit("all", vec![atomic(vec![echo(), echo()])]);
    let leases = world.offered();
    world.drain(2);
    world.succeed(leases[1]);
    world.fail(leases[0]);
    assert_eq!(world.status(job), JobStatus::Running, "node 2 is half-way and away");
    world.register("node-2", b"journal-2", 2, b"again", false).unwrap();
    assert_eq!(places(&world), [(2, 1)]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn j10_cancel_and_job_timeout_still_end_it() {
    for by_timeout in [true, false] {
        let mut world = World::with_nodes(2);
        world.next_timeout("10s");
        let job = world.submit("all", vec![atomic(vec![echo(), echo()])]);
        let leases = world.offered();
        world.fail(leases[0]);
        world.succeed(leases[1]);
        let lease = world.offered()[0];
        let effects = if by_timeout { world.advance_ms(10_000) } else { world.cancel_effects(job) };
        assert!(effects.iter().any(|e| matches!(e, Effect::Revoke { node, .. } if *node == lease.0)), "{effects:?}");
        world.confirm_revoked(lease).unwrap();
        let expected = if by_timeout { Outcome::TimedOut } else { Outcome::Cancelled };
        assert_eq!(world.rows_of(job)[&(1, 2)], expected);
        assert!(world.offered().is_empty());
    }
}

#[test]
fn j10_a_restart_in_the_middle_of_it_changes_nothing() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![atomic(vec![retrying("test", "fail", 2), leaf("test", "succeed")])]);
    let leases = world.offered();
    world.fail(leases[1]);
    world.mark(1, world.session(1), NodeStatus::Ready, NodeStatus::Warning).unwrap();
    world.mark_dead(1);
    assert_eq!(world.status(job), JobStatus::Running);
    let again = crate::state::State::from_parts(world.state.to_parts()).unwrap();
    assert_eq!(again, world.state);
    world.advance_ms(1_500);
    assert_eq!(places(&world), [(2, 0)]);
}
