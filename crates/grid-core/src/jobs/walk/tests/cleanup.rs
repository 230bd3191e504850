//! J9: where a top-level `on_failure` phase runs.

use grid_types::job::{Condition, Offline, PhaseNodes};
use grid_types::{JobId, JobStatus, Outcome};

use super::echo;
use crate::world::{World, cleanup, confirmed, when};

fn nodes_of_step(world: &World, step: u32) -> Vec<u32> {
    world.offered().iter().filter(|(_, lease)| lease.step.0 == step).map(|(node, _)| node.0).collect()
}

fn on(nodes: PhaseNodes, phase: grid_types::job::Phase) -> grid_types::job::Phase {
    grid_types::job::Phase { nodes: Some(nodes), ..phase }
}

/// Three nodes, `continue`; the first one fails the first phase.
fn one_of_three_failed(phases: Vec<grid_types::job::Phase>) -> (World, JobId) {
    let mut world = World::with_nodes(3);
    world.next_strategy_continue();
    let job = world.submit("all", phases);
    let leases = world.offered();
    world.fail(leases[0]);
    world.succeed(leases[1]);
    world.succeed(leases[2]);
    (world, job)
}

#[test]
fn j9_tolerated_failures_are_cleaned_up_where_they_happened() {
    let (mut world, job) = one_of_three_failed(vec![echo(), cleanup(vec![echo()])]);
    assert_eq!(nodes_of_step(&world, 1), [1], "the healthy nodes are left alone");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    let rows = world.rows_of(job);
    assert_eq!((rows[&(1, 1)], rows[&(1, 2)], rows[&(1, 3)]), (Outcome::Success, Outcome::Skipped, Outcome::Skipped));
}

#[test]
fn j9_nodes_decides_where_it_runs() {
    for (nodes, expected) in
        [(PhaseNodes::Failed, vec![1]), (PhaseNodes::Healthy, vec![2, 3]), (PhaseNodes::All, vec![1, 2, 3])]
    {
        let (mut world, job) = one_of_three_failed(vec![echo(), on(nodes, cleanup(vec![echo()]))]);
        assert_eq!(nodes_of_step(&world, 1), expected, "{nodes:?}");
        world.finish_all();
        assert_eq!(world.status(job), JobStatus::Completed, "{nodes:?}: {}", world.reason(job));
    }
}

#[test]
fn j9_nodes_decides_after_a_trip_too() {
    for (nodes, expected) in
        [(None, vec![1, 2]), (Some(PhaseNodes::Failed), vec![1]), (Some(PhaseNodes::Healthy), vec![2])]
    {
        let mut world = World::with_nodes(2);
        let clean_up = grid_types::job::Phase { nodes, ..cleanup(vec![echo()]) };
        let job = world.submit("all", vec![echo(), clean_up]);
        let leases = world.offered();
        world.fail(leases[0]);
        world.succeed(leases[1]);
        assert_eq!(nodes_of_step(&world, 1), expected, "{nodes:?}");
        world.finish_all();
        assert_eq!(world.status(job), JobStatus::Failed);
    }
}

#[test]
fn j9_if_none_failed_but_a_phase_reached_nobody_it_runs_on_all() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo(), echo(), confirmed(when(Condition::OnFailure, echo()))]);
    let leases = world.offered();
    world.drain(1);
    world.drain(2);
    world.succeed(leases[0]);
    world.succeed(leases[1]);
    assert!(world.offered().is_empty(), "both are offline when the second phase begins; the clean-up is at its gate");
    for node in [1, 2] {
        world.register(&format!("node-{node}"), format!("journal-{node}").as_bytes(), 2, b"again", false).unwrap();
    }
    world.confirm(job, None).unwrap();
    assert_eq!(nodes_of_step(&world, 2), [1, 2]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.reason(job), "no node was left or reachable for step 1; 2 nodes were offline and skipped");
}

#[test]
fn j9_a_clean_up_that_reaches_nobody_does_not_fail_the_job() {
    let (mut world, job) = one_of_three_failed(vec![echo(), on(PhaseNodes::Failed, cleanup(vec![echo()]))]);
    world.leave(1);
    assert_eq!(world.status(job), JobStatus::Completed, "{}", world.reason(job));
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Skipped);
}

#[test]
fn j9_no_node_that_fits_is_no_failure_and_no_gate() {
    let mut world = World::with_nodes(2);
    world.next_job(|spec| spec.failure_tolerate = Some(grid_types::job::Tolerance::Nodes(1)));
    let clean_up = on(PhaseNodes::Healthy, confirmed(cleanup(vec![echo()])));
    let job = world.submit("all", vec![echo(), clean_up]);
    for lease in world.offered() {
        world.fail(lease);
    }
    assert_eq!(world.status(job), JobStatus::Failed, "it tripped; nobody healthy is left to be asked about");
}

#[test]
fn j9_a_clean_up_waits_for_no_offline_node() {
    let mut world = World::with_nodes(2);
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![echo(), cleanup(vec![echo()])]);
    let leases = world.offered();
    world.succeed(leases[1]);
    world.drain(2);
    world.fail(leases[0]);
    assert_eq!(nodes_of_step(&world, 1), [1]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed, "it does not wait for node 2");
    assert_eq!(world.rows_of(job)[&(1, 2)], Outcome::Skipped);
}

/// The clean-up's own success is no reason to call a job done that did nothing else.
#[test]
fn j9_a_job_that_only_cleaned_up_has_failed() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    world.drain(2);
    let job = world.submit("all", vec![echo(), cleanup(vec![echo()])]);
    world.fail(world.offered()[0]);
    assert_eq!(nodes_of_step(&world, 1), [1]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.reason(job), "no node is left: the others were offline; 1 node was offline and skipped");
}
