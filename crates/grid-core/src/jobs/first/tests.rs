use crate::changes::History;
use crate::commands::Rejection;
use crate::jobs::why;
use crate::world::{World, confirmed, first, leaf, pipeline, rolling, when};
use grid_types::job::{Condition, Offline, Strategy, Tolerance};
use grid_types::{Event, JobStatus, Outcome};

fn offered(world: &World) -> Vec<u32> {
    let mut nodes: Vec<_> = world.offered().iter().map(|(node, _)| node.0).collect();
    nodes.sort_unstable();
    nodes
}

fn reason(world: &World, job: grid_types::JobId) -> String {
    why(&world.state, &world.state.jobs[&job], 0)
}

#[test]
fn j13_the_first_nodes_run_a_phase_and_the_others_after_a_confirmation() {
    let mut world = World::with_nodes(4);
    let job = world.submit("all", vec![first(1, pipeline(vec![leaf("ping", "echo"), leaf("ping", "hostname")]))]);
    assert_eq!(offered(&world), [1]);
    assert!(reason(&world, job).starts_with("step 0 runs on node-1"), "{}", reason(&world, job));
    let early = world.confirm(job, None);
    assert!(matches!(early, Err(Rejection::NotWaiting(_))), "{early:?}");
    world.succeed_all_offered();
    assert_eq!(offered(&world), [1], "the whole pipeline");
    world.succeed_all_offered();
    assert!(offered(&world).is_empty());
    assert_eq!(world.state.waiting_jobs(), 1, "J3: it holds no place while it waits for an operator");
    let said =
        format!("phase 0 has run on its first 1 node; 3 more are waiting for confirmation: gridc job confirm {job}");
    assert_eq!(reason(&world, job), said);
    assert!(matches!(world.confirm(job, Some(1)), Err(Rejection::NotWaiting(_))), "another phase");
    world.confirm(job, Some(0)).unwrap();
    assert_eq!(offered(&world), [2, 3, 4]);
    let twice = world.confirm(job, None);
    assert!(matches!(twice, Err(Rejection::NotWaiting(_))), "once: {twice:?}");
    world.finish_all();
    assert_eq!(world.job(job).head.status, JobStatus::Completed);
}

#[test]
fn j13_a_failed_canary_stops_the_job_and_the_others_run_nothing() {
    let mut world = World::with_nodes(3);
    let cleanup = when(Condition::OnFailure, leaf("ping", "echo"));
    let job = world.submit("all", vec![first(1, leaf("ping", "echo")), cleanup]);
    world.offered().into_iter().for_each(|lease| world.fail(lease));
    assert_eq!(world.count(job, 0, Outcome::Skipped), 2);
    assert_eq!(offered(&world), [1, 2, 3], "clean-up waits for nobody");
    world.succeed_all_offered();
    assert_eq!(world.job(job).head.status, JobStatus::Failed);
}

#[test]
fn j13_a_tolerated_failure_is_shown_to_a_person() {
    let mut world = World::with_nodes(3);
    world.next_job(|spec| {
        spec.strategy = Strategy::Continue;
        spec.failure_tolerate = Some(Tolerance::Nodes(2));
    });
    let job = world.submit("all", vec![first(1, leaf("ping", "echo"))]);
    world.offered().into_iter().for_each(|lease| world.fail(lease));
    assert!(reason(&world, job).contains("waiting for confirmation"), "{}", reason(&world, job));
    world.cancel(job).unwrap();
    assert_eq!(world.job(job).head.status, JobStatus::Cancelled);
}

#[test]
fn j13_online_nodes_go_first_and_a_window_still_holds() {
    let mut world = World::with_nodes(5);
    world.leave(1);
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![rolling(1, first(2, leaf("ping", "echo")))]);
    assert_eq!(offered(&world), [2], "node-1 is away, and one node at a time");
    world.succeed_all_offered();
    assert_eq!(offered(&world), [3]);
    world.succeed_all_offered();
    assert!(offered(&world).is_empty());
    world.confirm(job, None).unwrap();
    assert_eq!(offered(&world), [4]);
}

#[test]
fn j13_nobody_is_asked_where_nobody_would_follow() {
    let mut world = World::with_nodes(2);
    world.submit("all", vec![first(2, leaf("ping", "echo"))]);
    assert_eq!(offered(&world), [1, 2]);
    world.finish_all();
    // One that is gone is passed over when its turn comes, as without `first`.
    let job = world.submit("all", vec![first(1, leaf("ping", "echo"))]);
    world.remove(2, true).unwrap();
    world.succeed_all_offered();
    world.confirm(job, None).unwrap();
    assert_eq!(world.job(job).head.status, JobStatus::Completed);
    assert_eq!(world.count(job, 0, Outcome::Skipped), 1);
}

#[test]
fn j13_every_phase_and_every_run_begins_with_its_first_nodes() {
    let mut world = World::with_nodes(3);
    world.next_job(|spec| spec.first = Some(grid_types::job::Concurrency::Nodes(1)));
    let job = world.submit("all", vec![leaf("ping", "echo"), confirmed(leaf("ping", "echo"))]);
    world.succeed_all_offered();
    world.confirm(job, None).unwrap();
    assert_eq!(offered(&world), [2, 3]);
    world.succeed_all_offered();
    assert!(offered(&world).is_empty(), "phase 1 has a gate of its own");
    world.confirm(job, Some(1)).unwrap();
    assert_eq!(offered(&world), [1]);
    world.offered().into_iter().for_each(|lease| world.fail(lease));
    assert_eq!(world.job(job).head.status, JobStatus::Failed);
    let resume = world.resume_command(job);
    world.one(resume).unwrap();
    world.confirm(job, Some(1)).unwrap();
    assert_eq!(offered(&world), [1], "what failed goes first again");
    world.succeed_all_offered();
    assert!(world.confirm(job, Some(1)).is_err(), "the same request again means the gate, not the other nodes");
    assert!(offered(&world).is_empty());
    world.confirm(job, None).unwrap();
    world.finish_all();
    assert_eq!(world.job(job).head.status, JobStatus::Completed);
}

#[test]
fn j13_a_wait_for_the_others_is_an_event_and_stops_the_deadline() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![first(1, leaf("ping", "echo"))]);
    world.succeed_all_offered();
    let is_asked =
        |row: &History| matches!(row, History::Event(row) if row.event == Event::ConfirmationWanted { phase: 0 });
    assert!(world.history.iter().any(is_asked));
    world.advance_ms(48 * 3600 * 1000);
    assert_eq!(world.status(job), JobStatus::Running, "J3");
    world.confirm(job, None).unwrap();
    world.finish_all();
    assert_eq!(world.job(job).head.status, JobStatus::Completed);
}
