//! E2: what a backup brought back is held until an operator confirms it, and nothing once-only runs again.

use grid_types::job::OnUnknown;
use grid_types::{JobId, JobStatus, LeaseKey, Outcome};

use crate::commands::{Answer, Rejection, Reply};
use crate::effect::Effect;
use crate::world::{World, confirmed, leaf, pipeline, retrying};

fn echo() -> grid_types::job::Phase {
    leaf("ping", "echo")
}

fn once() -> grid_types::job::Phase {
    leaf("test", "record")
}

fn committed(reply: &Result<Reply, Rejection>) {
    assert_eq!(*reply, Ok(Reply::Answered(Answer::Committed)));
}

fn said(world: &World, job: JobId) -> String {
    crate::why(&world.state, world.job(job), 0)
}

#[test]
fn e2_a_higher_generation_raises_the_epoch_above_everything_and_only_once() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![echo()]);
    let before = world.state.meta.leadership.epoch;
    world.restore(1);
    let first = world.state.meta.leadership.epoch;
    assert!(first > before && first.generation == 1, "{first:?}");
    world.confirm(job, None).unwrap();
    world.restore(1);
    assert_eq!(world.state.meta.leadership.epoch, first.next(), "the folder says it in every term");
    assert_eq!(world.job(job).head.held, None, "and holds nothing twice");
}

#[test]
fn e2_the_second_restore_of_one_backup_is_newer_than_the_first() {
    let epoch_after = |ms| {
        let mut world = World::with_nodes(1);
        world.advance_ms(ms);
        world.restore(1);
        world.state.meta.leadership.epoch
    };
    assert!(epoch_after(60_000) > epoch_after(0).next().next());
}

#[test]
fn e2_nothing_is_offered_started_or_ended_until_it_is_confirmed() {
    let mut world = World::with_nodes(2);
    world.set_quotas(2, 9);
    world.next_timeout("10s");
    let pure = world.submit("all", vec![echo(), echo()]);
    let backoff = world.submit("node:node-1", vec![retrying("test", "fail", 2)]);
    let failing = world.offered().into_iter().find(|(_, lease)| lease.job == backoff).unwrap();
    world.fail(failing);
    let pending = world.submit("all", vec![echo()]);
    assert_eq!(world.status(pending), JobStatus::Pending);
    let effects = world.restore(1);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Offer(_))));
    world.advance_ms(100_000);
    world.leave(2);
    world.register("node-2", b"journal-2", 2, b"back", false).unwrap();
    assert!(world.offered().is_empty());
    for (job, status) in [(pure, JobStatus::Running), (backoff, JobStatus::Running), (pending, JobStatus::Pending)] {
        assert_eq!(world.status(job), status);
        let words = format!(
            "held: restored from a backup of yesterday; check whether it should continue, then `gridc job confirm {job}`"
        );
        assert_eq!(said(&world, job), words);
    }
    assert_eq!((world.state.running_jobs(), world.state.pending_jobs()), (0, 0), "J3: they take no place");
    let new = world.submit("all", vec![echo()]);
    assert_eq!(world.status(new), JobStatus::Running);
    for job in [pure, backoff, pending] {
        world.confirm(job, None).unwrap();
        assert!(matches!(world.confirm(job, None), Err(Rejection::NotWaiting(_))), "once");
    }
    world.finish_all();
    for job in [pure, backoff, pending, new] {
        assert_eq!(world.status(job), JobStatus::Completed, "{}", world.reason(job));
    }
}

#[test]
fn e2_outstanding_once_leases_wait_for_their_journal_which_settles_them() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![once(), echo()]);
    let leases = world.offered();
    world.restore(1);
    assert_eq!(world.count(job, 0, Outcome::Pending), 2, "nobody knows yet");
    committed(&world.report(leases[0], Outcome::Success));
    committed(&world.report(leases[1], Outcome::Success));
    assert_eq!((world.count(job, 0, Outcome::Success), world.status(job)), (2, JobStatus::Running));
    assert!(world.offered().is_empty(), "what follows waits for the operator");
    world.return_whole(1, &[job], &[]);
    world.return_whole(2, &[job], &[]);
    world.confirm(job, None).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed, "nothing was lost by the restore");
}

#[test]
fn e2_a_once_lease_that_nobody_knows_fails_or_waits_when_the_job_is_confirmed() {
    for on_unknown in [OnUnknown::Fail, OnUnknown::Wait] {
        let mut world = World::with_nodes(1);
        world.next_job(match on_unknown {
            OnUnknown::Fail => |_| (),
            OnUnknown::Wait => |spec| spec.on_unknown = OnUnknown::Wait,
        });
        let job = world.submit("all", vec![once(), echo()]);
        world.restore(1);
        world.come_back_as(1, b"lost", b"restarted");
        world.report_journal(1, &[job], &[]).unwrap();
        world.confirm(job, None).unwrap();
        assert!(world.offered().is_empty(), "W8: never again by itself");
        if on_unknown == OnUnknown::Fail {
            assert_eq!((world.status(job), world.rows_of(job)[&(0, 1)]), (JobStatus::Failed, Outcome::Unknown));
        } else {
            assert!(said(&world, job).contains("gridc job resolve"), "{}", said(&world, job));
            world.resolve(job, 0, 1, crate::commands::Verdict::Success).unwrap();
            world.finish_all();
            assert_eq!(world.status(job), JobStatus::Completed);
        }
    }
}

#[test]
fn e2_results_are_taken_while_a_job_is_held_and_may_end_it() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo()]);
    let leases = world.offered();
    world.restore(1);
    assert_eq!(world.count(job, 0, Outcome::Pending), 2, "to be offered again");
    committed(&world.report(leases[0], Outcome::Success));
    assert!(world.offered().is_empty());
    committed(&world.report(leases[1], Outcome::Success));
    assert_eq!(world.status(job), JobStatus::Completed, "nothing was left to ask for");
}

#[test]
fn e2_after_the_word_the_same_leases_are_offered_again() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![echo(), once()])]);
    let before = world.offered();
    world.restore(1);
    world.confirm(job, None).unwrap();
    assert_eq!(world.offered(), before, "a worker that has had them answers from its journal");
}

#[test]
fn e2_leases_of_the_time_after_the_backup_stay_with_their_worker() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![echo(), once()]);
    let gated = world.submit("all", vec![confirmed(echo())]);
    let first = world.offered()[0];
    let (backup, rows) = (world.state.clone(), world.history.len());
    world.succeed(first);
    let second = world.offered()[0];
    assert_eq!(second.1.step.0, 1);
    world.state = backup;
    world.history.truncate(rows);
    world.restore(1);
    let may_come = |world: &World, lease| world.job(job).may_come(first.0, lease);
    assert!(may_come(&world, first.1) && may_come(&world, second.1));
    assert!(may_come(&world, LeaseKey { job_epoch: second.1.job_epoch.next(), ..second.1 }), "a later run");
    let new = world.submit("all", vec![echo()]);
    let (node, lease) = world.offered().into_iter().find(|(_, lease)| lease.job == new).unwrap();
    let later = LeaseKey { job_epoch: lease.job_epoch.next(), ..lease };
    assert!(!world.job(new).may_come(node, later), "the epochs of a new job are its own");
    world.succeed((node, lease));
    world.return_whole(1, &[job, gated], &[]);
    assert!(world.job(gated).may_come(first.0, LeaseKey { job: gated, ..first.1 }));
    world.confirm(job, None).unwrap();
    assert!(!may_come(&world, first.1), "it is outstanding");
    assert!(may_come(&world, second.1));
    world.succeed(first);
    assert_eq!(world.offered(), [second], "and so it comes");
    assert!(!may_come(&world, first.1), "settled");
    world.succeed(second);
    assert!(!may_come(&world, second.1), "the job has ended");
}

#[test]
fn e2_a_lease_that_was_revoked_after_the_backup_ends_unknown() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![echo()]);
    let lease = world.offered()[0];
    world.restore(1);
    world.confirm(job, None).unwrap();
    committed(&world.confirm_revoked(lease));
    assert_eq!((world.status(job), world.rows_of(job)[&(0, 1)]), (JobStatus::Failed, Outcome::Unknown));
}

#[test]
fn e2_a_held_job_can_be_cancelled() {
    let mut world = World::with_nodes(2);
    world.set_quotas(1, 9);
    let job = world.submit("all", vec![once(), echo()]);
    let pending = world.submit("all", vec![echo()]);
    world.restore(1);
    for job in [job, pending] {
        world.cancel(job).unwrap();
        assert_eq!(world.status(job), JobStatus::Cancelled);
        assert!(world.state.stubs.contains_key(&job));
    }
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
}

#[test]
fn e2_a_cancel_that_was_under_way_goes_on() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![once()]);
    let lease = world.offered()[0];
    world.cancel(job).unwrap();
    world.restore(1);
    assert_eq!((world.revoked(), world.job(job).head.held.clone()), (vec![lease], None));
    committed(&world.confirm_revoked(lease));
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Cancelled);
}

#[test]
fn a_phase_is_not_confirmed_by_the_word_for_a_held_job() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![confirmed(echo())]);
    assert!(matches!(world.confirm_held(job), Err(Rejection::NotWaiting(_))), "it is not held");
    world.restore(1);
    assert!(matches!(world.confirm(job, Some(0)), Err(Rejection::NotWaiting(_))), "first things first");
    world.confirm_held(job).unwrap();
    assert_eq!(world.job(job).head.gate, Some(0));
    assert!(matches!(world.confirm_held(job), Err(Rejection::NotWaiting(_))));
    world.confirm(job, Some(0)).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}
