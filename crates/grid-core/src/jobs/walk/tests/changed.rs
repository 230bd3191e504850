//! `condition: on_changed`: a task of a pipeline that runs only where an earlier one changed something.

mod taken_back;

use grid_types::job::{Condition, Offline, Phase};
use grid_types::{Detail, JobId, JobStatus, Outcome};

use crate::commands::Command;
use crate::world::{World, leaf, pipeline, retrying, when};

fn restart() -> Phase {
    when(Condition::OnChanged, leaf("ping", "echo"))
}

/// The first offered lease ends, and its worker says whether it changed anything.
fn report(world: &mut World, outcome: Outcome, changed: Option<bool>) {
    let lease = world.offered()[0];
    let mut command = world.result_command(lease, world.session(lease.0.0), outcome);
    if let Command::RecordResult(result) = &mut command {
        result.detail = Detail { changed, ..Detail::default() }.known();
    }
    world.one(command).unwrap();
}

#[test]
fn a_task_runs_only_where_an_earlier_one_changed_something() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![leaf("test", "succeed"), leaf("ping", "echo"), restart()])]);
    let first = world.offered()[0].0;
    report(&mut world, Outcome::Success, Some(true));
    let leases = world.offered();
    let second = *leases.iter().find(|lease| lease.0 != first).unwrap();
    let mut command = world.result_command(second, world.session(second.0.0), Outcome::Success);
    if let Command::RecordResult(result) = &mut command {
        result.detail = Detail { changed: Some(false), ..Detail::default() }.known();
    }
    world.one(command).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    let rows = world.rows_of(job);
    assert_eq!(rows[&(2, first.0)], Outcome::Success, "the pure task between them changes nothing");
    assert_eq!(rows[&(2, second.0.0)], Outcome::Skipped);
    let reason = world.skip_reason(job, 2, second.0.0).unwrap();
    assert!(reason.starts_with("condition on_changed: "), "{reason}");
}

#[test]
fn a_task_that_does_not_say_counts_as_a_change_unless_it_is_pure() {
    for (action, wanted) in [(leaf("ping", "echo"), Outcome::Skipped), (leaf("test", "record"), Outcome::Success)] {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![pipeline(vec![action, restart()])]);
        world.begin_all();
        report(&mut world, Outcome::Success, None);
        world.finish_all();
        assert_eq!(world.rows_of(job)[&(1, 1)], wanted);
    }
}

#[test]
fn a_change_of_an_earlier_attempt_is_not_forgotten() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![pipeline(vec![retrying("test", "succeed", 1), restart()])]);
    report(&mut world, Outcome::Failed, Some(true));
    world.advance_ms(60_000);
    report(&mut world, Outcome::Success, Some(false));
    world.finish_all();
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Success);
}

#[test]
fn a_resumed_job_does_not_miss_the_restart_of_its_first_run() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![pipeline(vec![leaf("test", "succeed"), restart()])]);
    report(&mut world, Outcome::Success, Some(true));
    report(&mut world, Outcome::Failed, None);
    assert_eq!(world.status(job), JobStatus::Failed);
    world.resume(job).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Success);
}

#[test]
fn a_worker_that_was_restarted_does_not_hide_a_change() {
    for (nonce, wanted) in [(b"nonce-1".as_slice(), Outcome::Skipped), (b"another", Outcome::Success)] {
        let mut world = World::new();
        world.register("node-1", b"journal", 1, b"nonce-1", false).unwrap();
        let job = world.submit("all", vec![pipeline(vec![leaf("test", "succeed"), restart()])]);
        world.register("node-1", b"journal", 1, nonce, false).unwrap();
        report(&mut world, Outcome::Success, Some(false));
        world.finish_all();
        assert_eq!(world.rows_of(job)[&(1, 1)], wanted);
    }
}

#[test]
fn a_retry_is_complete_where_nothing_had_changed() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![leaf("test", "succeed"), restart()])]);
    let bad = world.offered()[1];
    report(&mut world, Outcome::Success, Some(false));
    world.fail(bad);
    assert_eq!(world.status(job), JobStatus::Failed);
    world.retry(job).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed, "the first node misses nothing");
}

#[test]
fn a_resumed_job_restarts_nothing_where_nothing_had_changed() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![leaf("test", "succeed"), restart()])]);
    let (good, bad) = (world.offered()[0].0, world.offered()[1]);
    report(&mut world, Outcome::Success, Some(false));
    world.fail(bad);
    world.resume(job).unwrap();
    world.finish_all();
    assert_eq!(world.rows_of(job)[&(1, good.0)], Outcome::Skipped);
}

/// How the first run ends while the first task runs: nobody knows whether it changed anything.
const ENDS: [fn(&mut World, JobId); 4] = [
    |world, _| world.mark_dead(1),
    |world, job| {
        world.cancel(job).unwrap();
        let lease = world.revoked()[0];
        world.confirm_ended(lease, Some(Outcome::Cancelled)).unwrap();
    },
    |world, _| {
        world.advance_ms(10_000);
        let lease = world.revoked()[0];
        world.confirm_ended(lease, Some(Outcome::Cancelled)).unwrap();
    },
    |world, _| report(world, Outcome::Failed, Some(false)),
];

#[test]
fn j8_resume_and_retry_remember_what_an_unsuccessful_attempt_may_have_changed() {
    for (at, end) in ENDS.into_iter().enumerate() {
        for retries in [false, true] {
            let mut world = World::with_nodes(1);
            world.next_timeout("5s");
            let job = world.submit("all", vec![pipeline(vec![leaf("test", "succeed"), restart()])]);
            end(&mut world, job);
            world.come_back(1);
            assert!(world.status(job).is_ended(), "end {at}");
            let again = if retries { world.retry(job) } else { world.resume(job) };
            if at == 1 && retries {
                assert!(again.is_err(), "a cancelled step has not failed");
                continue;
            }
            again.unwrap();
            report(&mut world, Outcome::Success, Some(false));
            world.finish_all();
            assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Success, "end {at}, retry {retries}");
        }
    }
}

/// J5: a clean-up inside the pipeline is not done for good, and what it changed is not undone either.
#[test]
fn j8_resume_remembers_what_a_clean_up_of_the_pipeline_changed() {
    let mut world = World::with_nodes(1);
    let rollback = when(Condition::OnFailure, leaf("test", "succeed"));
    let job = world.submit("all", vec![pipeline(vec![leaf("ping", "echo"), rollback, restart()])]);
    report(&mut world, Outcome::Failed, None);
    report(&mut world, Outcome::Success, Some(true));
    assert_eq!(world.status(job), JobStatus::Failed);
    world.resume(job).unwrap();
    world.finish_all();
    assert_eq!((world.rows_of(job)[&(1, 1)], world.rows_of(job)[&(2, 1)]), (Outcome::Skipped, Outcome::Success));
}

#[test]
fn j8_a_failure_without_an_attempt_changed_nothing() {
    let mut world = World::with_nodes(1);
    world.drain(1);
    world.next_job(|spec| spec.offline = Offline::Fail);
    let job = world.submit("all", vec![pipeline(vec![leaf("test", "succeed"), restart()])]);
    assert_eq!(world.status(job), JobStatus::Failed);
    world.come_back(1);
    world.resume(job).unwrap();
    report(&mut world, Outcome::Success, Some(false));
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Skipped);
}

/// The first run skipped both tasks, the second one because nothing had changed until then.
#[test]
fn j8_resume_runs_a_task_that_was_skipped_as_unchanged_if_an_earlier_one_changes_something_now() {
    let mut world = World::with_nodes(2);
    world.drain(2);
    let job = world.submit("all", vec![pipeline(vec![leaf("test", "succeed"), restart()])]);
    report(&mut world, Outcome::Success, Some(false));
    assert_eq!(world.rows_of(job)[&(1, 2)], Outcome::Skipped);
    world.come_back(2);
    world.resume(job).unwrap();
    report(&mut world, Outcome::Success, Some(true));
    report(&mut world, Outcome::Failed, None);
    world.resume(job).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    assert_eq!(world.rows_of(job)[&(1, 2)], Outcome::Success, "the third run finishes what the second one failed");
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Skipped, "nothing changed there in any run");
}

#[test]
fn j9_a_clean_up_that_changed_nothing_in_one_run_restarts_what_it_changes_in_the_next() {
    let mut world = World::with_nodes(1);
    let tidy = when(Condition::OnFailure, pipeline(vec![leaf("test", "succeed"), restart()]));
    let job = world.submit("all", vec![leaf("ping", "echo"), tidy]);
    for (changed, wanted) in [(false, Outcome::Skipped), (true, Outcome::Success)] {
        report(&mut world, Outcome::Failed, None);
        report(&mut world, Outcome::Success, Some(changed));
        world.finish_all();
        assert_eq!(world.rows_of(job)[&(2, 1)], wanted);
        world.resume(job).unwrap();
    }
}
