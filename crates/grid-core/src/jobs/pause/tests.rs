//! Gates, windows, waits for nodes and for people.

use grid_types::job::{Offline, OnUnknown};
use grid_types::node::NodeStatus;
use grid_types::{JobStatus, Outcome};

use crate::commands::{Rejection, Verdict};
use crate::world::{World, cleanup, confirmed, leaf, pipeline, retrying, rolling};

fn echo() -> grid_types::job::Phase {
    leaf("ping", "echo")
}

#[test]
fn j2_a_window_lets_so_many_nodes_in_and_keeps_their_places() {
    let mut world = World::with_nodes(5);
    let job = world.submit("all", vec![rolling(2, pipeline(vec![retrying("test", "fail", 1), echo()]))]);
    let first = world.offered();
    assert_eq!(first.len(), 2);
    world.fail(first[0]);
    assert_eq!(world.offered().len(), 1, "a node in backoff keeps its place");
    world.succeed(first[1]);
    assert_eq!(world.offered().len(), 1, "so does one between two sub-steps");
    world.succeed_all_offered();
    assert_eq!(world.offered().iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [3], "one is through, one comes in");
    world.advance_ms(60_000);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    assert_eq!(world.rows_of(job).len(), 10);
}

#[test]
fn i8_a_tripped_job_lets_nobody_else_into_its_window() {
    let mut world = World::with_nodes(300);
    let job = world.submit("all", vec![rolling(10, echo()), cleanup(vec![leaf("test", "succeed")])]);
    let first = world.offered();
    assert_eq!(first.len(), 10);
    world.fail(first[3]);
    assert_eq!(world.offered().len(), 9, "1 failure in 300 trips a tolerance of 0");
    for lease in first.into_iter().filter(|lease| lease.0.0 != 4) {
        world.succeed(lease);
    }
    assert_eq!(world.offered().len(), 300, "only the clean-up, and that everywhere");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.total(job, Outcome::Skipped), 290);
}

#[test]
fn j1_a_share_is_tolerated_exactly() {
    let mut world = World::with_nodes(10);
    world.next_job(|spec| spec.failure_tolerate = Some(grid_types::job::Tolerance::Share("20%".parse().unwrap())));
    let job = world.submit("all", vec![echo(), echo()]);
    let first = world.offered();
    for lease in &first[..2] {
        world.fail(*lease);
    }
    for lease in &first[2..] {
        world.succeed(*lease);
    }
    let second = world.offered();
    assert_eq!(second.len(), 8, "two of ten are tolerated, and left out from now on");
    world.fail(second[0]);
    assert!(world.offered().len() == 7, "running ones finish");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.reason(job), "failed on 3 of 10 nodes, more than the tolerated 20%");
}

#[test]
fn j3_five_jobs_that_wait_for_a_person_do_not_block_the_sixth() {
    let mut world = World::with_nodes(2);
    let waiting: Vec<_> = (0..5).map(|_| world.submit("all", vec![confirmed(echo())])).collect();
    assert!(world.offered().is_empty());
    let sixth = world.submit("all", vec![echo()]);
    world.succeed_all_offered();
    assert_eq!(world.status(sixth), JobStatus::Completed);
    for job in waiting {
        world.confirm(job, None).unwrap();
        world.succeed_all_offered();
        assert_eq!(world.status(job), JobStatus::Completed);
    }
}

#[test]
fn a_confirmation_is_for_one_phase_and_works_once() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![echo(), confirmed(echo()), confirmed(echo())]);
    let early = world.confirm(job, None);
    assert!(matches!(early, Err(Rejection::NotWaiting(_))), "{early:?}");
    world.succeed_all_offered();
    assert!(world.confirm(job, Some(2)).is_err(), "the person saw another phase");
    world.confirm(job, Some(1)).unwrap();
    assert!(world.confirm(job, Some(1)).is_err(), "twice");
    world.succeed_all_offered();
    assert!(world.offered().is_empty(), "the next phase waits for its own word");
    world.confirm(job, None).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn j3_a_wait_for_a_person_does_not_count_against_the_timeout() {
    let mut world = World::with_nodes(1);
    world.next_timeout("10s");
    let job = world.submit("all", vec![confirmed(echo()), echo()]);
    world.advance_ms(3_600_000);
    world.confirm(job, None).unwrap();
    world.advance_ms(9_000);
    world.succeed_all_offered();
    assert_eq!(world.status(job), JobStatus::Running);
    world.advance_ms(1_000);
    assert!(world.offered().is_empty(), "the ten seconds of work are over");
}

#[test]
fn a_job_behind_a_gate_can_be_cancelled() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![confirmed(echo()), echo()]);
    world.cancel(job).unwrap();
    assert_eq!(world.status(job), JobStatus::Cancelled);
    assert_eq!(world.rows_of(job).values().filter(|o| **o == Outcome::Skipped).count(), 4);
    assert!(world.confirm(job, None).is_err());
}

#[test]
fn offline_wait_waits_for_the_node_and_frees_its_place() {
    let mut world = World::with_nodes(2);
    world.set_quotas(1, 5);
    world.leave(1);
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![echo()]);
    let other = world.submit("node:node-2", vec![echo()]);
    assert_eq!(world.status(other), JobStatus::Pending);
    world.succeed_all_offered();
    assert_eq!(world.status(other), JobStatus::Running, "J3: the first only waits for node-1 now");
    world.register("node-1", b"journal-1", 2, b"back", false).unwrap();
    world.finish_all();
    assert_eq!((world.status(job), world.status(other)), (JobStatus::Completed, JobStatus::Completed));
    assert!(world.rows_of(job).values().all(|outcome| *outcome == Outcome::Success));
}

#[test]
fn offline_wait_ends_at_the_jobs_timeout() {
    let mut world = World::with_nodes(1);
    world.leave(1);
    world.next_timeout("10s");
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![echo()]);
    world.advance_ms(10_000);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Skipped);
}

#[test]
fn i15_offline_wait_in_a_clean_up_ends_with_the_jobs_time() {
    for early in [true, false] {
        let mut world = World::with_nodes(3);
        world.next_timeout("10s");
        world.next_job(|spec| spec.offline = Offline::Wait);
        let job = world.submit("all", vec![echo(), cleanup(vec![echo()])]);
        let leases = world.offered();
        world.mark_dead(2);
        if early {
            world.fail(leases[0]);
            world.succeed(leases[2]);
        }
        world.advance_ms(10_000);
        for lease in world.revoked() {
            world.confirm_revoked(lease).unwrap();
        }
        world.finish_all();
        assert_eq!(world.status(job), JobStatus::Failed, "early {early}");
        assert_eq!(world.rows_of(job)[&(1, 2)], Outcome::Skipped, "early {early}");
    }
}

#[test]
fn w8_retry_on_a_node_that_is_away_is_refused_and_the_journal_may_still_speak() {
    let mut world = World::with_nodes(3);
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let job = world.submit("node:node-1", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    world.begin_all();
    world.mark_dead(1);
    let refused = world.resolve(job, 0, 1, Verdict::Retry);
    assert!(matches!(refused, Err(Rejection::NotWaiting(_))), "{refused:?}");
    world.register("node-1", b"journal-1", 2, b"back", false).unwrap();
    world.report(lease, Outcome::Success).unwrap();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn w8_on_unknown_wait_a_person_decides() {
    for (verdict, status, rows) in [
        (Verdict::Success, JobStatus::Completed, Outcome::Success),
        (Verdict::Failed, JobStatus::Failed, Outcome::Failed),
    ] {
        let mut world = World::with_nodes(2);
        world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
        let job = world.submit("all", vec![leaf("test", "record"), echo()]);
        let leases = world.offered();
        world.report(leases[0], Outcome::Unknown).unwrap();
        world.succeed(leases[1]);
        assert_eq!(world.status(job), JobStatus::Running);
        assert!(world.offered().is_empty());
        world.resolve(job, 0, 1, verdict).unwrap();
        assert!(world.resolve(job, 0, 1, verdict).is_err(), "once");
        world.finish_all();
        assert_eq!((world.status(job), world.rows_of(job)[&(0, 1)]), (status, rows));
    }
}

#[test]
fn w8_on_unknown_wait_a_person_may_have_it_run_again() {
    let mut world = World::with_nodes(1);
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let job = world.submit("all", vec![leaf("test", "record")]);
    world.report(world.offered()[0], Outcome::Unknown).unwrap();
    world.resolve(job, 0, 1, Verdict::Retry).unwrap();
    let again = world.offered();
    assert_eq!(again[0].1.attempt.0, 2);
    world.succeed(again[0]);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Success);
}

#[test]
fn w8_on_unknown_wait_the_workers_journal_decides_as_well() {
    let mut world = World::with_nodes(3);
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let job = world.submit("node:node-1", vec![leaf("test", "record"), echo()]);
    let lease = world.offered()[0];
    world.begin_all();
    world.mark_dead(1);
    world.register("node-1", b"journal-1", 2, b"back", false).unwrap();
    world.report(lease, Outcome::Success).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn an_unresolved_step_of_a_cancelled_job_stays_unknown() {
    let mut world = World::with_nodes(1);
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let job = world.submit("all", vec![leaf("test", "record"), echo()]);
    world.report(world.offered()[0], Outcome::Unknown).unwrap();
    world.cancel(job).unwrap();
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
    assert_eq!(world.status(job), JobStatus::Cancelled);
}

#[test]
fn any_picks_one_node_that_can_and_is_least_busy() {
    let mut world = World::with_nodes(3);
    world.leave(1);
    let busy = world.submit("node:node-2", vec![echo()]);
    let job = world.submit("any", vec![echo()]);
    assert_eq!(world.job(job).expected, [grid_types::NodeOrd(3)]);
    world.finish_all();
    assert_eq!((world.status(job), world.status(busy)), (JobStatus::Completed, JobStatus::Completed));
}

#[test]
fn labels_match_nodes_that_carry_all_of_them() {
    let mut world = World::with_nodes(2);
    let mut node = world.state.nodes.values().next().unwrap().clone();
    node.facts.labels = [("zone".to_owned(), "a".to_owned()), ("disk".to_owned(), "ssd".to_owned())].into();
    world.state.nodes.insert(node.ord, node);
    assert!(world.submit_keyed("labels:zone=a,disk=hdd", vec![echo()], None).is_err());
    let job = world.submit("labels:zone=a,disk=ssd", vec![echo()]);
    assert_eq!(world.job(job).expected, [grid_types::NodeOrd(1)]);
    assert_eq!(world.state.nodes[&grid_types::NodeOrd(1)].status, NodeStatus::Ready);
}

#[test]
fn j2_a_node_that_is_away_holds_no_place_in_the_window() {
    let mut world = World::with_nodes(3);
    world.leave(1);
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![rolling(1, pipeline(vec![echo(), echo()]))]);
    let second = world.offered();
    assert_eq!(second[0].0.0, 2, "the others do not wait for the one that is away");
    world.register("node-1", b"journal-1", 2, b"back", false).unwrap();
    assert_eq!(world.offered(), second, "it is back, but the window is full");
    world.succeed(second[0]);
    world.succeed(world.offered()[0]);
    let first = world.offered();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].0.0, 1, "its turn has come");
    world.mark(1, world.session(1), NodeStatus::Ready, NodeStatus::Draining).unwrap();
    world.succeed(first[0]);
    assert_eq!(world.offered(), [], "between two sub-steps it keeps its place");
    assert!(world.state.running_jobs() == 0, "J3: everything waits for a node");
    world.register("node-1", b"journal-1", 3, b"again", false).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    assert_eq!(world.total(job, Outcome::Success), 6);
}

#[test]
fn j2_a_node_that_goes_away_before_its_first_lease_gives_its_place_back() {
    let mut world = World::new();
    world.register_with_slots("node-1", 1);
    world.register_with_slots("node-2", 1);
    let busy = world.submit("node:node-1", vec![echo()]);
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![rolling(1, echo())]);
    world.mark(1, world.session(1), NodeStatus::Ready, NodeStatus::Unhealthy).unwrap();
    world.succeed(*world.offered().iter().find(|(node, _)| node.0 == 2).expect("node-2 is let in"));
    assert_eq!(world.status(busy), JobStatus::Running);
    world.mark(1, world.session(1), NodeStatus::Unhealthy, NodeStatus::Ready).unwrap();
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn nobody_is_asked_about_a_phase_that_nobody_would_run() {
    let mut world = World::with_nodes(1);
    world.next_strategy_continue();
    let failed = world.submit("all", vec![echo(), confirmed(echo())]);
    world.fail(world.offered()[0]);
    assert_eq!(world.status(failed), JobStatus::Failed, "no node is left");
    let job = world.submit("all", vec![confirmed(echo()), echo()]);
    world.confirm(job, None).unwrap();
    world.succeed(world.offered()[0]);
    world.fail(world.offered()[0]);
    world.resume(job).unwrap();
    assert_eq!(world.offered().len(), 1, "the confirmed phase is done everywhere");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn w8_a_journal_that_says_failed_lets_the_step_be_tried_again() {
    let mut world = World::with_nodes(1);
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let job = world.submit("all", vec![retrying("test", "record", 1)]);
    let lease = world.offered()[0];
    world.begin_all();
    world.mark_dead(1);
    world.register("node-1", b"journal-1", 2, b"back", false).unwrap();
    world.fail(lease);
    assert_eq!(world.status(job), JobStatus::Running, "a definite failure, and the job asked for a retry");
    world.advance_ms(2_000);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}
