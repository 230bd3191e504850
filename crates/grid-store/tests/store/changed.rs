//! What earlier runs changed on a node, as a resumed job has to know it (`condition: on_changed`).

use grid_core::{Bits, Command};
use grid_store::{RerunOn, Resumable};
use grid_types::job::{Condition, Phase, Task};
use grid_types::node::NodeStatus;
use grid_types::{Detail, JobId, Outcome, StepIndex};

use crate::world::{World, named, pipeline, task};

fn restart() -> Task {
    Task { condition: Condition::OnChanged, ..task("ping", "echo") }
}

fn restarting(first: Task) -> Phase {
    pipeline(vec![first, restart()])
}

/// The first offered lease ends.
fn report(world: &mut World, outcome: Outcome, changed: Option<bool>) {
    let mut command = world.result_command(world.offered()[0], outcome, b"");
    if let Command::RecordResult(result) = &mut command {
        result.detail = Detail { changed, ..Detail::default() }.known();
    }
    world.one(command).unwrap();
}

fn resumable(world: &mut World, job: JobId) -> Resumable {
    world.store();
    world.reader().resumable(&named("default", job), RerunOn::AllNodes, 0).unwrap().unwrap()
}

fn first_step(positions: &[usize]) -> Vec<(StepIndex, Bits)> {
    let mut bits = Bits::default();
    positions.iter().for_each(|position| bits.set(*position));
    if positions.is_empty() { Vec::new() } else { vec![(StepIndex(0), bits)] }
}

#[test]
fn j8_an_attempt_that_did_not_succeed_may_have_changed_something() {
    for (action, outcome, said, wanted) in [
        ("succeed", Outcome::Failed, None, &[0][..]),
        ("succeed", Outcome::Failed, Some(false), &[0]),
        ("succeed", Outcome::Unknown, None, &[0]),
        ("echo", Outcome::Failed, None, &[]),
        ("succeed", Outcome::Success, Some(true), &[]),
    ] {
        let mut world = World::with_nodes(1);
        let backend = if action == "echo" { "ping" } else { "test" };
        let job = world.submit("all", vec![restarting(task(backend, action))]);
        report(&mut world, outcome, said);
        if outcome == Outcome::Success {
            report(&mut world, Outcome::Failed, None);
        }
        let found = resumable(&mut world, job);
        assert_eq!(Vec::from_iter(found.changed), first_step(wanted), "{action} {outcome} {said:?}");
    }
}

#[test]
fn j8_a_cancelled_once_lease_that_never_started_changed_nothing() {
    for (ended, wanted) in [(None, &[][..]), (Some(Outcome::Cancelled), &[0])] {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![restarting(task("test", "record"))]);
        let lease = world.offered()[0];
        world.cancel(job).unwrap();
        world.one(world.confirm_command(lease, ended)).unwrap();
        assert_eq!(Vec::from_iter(resumable(&mut world, job).changed), first_step(wanted), "{ended:?}");
    }
}

#[test]
fn j8_a_clean_up_that_changed_something_is_remembered() {
    for (said, wanted) in [(Some(true), &[0][..]), (None, &[0]), (Some(false), &[])] {
        let mut world = World::with_nodes(1);
        let tidy = Phase { condition: Condition::OnFailure, ..restarting(task("test", "succeed")) };
        let job = world.submit("all", vec![pipeline(vec![task("ping", "echo")]), tidy]);
        report(&mut world, Outcome::Failed, None);
        report(&mut world, Outcome::Success, said);
        if !world.offered().is_empty() {
            report(&mut world, Outcome::Failed, None);
        }
        let found = resumable(&mut world, job);
        let at: Vec<_> = found.changed.into_iter().map(|(step, bits)| (StepIndex(step.0 - 1), bits)).collect();
        assert_eq!(at, first_step(wanted), "{said:?}");
    }
}

/// Run 1 skips both steps, because the node drains; run 2 runs the first one.
#[test]
fn j8_a_step_that_was_unchanged_counts_until_its_pipeline_runs_again() {
    let mut world = World::with_nodes(1);
    let node = world.state.nodes.keys().copied().next().unwrap();
    world.one(world.mark_command(node, NodeStatus::Unhealthy)).unwrap();
    let job = world.submit("all", vec![restarting(task("test", "succeed"))]);
    let found = resumable(&mut world, job);
    assert_eq!(found.unchanged.keys().copied().collect::<Vec<_>>(), [StepIndex(1)]);
    world.one(world.register_command("node-1", "journal-1", 2, true)).unwrap();
    crate::runs::rerun(&mut world, job, RerunOn::AllNodes);
    report(&mut world, Outcome::Success, Some(true));
    world.cancel(job).unwrap();
    let lease = world.leases().1[0];
    world.one(world.confirm_command(lease, None)).unwrap();
    let found = resumable(&mut world, job);
    assert!(found.unchanged.is_empty(), "{:?}", found.unchanged);
}
