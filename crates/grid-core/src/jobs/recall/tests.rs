//! E2: a `once` step of a restored job runs again only if a journal or an operator says that it may.

use grid_types::job::{JobSpec, Offline, OnUnknown, Phase, Tolerance};
use grid_types::node::NodeStatus;
use grid_types::{Attempt, JobEpoch, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, StepIndex};

use crate::commands::{Answer, Reply, Verdict};
use crate::world::{Lease, World, confirmed, leaf, pipeline, retrying};

fn echo() -> Phase {
    leaf("ping", "echo")
}

fn once() -> Phase {
    leaf("test", "record")
}

fn named(node: u32, job: JobId, step: u32, attempt: u32) -> Lease {
    (NodeOrd(node), LeaseKey { job, job_epoch: JobEpoch(1), step: StepIndex(step), attempt: Attempt(attempt) })
}

/// A job of two `once` steps on one node, restored while the first is out.
fn restored() -> (World, JobId, Lease) {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![once(), once()]);
    let lease = world.offered()[0];
    world.restore(1);
    (world, job, lease)
}

#[test]
fn e2_a_lease_that_runs_is_adopted_and_not_failed_by_the_confirmation() {
    let (mut world, job, lease) = restored();
    world.return_whole(1, &[job], &[(lease, None)]);
    assert_eq!(world.count(job, 0, Outcome::Running), 1);
    assert!(crate::why(&world.state, world.job(job), 0).contains("step 0 still runs on node-1"));
    world.confirm(job, None).unwrap();
    assert_eq!((world.count(job, 0, Outcome::Running), world.revoked()), (1, vec![]));
    world.succeed(lease);
    assert_eq!(world.offered(), [named(1, job, 1, 1)], "the second step never ran");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn e2_what_ended_after_the_backup_is_recorded_as_it_ended() {
    let (mut world, job, lease) = restored();
    let second = named(1, job, 1, 1);
    world.return_whole(1, &[job], &[(lease, Some(Outcome::Success)), (second, Some(Outcome::Success))]);
    assert_eq!(world.status(job), JobStatus::Completed, "journals know all of it, nobody has to be asked");
    assert!(world.rows_of(job).values().all(|outcome| *outcome == Outcome::Success));
}

#[test]
fn e2_a_journal_that_is_lost_replaced_or_of_another_process_leaves_every_step_in_doubt() {
    for (journal, nonce) in [(b"journal-2".as_slice(), b"nonce".as_slice()), (b"journal-1", b"restarted")] {
        let (mut world, job, _) = restored();
        world.come_back_as(1, journal, nonce);
        world.report_journal(1, &[job], &[]).unwrap();
        let doubts = world.state.doubts(world.job(job));
        assert_eq!(doubts.iter().map(|doubt| doubt.step.0).collect::<Vec<_>>(), [0, 1], "later steps, too");
        world.confirm(job, None).unwrap();
        assert!(world.offered().is_empty());
        assert_eq!((world.status(job), world.rows_of(job)[&(0, 1)]), (JobStatus::Failed, Outcome::Unknown));
    }
}

#[test]
fn e2_a_second_registration_before_the_answer_does_not_make_a_journal_whole() {
    let (mut world, job, _) = restored();
    world.come_back_as(1, b"another", b"restarted");
    world.come_back_as(1, b"another", b"restarted");
    world.report_journal(1, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    assert!(world.offered().is_empty());
}

#[test]
fn e2_a_later_step_becomes_unknown_when_it_is_reached() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![echo(), once()]);
    world.restore(1);
    world.return_whole(1, &[job], &[]);
    world.come_back_as(2, b"lost", b"restarted");
    world.report_journal(2, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    world.succeed_all_offered();
    assert_eq!(world.offered(), [named(1, job, 1, 1)], "node-2 may have run it");
    world.finish_all();
    assert_eq!((world.rows_of(job)[&(1, 1)], world.rows_of(job)[&(1, 2)]), (Outcome::Success, Outcome::Unknown));
}

#[test]
fn w2_a_tombstone_or_a_job_below_the_mark_leaves_it_in_doubt_and_one_above_does_not() {
    for (forgotten, dropped_to, offered) in
        [(Some(JobEpoch(1)), JobId(0), 0), (None, JobId(101), 0), (None, JobId(100), 1)]
    {
        let (mut world, job, _) = restored();
        assert_eq!(job, JobId(101));
        world.come_back(1);
        world.report_gaps(1, job, forgotten, dropped_to);
        world.confirm(job, None).unwrap();
        assert_eq!(world.offered().len(), offered, "{forgotten:?} {dropped_to:?}");
    }
}

#[test]
fn e2_rerun_once_offers_them_under_a_name_that_no_worker_has_seen() {
    let (mut world, job, lease) = restored();
    world.come_back_as(1, b"lost", b"restarted");
    world.report_journal(1, &[job], &[]).unwrap();
    world.confirm_rerun(job).unwrap();
    assert_eq!(world.offered(), [(lease.0, LeaseKey { attempt: Attempt(2), ..lease.1 })]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn e2_a_node_that_has_not_registered_is_waited_for_and_unknown_when_it_is_offline() {
    let (mut world, job, lease) = restored();
    world.confirm(job, None).unwrap();
    assert!(world.offered().is_empty());
    let why = crate::why(&world.state, world.job(job), 0);
    assert_eq!(why, "step 0 waits for node-1 to register after the restore: its journal knows whether it ran");
    let mut back = World::with_nodes(1);
    back.state = world.state.clone();
    back.return_whole(1, &[job], &[(lease, Some(Outcome::Success))]);
    assert_eq!(back.count(job, 0, Outcome::Success), 1);
    world.mark_dead(1);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
}

#[test]
fn e2_an_agent_has_no_journal_and_is_not_waited_for() {
    let restored = || {
        let mut world = World::new();
        world.register_agent("node-1", "a").unwrap();
        let job = world.submit("all", vec![once()]);
        let lease = world.hand_out(1)[0];
        world.restore(1);
        assert!(world.state.to_ask(&world.state.nodes[&NodeOrd(1)]).is_empty());
        (world, job, lease)
    };
    let (mut world, job, _) = restored();
    let awaited: Vec<_> = world.state.doubts(world.job(job)).iter().map(|doubt| doubt.is_awaited).collect();
    assert_eq!(awaited, [false]);
    world.confirm(job, None).unwrap();
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown, "it keeps polling and never registers again");
    let (mut world, job, lease) = restored();
    world.confirm_rerun(job).unwrap();
    assert_eq!(world.hand_out(1), [LeaseKey { attempt: Attempt(2), ..lease }]);
}

#[test]
fn e2_an_unknown_step_waits_for_an_operator_where_the_job_says_so() {
    let mut world = World::with_nodes(1);
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let job = world.submit("all", vec![once()]);
    world.restore(1);
    world.come_back_as(1, b"lost", b"restarted");
    world.report_journal(1, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    world.resolve(job, 0, 1, Verdict::Retry).unwrap();
    assert_eq!(world.offered(), [named(1, job, 0, 2)], "an operator decided");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn e2_a_job_that_moved_on_by_epochs_and_steps_is_followed_there() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![once(), once()]), once()]);
    world.restore(1);
    let later = |node, step| {
        let (node, lease) = named(node, job, step, 1);
        (node, LeaseKey { job_epoch: JobEpoch(3), ..lease })
    };
    world.return_whole(
        1,
        &[job],
        &[(later(1, 0), Some(Outcome::Success)), (later(1, 1), Some(Outcome::Success)), (later(1, 2), None)],
    );
    assert_eq!(world.count(job, 1, Outcome::Success), 1);
    // The barrier waits for node-2; what node-1 runs beyond it stays there, and its result is taken.
    assert_eq!(world.job(job).lease_at(NodeOrd(1)), Some((later(1, 2).1, None)));
    let answer = world.report(later(1, 2), Outcome::Success);
    assert_eq!(answer, Ok(Reply::Answered(Answer::Committed)));
    world.return_whole(
        2,
        &[job],
        &[(later(2, 0), Some(Outcome::Success)), (later(2, 1), Some(Outcome::Success)), (later(2, 2), None)],
    );
    assert_eq!(world.count(job, 2, Outcome::Success), 1);
    assert_eq!(world.job(job).head.epoch, JobEpoch(3));
    world.succeed(later(2, 2));
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn e2_a_later_lease_that_its_worker_lost_before_the_job_got_there_is_not_run_again() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![echo(), once()]);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0, 1), Some(Outcome::Success)), (named(1, job, 1, 1), None)]);
    world.come_back_as(1, b"lost", b"restarted");
    world.return_whole(2, &[job], &[]);
    world.confirm(job, None).unwrap();
    world.succeed_all_offered();
    assert_eq!(world.offered(), [named(2, job, 1, 1)]);
    assert_eq!(world.count(job, 1, Outcome::Unknown), 1);
}

#[test]
fn e2_a_failure_after_the_backup_is_retried_as_the_job_asked() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![retrying("test", "record", 2)]);
    let lease = world.offered()[0];
    world.restore(1);
    let second = named(1, job, 0, 2);
    world.return_whole(1, &[job], &[(lease, Some(Outcome::Failed)), (second, Some(Outcome::Failed))]);
    world.confirm(job, None).unwrap();
    world.advance_ms(40_000);
    assert_eq!(world.offered(), [named(1, job, 0, 3)]);
}

#[test]
fn e2_a_pending_job_that_started_after_the_backup_runs_nothing_again() {
    let mut world = World::with_nodes(2);
    world.set_quotas(1, 9);
    world.submit("all", vec![echo()]);
    let job = world.submit("all", vec![once()]);
    assert_eq!(world.status(job), JobStatus::Pending);
    world.set_quotas(9, 9);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0, 1), Some(Outcome::Success))]);
    world.come_back_as(2, b"lost", b"restarted");
    world.report_journal(2, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    assert!(world.offered().iter().all(|(_, lease)| lease.job != job));
    assert_eq!((world.rows_of(job)[&(0, 1)], world.rows_of(job)[&(0, 2)]), (Outcome::Success, Outcome::Unknown));
}

#[test]
fn e2_doubt_outlasts_a_second_restore() {
    let (mut world, job, _) = restored();
    world.come_back_as(1, b"lost", b"restarted");
    world.report_journal(1, &[job], &[]).unwrap();
    world.restore(2);
    world.come_back_as(1, b"lost", b"restarted");
    world.report_journal(1, &[job], &[]).unwrap();
    world.confirm(job, None).unwrap();
    assert!(world.offered().is_empty(), "the second backup knows no more than the first journal did");
}

#[test]
fn e2_a_gated_phase_that_ran_after_the_backup_is_recorded_when_it_is_confirmed() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![confirmed(once())]);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0, 1), Some(Outcome::Success))]);
    world.confirm_held(job).unwrap();
    world.confirm(job, Some(0)).unwrap();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn e2_ids_move_beyond_what_was_granted() {
    let mut world = World::with_nodes(1);
    let (session, wall_ms) = (world.state.meta.next_session, world.state.meta.wall_ms);
    world.restore(1);
    let meta = &world.state.meta;
    assert!(meta.next_session > session + 1_000_000 && meta.job_ids_from_ms > wall_ms);
    let before = meta.job_ids_from_ms;
    world.submit("all", vec![once()]);
    world.restore(2);
    assert!(world.state.meta.job_ids_from_ms > before);
}

/// Three `once` steps, restored while the first is out on both nodes; node-1 has come back, node-2 is away.
fn restored_with_one_away(offline: fn(&mut JobSpec), confirm_first: bool) -> (World, JobId) {
    let mut world = World::with_nodes(2);
    world.next_job(offline);
    let job = world.submit("all", vec![once(), once(), once()]);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0, 1), Some(Outcome::Success)), (named(1, job, 1, 1), None)]);
    if confirm_first {
        world.confirm(job, None).unwrap();
    }
    let session = world.session(2);
    world.mark(2, session, NodeStatus::Ready, NodeStatus::Unhealthy).unwrap();
    if !confirm_first {
        world.confirm(job, None).unwrap();
    }
    (world, job)
}

fn waits(spec: &mut JobSpec) {
    spec.offline = Offline::Wait;
    spec.failure_tolerate = Some(Tolerance::Nodes(2));
}

#[test]
fn j11_a_restored_job_waits_for_a_node_that_is_away_and_has_not_registered() {
    for confirm_first in [false, true] {
        let (mut world, job) = restored_with_one_away(waits, confirm_first);
        assert_eq!(world.count(job, 0, Outcome::Unknown), 0, "confirmed first: {confirm_first}");
        let why = crate::why(&world.state, world.job(job), 0);
        assert_eq!(why, "step 0 waits for node-2 to register after the restore: its journal knows whether it ran");
        world.succeed(named(1, job, 1, 1));
        assert!(world.job(job).is_stalled(), "J3: it has no place in admission meanwhile");
        world.mark_dead(2);
        assert_eq!((world.status(job), world.count(job, 0, Outcome::Unknown)), (JobStatus::Running, 0));
        let success = Some(Outcome::Success);
        let journal = [(named(2, job, 0, 1), success), (named(2, job, 1, 1), success), (named(2, job, 2, 1), None)];
        world.return_whole(2, &[job], &journal);
        world.finish_all();
        assert_eq!((world.status(job), world.total(job, Outcome::Success)), (JobStatus::Completed, 6));
    }
}

#[test]
fn j11_a_restored_job_stops_waiting_when_the_node_is_removed_or_the_job_ends() {
    let unknown = |world: &World, job| world.rows_of(job).get(&(0, 2)) == Some(&Outcome::Unknown);
    let (mut world, job) = restored_with_one_away(waits, false);
    world.remove(2, true).unwrap();
    assert!(unknown(&world, job), "removed");
    let (mut world, job) = restored_with_one_away(waits, false);
    world.cancel(job).unwrap();
    assert!(unknown(&world, job), "cancelled");
    let (mut world, job) = restored_with_one_away(
        |spec| {
            waits(spec);
            spec.timeout = Some("10s".parse().unwrap());
        },
        false,
    );
    world.advance_ms(10_000);
    assert!(unknown(&world, job), "its time is over");
    let mut world = World::with_nodes(2);
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![once()]);
    world.restore(1);
    world.return_whole(1, &[job], &[(named(1, job, 0, 1), None)]);
    world.mark_dead(2);
    world.confirm(job, None).unwrap();
    assert_eq!(world.count(job, 0, Outcome::Pending), 1);
    world.fail(named(1, job, 0, 1));
    assert_eq!((world.status(job), unknown(&world, job)), (JobStatus::Failed, true), "a trip waits for nobody away");
    let (world, job) = restored_with_one_away(|spec| spec.offline = Offline::Skip, false);
    assert!(unknown(&world, job), "offline: skip");
    let (world, job) = restored_with_one_away(|spec| spec.offline = Offline::Fail, false);
    assert!(unknown(&world, job), "offline: fail");
}

#[test]
fn e2_a_doubt_names_that_its_node_has_not_registered_whatever_its_status() {
    let awaited = |world: &World, job| {
        let doubts = world.state.doubts(world.job(job));
        doubts.iter().map(|doubt| doubt.is_awaited).collect::<Vec<_>>()
    };
    let (mut world, job, _) = restored();
    assert_eq!(awaited(&world, job), [true, true]);
    world.mark_dead(1);
    assert_eq!(awaited(&world, job), [true, true], "its journal may still tell");
    world.come_back_as(1, b"lost", b"restarted");
    world.report_journal(1, &[job], &[]).unwrap();
    assert_eq!(awaited(&world, job), [false, false]);
}

/// A pipeline of both kinds on a node that is offline when the job is confirmed, by phase.
#[test]
fn j11_of_a_node_that_is_away_only_once_steps_become_unknown() {
    let cases = [
        (Offline::Skip, [Outcome::Skipped, Outcome::Unknown, Outcome::Skipped]),
        (Offline::Fail, [Outcome::Failed, Outcome::Skipped, Outcome::Skipped]),
    ];
    for (offline, expected) in cases {
        let mut world = World::with_nodes(2);
        world.next_job(match offline {
            Offline::Skip => |spec| spec.failure_tolerate = Some(Tolerance::Nodes(2)),
            Offline::Fail | Offline::Wait => |spec: &mut JobSpec| {
                spec.offline = Offline::Fail;
                spec.failure_tolerate = Some(Tolerance::Nodes(2));
            },
        });
        let job = world.submit("all", vec![pipeline(vec![echo(), once(), echo()])]);
        world.restore(1);
        world.return_whole(1, &[job], &[]);
        world.mark_dead(2);
        world.confirm(job, None).unwrap();
        world.finish_all();
        let rows = world.rows_of(job);
        assert_eq!([0, 1, 2].map(|step| rows[&(step, 2)]), expected, "{offline:?}");
        assert!((0..3).all(|step| rows[&(step, 1)] == Outcome::Success));
        assert_eq!(world.status(job), JobStatus::Completed, "its failure is tolerated");
    }
}

#[test]
fn e2_a_node_that_drains_is_asked_before_its_steps_are_unknown() {
    let drained = |offline: fn(&mut JobSpec)| {
        let mut world = World::with_nodes(1);
        world.next_job(offline);
        let job = world.submit("all", vec![once()]);
        let lease = world.offered()[0];
        world.order_drain(1, true).unwrap();
        world.restore(1);
        world.confirm(job, None).unwrap();
        assert_eq!(world.count(job, 0, Outcome::Pending), 1, "its worker runs and will register");
        let why = crate::why(&world.state, world.job(job), 0);
        assert_eq!(why, "step 0 waits for node-1 to register after the restore: its journal knows whether it ran");
        (world, job, lease)
    };
    let skip: fn(&mut JobSpec) = |spec| spec.offline = Offline::Skip;
    let fail: fn(&mut JobSpec) = |spec| spec.offline = Offline::Fail;
    for (offline, never_ran) in [(skip, Outcome::Skipped), (fail, Outcome::Failed)] {
        let (mut world, job, lease) = drained(offline);
        world.return_whole(1, &[job], &[(lease, None)]);
        assert_eq!(world.count(job, 0, Outcome::Running), 1, "it ends what it runs");
        world.succeed(lease);
        assert_eq!(world.status(job), JobStatus::Completed);
        let (mut world, job, _) = drained(offline);
        world.return_whole(1, &[job], &[]);
        assert_eq!(world.rows_of(job)[&(0, 1)], never_ran, "J11: it gets nothing new");
        let (mut world, job, _) = drained(offline);
        let session = world.session(1);
        world.mark(1, session, NodeStatus::Draining, NodeStatus::Dead).unwrap();
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown, "nobody can say any more");
    }
}
