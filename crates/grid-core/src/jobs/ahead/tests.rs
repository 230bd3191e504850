//! E2: what a journal knows of steps behind an open barrier is kept, shown and never undone by a trip.

use grid_types::job::{Condition, OnUnknown, Phase, Tolerance};
use grid_types::{Attempt, JobEpoch, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, StepIndex};

use crate::commands::{Answer, Reply};
use crate::world::{Lease, World, confirmed, leaf, pipeline, retrying, when};

fn echo() -> Phase {
    leaf("ping", "echo")
}

fn once() -> Phase {
    leaf("test", "record")
}

fn named(node: u32, job: JobId, step: u32) -> Lease {
    (NodeOrd(node), LeaseKey { job, job_epoch: JobEpoch(1), step: StepIndex(step), attempt: Attempt(1) })
}

fn said(world: &World, job: JobId) -> String {
    crate::why(&world.state, world.job(job), 0)
}

const SUCCESS: Option<Outcome> = Some(Outcome::Success);

/// Two nodes; `node-1` is whole and runs a later step, `node-2` has lost its journal. Restored in step 0.
fn torn(phases: Vec<Phase>, ended: &[u32], runs: u32) -> (World, JobId) {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", phases);
    world.restore(1);
    let mut journal: Vec<_> = ended.iter().map(|step| (named(1, job, *step), SUCCESS)).collect();
    journal.push((named(1, job, runs), None));
    world.return_whole(1, &[job], &journal);
    world.come_back_as(2, b"lost", b"restarted");
    world.report_journal(2, &[job], &[]).unwrap();
    (world, job)
}

#[test]
fn e2_a_later_step_that_runs_behind_an_open_barrier_is_shown_while_the_job_is_held() {
    let (world, job) = torn(vec![once(), echo(), once()], &[0, 1], 2);
    assert_eq!((world.count(job, 1, Outcome::Success), world.count(job, 2, Outcome::Running)), (1, 1));
    assert!(said(&world, job).contains("step 2 still runs on node-1; "), "{}", said(&world, job));
    let doubts: Vec<_> = world.state.doubts(world.job(job)).iter().map(|d| (d.step.0, d.node.0)).collect();
    assert_eq!(doubts, [(0, 2), (2, 2)], "of node-2 only");
}

#[test]
fn e2_a_trip_elsewhere_neither_revokes_nor_skips_a_later_step_that_runs() {
    let (mut world, job) = torn(vec![once(), echo(), once(), echo()], &[0, 1], 2);
    world.confirm(job, None).unwrap();
    assert_eq!((world.status(job), world.revoked()), (JobStatus::Running, vec![]));
    assert_eq!(said(&world, job), "step 2 runs on node-1");
    assert_eq!(world.offered(), [named(1, job, 2)], "nothing else");
    let answer = world.report(named(1, job, 2), Outcome::Success);
    assert_eq!(answer, Ok(Reply::Answered(Answer::Committed)));
    assert_eq!(world.status(job), JobStatus::Failed);
    let rows = world.rows_of(job);
    let outcomes = |node| [0, 1, 2, 3].map(|step| rows[&(step, node)]);
    assert_eq!(outcomes(1), [Outcome::Success, Outcome::Success, Outcome::Success, Outcome::Skipped]);
    assert_eq!(outcomes(2), [Outcome::Unknown, Outcome::Skipped, Outcome::Skipped, Outcome::Skipped]);
}

#[test]
fn e2_a_clean_up_waits_for_a_later_step_that_runs() {
    for cleanup_first in [false, true] {
        let cleanup = when(Condition::OnFailure, leaf("test", "succeed"));
        let (phases, runs) =
            if cleanup_first { (vec![once(), cleanup, once()], 2) } else { (vec![once(), once(), cleanup], 1) };
        let (mut world, job) = torn(phases, &[0], runs);
        world.confirm(job, None).unwrap();
        let on_first = |world: &World| world.offered().into_iter().filter(|(node, _)| node.0 == 1).collect::<Vec<_>>();
        assert_eq!(on_first(&world), [named(1, job, runs)], "W7: one lease of a job at a node");
        world.succeed(named(1, job, runs));
        world.finish_all();
        assert_eq!(world.status(job), JobStatus::Failed);
        assert_eq!(
            (world.rows_of(job)[&(runs, 1)], world.rows_of(job)[&(3 - runs, 1)]),
            (Outcome::Success, Outcome::Success)
        );
    }
}

#[test]
fn e2_a_later_step_that_ends_badly_after_the_trip_is_recorded_as_it_ended() {
    for outcome in [Outcome::Failed, Outcome::TimedOut, Outcome::Unknown] {
        let (mut world, job) = torn(vec![once(), retrying("test", "record", 3)], &[0], 1);
        world.confirm(job, None).unwrap();
        world.report(named(1, job, 1), outcome).unwrap();
        assert_eq!((world.status(job), world.rows_of(job)[&(1, 1)]), (JobStatus::Failed, outcome), "no retry (J1)");
    }
    let (mut world, job) = torn(vec![once(), once()], &[0], 1);
    world.confirm(job, None).unwrap();
    world.mark_dead(1);
    assert_eq!((world.status(job), world.rows_of(job)[&(1, 1)]), (JobStatus::Failed, Outcome::Unknown));
}

#[test]
fn e2_only_cancel_and_job_timeout_revoke_a_later_step_that_runs() {
    for confirmed in [false, true] {
        let (mut world, job) = torn(vec![pipeline(vec![once(), echo()]), once(), echo()], &[0, 1], 2);
        if confirmed {
            world.confirm(job, None).unwrap();
        }
        world.cancel(job).unwrap();
        assert_eq!(world.revoked(), [named(1, job, 2)]);
        world.confirm_revoked(named(1, job, 2)).unwrap();
        assert!(world.state.stubs.contains_key(&job));
        let rows = world.rows_of(job);
        assert_eq!((rows[&(0, 1)], rows[&(2, 1)]), (Outcome::Success, Outcome::Cancelled));
    }
    let mut world = World::with_nodes(2);
    world.next_timeout("10s");
    let job = world.submit("all", vec![once(), once()]);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0), SUCCESS), (named(1, job, 1), None)]);
    world.return_whole(2, &[job], &[(named(2, job, 0), None)]);
    world.confirm(job, None).unwrap();
    world.advance_ms(10_000);
    assert_eq!(world.revoked(), [named(1, job, 1), named(2, job, 0)]);
    world.confirm_revoked(named(1, job, 1)).unwrap();
    world.confirm_revoked(named(2, job, 0)).unwrap();
    assert_eq!((world.status(job), world.rows_of(job)[&(1, 1)]), (JobStatus::Failed, Outcome::TimedOut));
}

#[test]
fn e2_the_others_catch_up_while_a_later_step_runs() {
    let mut world = World::with_nodes(2);
    world.next_job(|spec| spec.failure_tolerate = Some(Tolerance::Nodes(1)));
    let job = world.submit("all", vec![echo(), echo(), pipeline(vec![once(), echo()])]);
    world.restore(1);
    let journal = [(named(1, job, 0), SUCCESS), (named(1, job, 1), SUCCESS), (named(1, job, 2), None)];
    world.return_whole(1, &[job], &journal);
    world.return_whole(2, &[job], &[]);
    world.confirm(job, None).unwrap();
    for step in [0, 1, 2] {
        assert!(world.offered().contains(&named(2, job, step)), "step {step}");
        world.succeed(named(2, job, step));
    }
    assert_eq!(world.count(job, 2, Outcome::Running), 1, "node-1 still runs it, and is at its place now");
    world.succeed(named(1, job, 2));
    assert!(world.offered().contains(&named(1, job, 3)), "its pipeline goes on");
    world.finish_all();
    assert_eq!((world.status(job), world.total(job, Outcome::Success)), (JobStatus::Completed, 8));
}

#[test]
fn e2_a_failure_after_the_backup_counts_when_the_job_gets_there() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo(), once(), echo()]);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0), SUCCESS), (named(1, job, 1), Some(Outcome::Failed))]);
    assert_eq!(world.count(job, 1, Outcome::Failed), 1, "shown at once");
    world.return_whole(2, &[job], &[]);
    world.confirm(job, None).unwrap();
    assert_eq!(world.offered(), [named(2, job, 0)], "the barrier before it is still open");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    let rows = world.rows_of(job);
    assert_eq!((rows[&(1, 1)], rows[&(1, 2)], rows[&(2, 2)]), (Outcome::Failed, Outcome::Skipped, Outcome::Skipped));
}

#[test]
fn e2_a_trip_waits_for_the_journal_of_a_node_that_is_on_its_way() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![once(), once()]);
    world.restore(1);
    world.come_back_as(2, b"lost", b"restarted");
    world.report_journal(2, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    assert_eq!(world.status(job), JobStatus::Running, "node-1 has yet to say what it knows");
    world.return_whole(1, &[job], &[(named(1, job, 0), SUCCESS), (named(1, job, 1), None)]);
    assert_eq!((world.revoked(), world.offered()), (vec![], vec![named(1, job, 1)]));
    world.succeed(named(1, job, 1));
    assert_eq!((world.status(job), world.rows_of(job)[&(1, 1)]), (JobStatus::Failed, Outcome::Success));
}

#[test]
fn e2_a_later_step_behind_a_gate_is_adopted_and_confirmed_without_a_second_run() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![confirmed(once())]);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0), None)]);
    world.return_whole(2, &[job], &[]);
    assert!(said(&world, job).contains("step 0 still runs on node-1"), "{}", said(&world, job));
    world.confirm_held(job).unwrap();
    world.confirm(job, Some(0)).unwrap();
    assert_eq!(world.offered(), [named(1, job, 0), named(2, job, 0)]);
    world.finish_all();
    assert_eq!((world.status(job), world.total(job, Outcome::Success)), (JobStatus::Completed, 2));
}

#[test]
fn e2_a_pending_job_keeps_what_its_nodes_run_beyond_a_trip() {
    let mut world = World::with_nodes(2);
    world.set_quotas(1, 9);
    world.submit("all", vec![echo()]);
    let job = world.submit("all", vec![once(), once()]);
    world.set_quotas(9, 9);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0), SUCCESS), (named(1, job, 1), None)]);
    world.come_back_as(2, b"lost", b"restarted");
    world.report_journal(2, &[job], &[]).unwrap();
    assert!(said(&world, job).contains("step 1 still runs on node-1"), "{}", said(&world, job));
    world.confirm(job, None).unwrap();
    assert_eq!((world.count(job, 1, Outcome::Running), world.revoked()), (1, vec![]));
    world.succeed(named(1, job, 1));
    assert_eq!((world.status(job), world.rows_of(job)[&(1, 1)]), (JobStatus::Failed, Outcome::Success));
}

#[test]
fn e2_a_second_restore_takes_a_later_step_that_runs_back_into_doubt() {
    let (mut world, job) = torn(vec![once(), once()], &[0], 1);
    world.restore(2);
    assert_eq!(world.count(job, 1, Outcome::Running), 0);
    world.return_whole(1, &[job], &[(named(1, job, 1), None)]);
    assert_eq!(world.count(job, 1, Outcome::Running), 1, "and out of it");
    world.confirm(job, None).unwrap();
    world.restore(3);
    world.come_back_as(1, b"lost too", b"restarted");
    world.report_journal(1, &[job], &[]).unwrap();
    world.come_back_as(2, b"lost", b"restarted");
    world.report_journal(2, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Unknown, "it ran, and nobody can say how it ended");
}

#[test]
fn e2_an_unresolved_step_does_not_keep_a_later_one_from_being_recorded() {
    let mut world = World::with_nodes(2);
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let job = world.submit("all", vec![once(), once()]);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0), SUCCESS), (named(1, job, 1), None)]);
    world.come_back_as(2, b"lost", b"restarted");
    world.report_journal(2, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    world.succeed(named(1, job, 1));
    world.resolve(job, 0, 2, crate::commands::Verdict::Success).unwrap();
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Success);
}

#[test]
fn e2_a_trip_while_a_pending_job_starts_leaves_what_journals_know_of_its_pipeline() {
    let mut world = World::with_nodes(2);
    world.set_quotas(1, 9);
    world.submit("all", vec![echo()]);
    let job = world.submit("all", vec![pipeline(vec![once(), once(), once()])]);
    world.set_quotas(9, 9);
    world.restore(1);
    world.come_back_as(1, b"lost", b"restarted");
    world.report_journal(1, &[job], &[]).unwrap();
    world.return_whole(2, &[job], &[(named(2, job, 0), SUCCESS), (named(2, job, 1), None)]);
    world.confirm(job, None).unwrap();
    assert_eq!((world.count(job, 1, Outcome::Running), world.revoked()), (1, vec![]));
    world.succeed(named(2, job, 1));
    assert_eq!(world.status(job), JobStatus::Failed);
    let rows = world.rows_of(job);
    let outcomes = |node| [0, 1, 2].map(|step| rows[&(step, node)]);
    assert_eq!(outcomes(1), [Outcome::Unknown, Outcome::Skipped, Outcome::Skipped]);
    assert_eq!(outcomes(2), [Outcome::Success, Outcome::Success, Outcome::Skipped]);
}
