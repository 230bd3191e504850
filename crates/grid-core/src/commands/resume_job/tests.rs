//! `resume` and `retry`: exactly what is missing runs, where it is wanted.

use crate::commands::Rejection;
use crate::world::{Lease, World, cleanup, confirmed, leaf, pipeline};
use grid_types::limits::MAX_RUNS;
use grid_types::{JobStatus, Outcome, RunKind};

fn echo() -> grid_types::job::Phase {
    leaf("ping", "echo")
}

#[test]
fn a_resumed_job_runs_only_what_is_missing() {
    let mut world = World::with_nodes(3);
    let job = world.submit("all", vec![pipeline(vec![echo(), echo()]), echo(), cleanup(vec![echo()])]);
    let first = world.offered();
    world.succeed(first[0]);
    world.fail(first[1]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    world.resume(job).unwrap();
    let again: Vec<_> = world.offered().iter().map(|(node, lease)| (node.0, lease.step.0, lease.job_epoch.0)).collect();
    assert_eq!(again, [(2, 0, 2), (3, 1, 2)], "each goes on where it was, under a new epoch");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    let rows = world.rows_of(job);
    assert!((0..3).all(|step| (1..=3).all(|node| rows[&(step, node)] == Outcome::Success)), "{rows:?}");
    assert!((1..=3).all(|node| rows[&(3, node)] == Outcome::Skipped), "nothing failed in this run");
}

#[test]
fn interrupted_and_resumed_equals_one_uninterrupted_run() {
    for cut in 0..9 {
        let mut world = World::with_nodes(3);
        let job = world.submit("all", vec![echo(), pipeline(vec![echo(), echo()])]);
        for _ in 0..cut {
            let Some(lease) = world.offered().first().copied() else { break };
            world.succeed(lease);
        }
        if world.cancel(job).is_ok() {
            for lease in world.revoked() {
                world.confirm_revoked(lease).unwrap();
            }
            world.resume(job).unwrap();
        }
        world.finish_all();
        assert_eq!(world.status(job), JobStatus::Completed, "cut at {cut}");
        let rows = world.rows_of(job);
        assert_eq!((rows.len(), rows.values().all(|o| *o == Outcome::Success)), (9, true), "cut at {cut}");
        let ran = world.results_of(job).iter().filter(|row| row.outcome == Outcome::Success).count();
        assert_eq!(ran, 9, "nothing that had succeeded ran again; cut at {cut}");
    }
}

#[test]
fn only_an_ended_job_that_has_not_moved_is_resumed() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![echo()]);
    assert!(matches!(world.resume(job), Err(Rejection::NotWaiting(_))), "it runs");
    world.fail(world.offered()[0]);
    let stale = world.resume_command(job);
    world.resume(job).unwrap();
    world.fail(world.offered()[0]);
    let replayed = world.apply(vec![stale]).replies.remove(0);
    assert!(matches!(replayed, Err(Rejection::NotWaiting(_))), "{replayed:?}");
    assert!(world.resume(job).is_ok());
    assert_eq!(world.job(job).head.epoch.0, 3);
}

#[test]
fn a_resumed_job_waits_its_turn() {
    let mut world = World::with_nodes(1);
    world.set_quotas(1, 1);
    let job = world.submit("all", vec![echo()]);
    world.fail(world.offered()[0]);
    let other = world.submit("all", vec![echo()]);
    world.resume(job).unwrap();
    assert_eq!(world.status(job), JobStatus::Pending);
    let refused = world.submit_keyed("all", vec![echo()], None);
    assert!(matches!(refused, Err(Rejection::QueueFull { .. })));
    world.finish_all();
    assert_eq!((world.status(job), world.status(other)), (JobStatus::Completed, JobStatus::Completed));
}

#[test]
fn i9_a_resumed_job_that_is_cancelled_while_it_waits_has_every_outcome() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo(), echo()]);
    let first = world.offered();
    world.succeed(first[0]);
    world.fail(first[1]);
    world.set_quotas(0, 5);
    world.resume(job).unwrap();
    world.cancel(job).unwrap();
    let rows = world.rows_of(job);
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert_eq!((rows[&(0, 1)], rows[&(0, 2)]), (Outcome::Success, Outcome::Skipped), "{rows:?}");
}

#[test]
fn i3_an_unknown_of_the_second_run_is_not_settled_by_the_first() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![leaf("test", "record"), echo()]);
    let first = world.offered();
    world.report(first[0], Outcome::Unknown).unwrap();
    world.fail(first[1]);
    world.resume(job).unwrap();
    let second = world.offered();
    world.report(second[0], Outcome::Unknown).unwrap();
    let before = world.state.hash();
    world.report(first[0], Outcome::Success).unwrap();
    assert_eq!(world.state.hash(), before, "the same step, node and attempt, but another run");
}

#[test]
fn i3_results_of_the_first_run_change_nothing_in_the_second() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo()]);
    let first = world.offered();
    world.fail(first[0]);
    world.succeed(first[1]);
    world.resume(job).unwrap();
    let before = world.state.hash();
    world.report(first[0], Outcome::Success).unwrap();
    assert_eq!(world.state.hash(), before);
}

/// As `node:step`.
fn offered(world: &World) -> Vec<String> {
    world.offered().iter().map(|(node, lease)| format!("{node}:{}", lease.step)).collect()
}

fn of_node(world: &World, node: u32) -> Lease {
    world.offered().into_iter().find(|(ord, _)| ord.0 == node).unwrap()
}

#[test]
fn a_retry_runs_everything_that_failed_nodes_miss_and_nothing_else() {
    let mut world = World::with_nodes(3);
    world.next_strategy_continue();
    let job = world.submit("all", vec![pipeline(vec![echo(), echo()]), echo()]);
    world.fail(of_node(&world, 2));
    world.finish_all();
    assert_eq!((world.status(job), world.rows_of(job)[&(2, 2)]), (JobStatus::Completed, Outcome::Skipped));
    world.retry(job).unwrap();
    let mut ran = Vec::new();
    while let Some(lease) = world.offered().first().copied() {
        ran.push((lease.0.0, lease.1.step.0, lease.1.job_epoch.0));
        world.succeed(lease);
    }
    assert_eq!(ran, [(2, 0, 2), (2, 1, 2), (2, 2, 2)], "also what was skipped because of the failure");
    assert_eq!((world.status(job), world.reason(job)), (JobStatus::Completed, String::new()));
    assert!(world.rows_of(job).values().all(|outcome| *outcome == Outcome::Success));
}

#[test]
fn a_retry_leaves_the_others_alone_and_says_what_they_miss() {
    let mut world = World::with_nodes(3);
    let job = world.submit("all", vec![echo(), echo()]);
    world.fail(of_node(&world, 2));
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed, "fail-fast: nobody has reached step 1");
    world.retry(job).unwrap();
    assert_eq!(offered(&world), ["2:0"]);
    world.finish_all();
    let said = format!("the retry is done; 2 other nodes still miss parts: gridc job resume {job}");
    assert_eq!((world.status(job), world.reason(job)), (JobStatus::Failed, said));
    let rows = world.rows_of(job);
    assert_eq!((rows[&(0, 2)], rows[&(1, 2)], rows[&(1, 1)]), (Outcome::Success, Outcome::Success, Outcome::Skipped));
    world.resume(job).unwrap();
    assert_eq!(offered(&world), ["1:1", "3:1"]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn a_retry_that_fails_again_says_both() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo(), echo(), cleanup(vec![echo()])]);
    world.fail(of_node(&world, 1));
    world.finish_all();
    world.retry(job).unwrap();
    world.fail(of_node(&world, 1));
    assert_eq!(offered(&world), ["1:2"], "the clean-up, and only where this run was");
    world.finish_all();
    let reason = world.reason(job);
    assert!(reason.starts_with("step 0 failed on node-1 (fail-fast); 1 other node still misses parts"), "{reason}");
}

#[test]
fn under_continue_a_node_that_fails_again_is_tolerated_as_before() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![echo(), echo()]);
    world.fail(of_node(&world, 1));
    world.finish_all();
    let before = (world.status(job), world.reason(job));
    world.retry(job).unwrap();
    world.fail(of_node(&world, 1));
    assert_eq!((world.status(job), world.reason(job)), before, "as a resumed run would end");
}

#[test]
fn what_was_to_be_retried_and_is_offline_is_not_done() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![echo()]);
    world.fail(of_node(&world, 1));
    world.finish_all();
    world.leave(1);
    world.retry(job).unwrap();
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.reason(job), "nodes that were to be retried were offline; 1 node was offline and skipped");
    world.register("node-1", b"journal-1", 2, b"back", false).unwrap();
    world.retry(job).unwrap();
    assert_eq!(offered(&world), ["1:0"], "its failure is not forgotten");
}

#[test]
fn a_retry_works_after_a_cancel_in_the_middle_of_it() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![echo(), echo()]);
    world.fail(of_node(&world, 1));
    world.cancel(job).unwrap();
    for round in 2..4 {
        for lease in world.revoked() {
            world.confirm_revoked(lease).unwrap();
        }
        world.retry(job).unwrap();
        assert_eq!(offered(&world), ["1:0"], "round {round}");
        world.cancel(job).unwrap();
    }
}

#[test]
fn nothing_failed_is_nothing_to_retry() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo(), echo()]);
    world.cancel(job).unwrap();
    for lease in world.revoked() {
        world.confirm_revoked(lease).unwrap();
    }
    assert!(matches!(world.retry(job), Err(Rejection::NotWaiting(_))));
    assert!(world.resume(job).is_ok());
}

#[test]
fn a_gate_asks_nobody_about_a_phase_with_nothing_left_to_do() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![confirmed(echo()), confirmed(echo())]);
    world.confirm(job, None).unwrap();
    world.finish_all();
    world.confirm(job, Some(1)).unwrap();
    world.fail(of_node(&world, 1));
    world.finish_all();
    world.resume(job).unwrap();
    assert_eq!(world.job(job).head.gate, Some(1), "phase 0 is done on every node");
    world.confirm(job, Some(1)).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn j8_runs_are_numbered_may_span_epochs_and_are_bounded() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    world.cancel(job).unwrap();
    world.confirm_revoked(world.revoked()[0]).unwrap();
    let ended = world.job(job).head.clone();
    assert_eq!((ended.run, ended.run_kind, ended.run_epoch.0, ended.epoch.0), (1, RunKind::Submit, 1, 2));
    assert!(ended.started_wall_ms.is_some() && ended.ended_wall_ms.is_some());
    for run in 2..=MAX_RUNS {
        let rerun = if run == 2 { world.resume(job) } else { world.retry(job) };
        rerun.unwrap();
        world.fail(world.offered()[0]);
        assert_eq!(world.job(job).head.run, run);
    }
    assert_eq!(world.job(job).head.run_kind, RunKind::Retry);
    let refused = world.resume(job).unwrap_err().to_string();
    assert!(refused.contains("has had 100 runs") && refused.contains("submit it as a new job"), "{refused}");
}

/// The head is written with every batch, so it must not hold what is as large as steps and nodes.
#[test]
fn issue13_19_the_head_of_a_resumed_job_does_not_grow_with_what_its_nodes_have_done() {
    let head_bytes = |nodes: u32| {
        let mut world = World::with_nodes(nodes);
        world.next_job(|spec| spec.strategy = grid_types::job::Strategy::Continue);
        let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
        let first = world.offered()[0];
        world.report(first, Outcome::Failed).unwrap();
        world.finish_all();
        world.resume(job).unwrap();
        let job = &world.state.jobs[&job];
        assert_eq!(job.scope.done.values().map(crate::state::Bits::count).collect::<Vec<_>>(), [nodes - 1; 2]);
        minicbor::to_vec(&job.head).unwrap().len()
    };
    let (few, many) = (head_bytes(8), head_bytes(300));
    assert!(many < few + 32, "{few} bytes for 8 nodes, {many} for 300");
}

/// A worker answers a lease that its journal knows from there. One of the lost time would answer for one of this time.
#[test]
fn e2_a_job_that_was_resumed_after_the_backup_gets_other_leases_when_it_is_resumed_again() {
    let resume = |world: &mut World, job| {
        let crate::Command::ResumeJob(resume) = world.resume_command(job) else { unreachable!() };
        world.one(crate::Command::ResumeJob(crate::ResumeJob { restored: Some(true), ..resume })).unwrap();
    };
    for cancelled in [false, true] {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        if cancelled {
            // Unfinished in the backup; cancelled and resumed after it, in both times.
            let lease = world.offered()[0];
            world.restore(1);
            world.return_whole(1, &[job], &[(lease, None)]);
        } else {
            world.fail(world.offered()[0]);
        }
        let (backup, rows, ended) = (world.state.clone(), world.history.len(), world.retired.clone());
        let mut epochs = Vec::new();
        for time in 0..3u32 {
            (world.state, world.retired) = (backup.clone(), ended.clone());
            world.history.truncate(rows);
            world.advance_ms(60_000 * u64::from(time));
            if time > 0 {
                world.restore(2);
            }
            if cancelled {
                world.cancel(job).unwrap();
                for lease in world.revoked() {
                    world.confirm_revoked(lease).unwrap();
                }
            }
            world.come_back(1);
            for _ in 0..2 {
                resume(&mut world, job);
                epochs.extend(world.offered().into_iter().map(|(_, lease)| lease.job_epoch));
                world.fail(world.offered()[0]);
            }
        }
        let distinct: std::collections::BTreeSet<_> = epochs.iter().collect();
        assert_eq!((epochs.len(), distinct.len()), (6, 6), "{epochs:?}");
    }
}

/// Two `once` steps, restored while the first is out; only the journal of node-1 is whole, so the job fails.
fn restored_and_failed() -> (World, grid_types::JobId) {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![pipeline(vec![leaf("test", "record"), leaf("test", "record")])]);
    world.restore(1);
    world.return_whole(1, &[job], &[]);
    world.come_back_as(2, b"lost", b"restarted");
    world.report_journal(2, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    world.cancel(job).unwrap();
    for lease in world.revoked() {
        world.confirm_revoked(lease).unwrap();
    }
    (world, job)
}

fn resume_restored(world: &mut World, job: grid_types::JobId) {
    let crate::Command::ResumeJob(resume) = world.resume_command(job) else { unreachable!() };
    world.one(crate::Command::ResumeJob(crate::ResumeJob { restored: Some(false), ..resume })).unwrap();
}

#[test]
fn e2_a_resumed_job_runs_once_steps_that_a_complete_journal_excluded() {
    let (mut world, job) = restored_and_failed();
    for round in 0..2 {
        resume_restored(&mut world, job);
        let rows = world.rows_of(job);
        assert_eq!(rows.get(&(0, 2)), Some(&Outcome::Unknown), "W8: round {round}");
        assert_eq!(offered(&world), ["1:0"], "round {round}");
        world.cancel(job).unwrap();
        world.confirm_revoked(world.revoked()[0]).unwrap();
    }
    world.restore(2);
    resume_restored(&mut world, job);
    world.finish_all();
    assert!(world.rows_of(job).values().all(|outcome| *outcome != Outcome::Success));
}
