//! A lease that is taken back may have run, and then it may have changed something.

use grid_types::job::{Offline, Phase};
use grid_types::{Attempt, LeaseKey, Outcome};

use super::{report, restart};
use crate::world::{World, confirmed, leaf, pipeline, retrying};

/// The outcome of the restart after a lease of `action` was taken back, offered again, and changed nothing then.
fn taken_back(action: &str) -> Outcome {
    let mut world = World::with_nodes(1);
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![pipeline(vec![leaf("test", action), restart()])]);
    world.leave(1);
    world.come_back(1);
    world.begin_all();
    report(&mut world, Outcome::Success, Some(false));
    world.finish_all();
    world.rows_of(job)[&(1, 1)]
}

#[test]
fn w3_a_lease_that_is_taken_back_may_have_changed_something_unless_it_never_ran() {
    assert_eq!(taken_back("succeed"), Outcome::Success, "an idempotent lease starts without a trace");
    assert_eq!(taken_back("record"), Outcome::Skipped, "a `once` lease that was not begun never ran");
}

/// The outcome of the restart of a restored job whose first task changes nothing now.
fn restored(phase: Phase, journal_is_whole: bool) -> Outcome {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![phase]);
    world.restore(1);
    if journal_is_whole {
        world.return_whole(1, &[job], &[]);
    } else {
        world.come_back_as(1, b"lost", b"restarted");
        world.report_journal(1, &[job], &[]).unwrap();
    }
    world.confirm_held(job).unwrap();
    let _ = world.confirm(job, None);
    report(&mut world, Outcome::Success, Some(false));
    world.finish_all();
    world.rows_of(job)[&(1, 1)]
}

#[test]
fn e2_a_restored_job_restarts_what_may_have_changed_since_the_backup() {
    let phase = || pipeline(vec![leaf("test", "succeed"), restart()]);
    assert_eq!(restored(phase(), false), Outcome::Success, "it was out when the backup was taken");
    assert_eq!(restored(confirmed(phase()), false), Outcome::Success, "it may have run since the backup");
    assert_eq!(restored(confirmed(phase()), true), Outcome::Skipped, "a complete journal excludes that");
}

/// The outcome of the restart of a restored job whose worker runs this attempt of the first task, which changes nothing.
fn adopted(attempt: u32) -> Outcome {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![pipeline(vec![retrying("test", "record", 3), restart()])]);
    let (node, lease) = world.offered()[0];
    world.restore(1);
    let lease = LeaseKey { attempt: Attempt(attempt), ..lease };
    world.return_whole(1, &[job], &[((node, lease), None)]);
    world.confirm_held(job).unwrap();
    assert_eq!(world.offered(), [(node, lease)]);
    report(&mut world, Outcome::Success, Some(false));
    world.finish_all();
    world.rows_of(job)[&(1, 1)]
}

#[test]
fn e2_an_adopted_lease_says_nothing_of_the_attempts_before_it() {
    assert_eq!(adopted(1), Outcome::Skipped, "it is the first one");
    assert_eq!(adopted(2), Outcome::Success, "the first one failed after the backup, and may have changed something");
}
