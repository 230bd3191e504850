//! J11: what becomes of nodes that are offline when their turn comes.

use grid_types::job::{Condition, Offline, Tolerance};
use grid_types::{JobStatus, Outcome};

use super::echo;
use crate::effect::Effect;
use crate::world::{World, cleanup, pipeline, retrying, rolling, when};

/// Three nodes, the third one draining.
fn one_draining() -> World {
    let mut world = World::with_nodes(3);
    world.drain(3);
    world
}

#[test]
fn j11_offline_fail_is_a_failure_without_an_attempt_and_counts() {
    let mut world = one_draining();
    world.next_job(|spec| {
        spec.offline = Offline::Fail;
        spec.failure_tolerate = Some(Tolerance::Nodes(1));
    });
    let job = world.submit("all", vec![pipeline(vec![retrying("ping", "echo", 3), echo()]), echo()]);
    let offered: Vec<_> = world.offered().iter().map(|(node, _)| node.0).collect();
    assert_eq!(offered, [1, 2], "it was tolerated");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    let rows = world.rows_of(job);
    assert_eq!((rows[&(0, 3)], rows[&(1, 3)], rows[&(2, 3)]), (Outcome::Failed, Outcome::Skipped, Outcome::Skipped));
    let row = world.results_of(job).into_iter().find(|row| row.node.0 == 3).unwrap();
    assert_eq!((row.attempt.0, row.reason.unwrap().text(job)), (0, "offline: the node is draining".to_owned()));
    assert_eq!(world.reason(job), "failed on 1 of 3 nodes");
    assert_eq!(world.job(job).head.skipped_offline.count(), 0, "nobody was skipped because it was offline");
}

#[test]
fn j11_an_offline_failure_is_counted_before_any_offer_of_the_same_entry() {
    let mut world = one_draining();
    world.next_job(|spec| spec.offline = Offline::Fail);
    let job = world.submit("all", vec![echo(), cleanup(vec![echo()])]);
    let offered: Vec<_> = world.offered().iter().map(|(node, lease)| (node.0, lease.step.0)).collect();
    assert_eq!(offered, [(1, 1), (2, 1)], "the job tripped at once; the clean-up skips the offline node");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.reason(job), "step 0 failed on node-3 (fail-fast); 1 node was offline and skipped");
}

#[test]
fn j11_a_retry_that_waits_when_its_node_goes_offline_stays_failed() {
    let mut world = World::with_nodes(1);
    world.next_job(|spec| spec.offline = Offline::Fail);
    let job = world.submit("all", vec![retrying("ping", "echo", 3)]);
    world.fail(world.offered()[0]);
    world.drain(1);
    let effects = world.advance_ms(2_000);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Offer(_))));
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.results_of(job).len(), 1, "the attempt that failed is the row");
}

#[test]
fn j11_in_a_window_it_is_judged_when_its_turn_comes() {
    let mut world = World::with_nodes(2);
    world.next_job(|spec| spec.offline = Offline::Fail);
    let job = world.submit("all", vec![rolling(1, echo())]);
    world.drain(2);
    assert_eq!(world.status(job), JobStatus::Running, "it is not its turn yet");
    world.succeed_all_offered();
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn j11_skipped_offline_counts_distinct_nodes_and_stands_in_the_reason() {
    let mut world = one_draining();
    let job = world.submit("all", vec![pipeline(vec![echo(), echo()]), echo(), when(Condition::OnSuccess, echo())]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    assert_eq!(world.job(job).head.skipped_offline.count(), 1, "once, whatever the number of its rows");
    assert_eq!(world.reason(job), "1 node was offline and skipped");
    let cancelled = world.submit("all", vec![echo(), echo()]);
    world.cancel(cancelled).unwrap();
    assert_eq!(world.reason(cancelled), "cancelled by request; 1 node was offline and skipped");
}

#[test]
fn j1_an_offline_failure_that_trips_the_job_drops_the_retry_of_another_offline_node() {
    let mut world = World::with_nodes(3);
    world.next_job(|spec| {
        spec.offline = Offline::Fail;
        spec.failure_tolerate = Some(Tolerance::Nodes(1));
    });
    let job = world.submit("all", vec![retrying("ping", "echo", 2)]);
    let leases = world.offered();
    world.leave(3);
    world.fail(leases[0]);
    world.drain(1);
    world.leave(2);
    let rows = world.rows_of(job);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!((rows[&(0, 1)], rows[&(0, 2)], rows[&(0, 3)]), (Outcome::Failed, Outcome::Failed, Outcome::Failed));
    let attempts: Vec<_> = world.results_of(job).iter().map(|row| (row.node.0, row.attempt.0)).collect();
    assert_eq!(attempts, [(3, 0), (1, 1), (2, 0)], "the retry of node 1 was not due");
}
