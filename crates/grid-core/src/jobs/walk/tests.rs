//! Tests the job rules of docs/protocol.md (J), one behaviour a test.

mod atomic;
mod changed;
mod cleanup;
mod offline;
mod unknown;

use grid_types::job::Condition;
use grid_types::node::NodeStatus;
use grid_types::{JobStatus, Outcome};

use crate::commands::Command;
use crate::effect::Effect;
use crate::world::{World, cleanup, confirmed, leaf, pipeline, retrying, when};

fn echo() -> grid_types::job::Phase {
    leaf("ping", "echo")
}

#[test]
fn i5_a_phase_starts_when_the_one_before_is_decided_everywhere() {
    let mut world = World::with_nodes(3);
    let job = world.submit("all", vec![echo(), echo()]);
    let leases = world.offered();
    world.succeed(leases[0]);
    world.succeed(leases[1]);
    assert!(world.offered().iter().all(|(_, lease)| lease.step.0 == 0));
    world.succeed(leases[2]);
    assert_eq!(world.offered().iter().map(|(_, lease)| lease.step.0).collect::<Vec<_>>(), [1, 1, 1]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn i6_in_a_pipeline_each_node_walks_alone() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![echo(), echo(), echo()]), echo()]);
    let slow = world.offered()[1];
    for _ in 0..3 {
        let lease = world.offered()[0];
        assert_eq!(lease.0.0, 1);
        world.succeed(lease);
    }
    let left = world.offered();
    assert_eq!(left, [slow], "node 1 is through, node 2 is still at its first sub-step, step 3 waits");
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    assert_eq!(world.rows_of(job).len(), 8);
}

#[test]
fn fail_fast_lets_running_leases_finish_and_offers_nothing_more() {
    let mut world = World::with_nodes(3);
    let job = world.submit("all", vec![echo(), echo()]);
    let leases = world.offered();
    world.fail(leases[0]);
    assert_eq!(world.status(job), JobStatus::Running, "two still run");
    world.succeed(leases[1]);
    world.succeed(leases[2]);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.reason(job), "step 0 failed on node-1 (fail-fast)");
    let rows = world.rows_of(job);
    assert_eq!(rows[&(0, 2)], Outcome::Success);
    assert!((1..=3).all(|node| rows[&(1, node)] == Outcome::Skipped));
}

#[test]
fn j1_a_failure_is_counted_before_any_offer_of_the_same_entry() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![echo(), echo()])]);
    let leases = world.offered();
    let session = |world: &World, node| world.session(node);
    let good = world.result_command(leases[0], session(&world, 1), Outcome::Success);
    let bad = world.result_command(leases[1], session(&world, 2), Outcome::Failed);
    let applied = world.apply(vec![good, bad]);
    assert!(!applied.effects.iter().any(|e| matches!(e, Effect::Offer(_))), "the success came first, yet no offer");
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn j1_a_trip_cancels_pending_retries() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![pipeline(vec![retrying("test", "fail", 5), echo()])]);
    let leases = world.offered();
    world.fail(leases[0]);
    world.succeed(leases[1]);
    let other = world.offered()[0];
    world.fail(other);
    assert_eq!(world.status(job), JobStatus::Failed, "nothing is left to wait for");
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Failed);
    assert!(world.advance_ms(120_000).is_empty());
}

#[test]
fn continue_excludes_failed_nodes_from_later_phases() {
    let mut world = World::with_nodes(3);
    world.next_strategy_continue();
    let job = world.submit("all", vec![echo(), echo()]);
    let leases = world.offered();
    world.fail(leases[0]);
    world.succeed(leases[1]);
    world.succeed(leases[2]);
    let next = world.offered();
    assert_eq!(next.iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [2, 3]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Skipped);
}

#[test]
fn continue_fails_when_no_node_is_left() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![echo(), echo()]);
    for lease in world.offered() {
        world.fail(lease);
    }
    assert_eq!(world.status(job), JobStatus::Failed);
    assert!(world.reason(job).contains("no node is left"));
    assert_eq!(world.rows_of(job).len(), 4);
}

#[test]
fn nodes_that_join_after_the_start_are_not_part_of_the_job() {
    let mut world = World::with_nodes(2);
    let job = world.submit("group:web", vec![echo(), echo()]);
    world.add_nodes(2);
    world.finish_all();
    assert_eq!(world.job(job).expected.len(), 2);
    assert_eq!(world.rows_of(job).len(), 4);
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn on_failure_phases_run_on_every_expected_node_the_failed_ones_included() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo(), cleanup(vec![leaf("test", "succeed"), leaf("test", "succeed")])]);
    let leases = world.offered();
    world.fail(leases[0]);
    world.succeed(leases[1]);
    let cleaning = world.offered();
    assert_eq!(cleaning.iter().map(|(node, lease)| (node.0, lease.step.0)).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Failed);
    assert!(world.rows_of(job).iter().filter(|((step, _), _)| *step > 0).all(|(_, o)| *o == Outcome::Success));
}

#[test]
fn a_clean_up_that_fails_on_one_node_goes_on_on_the_others() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo(), cleanup(vec![echo(), echo()])]);
    for lease in world.offered() {
        world.fail(lease);
    }
    let cleaning = world.offered();
    world.fail(cleaning[0]);
    world.succeed(cleaning[1]);
    world.finish_all();
    let rows = world.rows_of(job);
    assert_eq!(rows[&(2, 1)], Outcome::Skipped);
    assert_eq!(rows[&(2, 2)], Outcome::Success);
}

#[test]
fn conditions_of_top_level_phases_look_at_the_job() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit(
        "all",
        vec![
            when(Condition::OnFailure, echo()),
            echo(),
            when(Condition::OnSuccess, echo()),
            when(Condition::OnFailure, echo()),
        ],
    );
    let leases = world.offered();
    assert!(leases.iter().all(|(_, lease)| lease.step.0 == 1), "nothing had failed");
    world.fail(leases[0]);
    world.succeed(leases[1]);
    let last = world.offered();
    assert_eq!(last.iter().map(|(node, lease)| (node.0, lease.step.0)).collect::<Vec<_>>(), [(1, 3)]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    let skipped: Vec<_> =
        world.rows_of(job).into_iter().filter(|(_, o)| *o == Outcome::Skipped).map(|(k, _)| k).collect();
    assert_eq!(skipped, [(0, 1), (0, 2), (2, 1), (2, 2), (3, 2)]);
}

#[test]
fn j5_conditions_in_a_pipeline_look_at_that_node() {
    for keep_going in [false, true] {
        let mut world = World::with_nodes(2);
        if keep_going {
            world.next_strategy_continue();
        }
        let job = world.submit(
            "all",
            vec![pipeline(vec![
                echo(),
                when(Condition::OnSuccess, echo()),
                echo(),
                when(Condition::OnFailure, leaf("test", "succeed")),
            ])],
        );
        let leases = world.offered();
        world.succeed(leases[1]);
        world.fail(leases[0]);
        world.finish_all();
        let rows = world.rows_of(job);
        assert_eq!(rows[&(1, 1)], Outcome::Skipped);
        assert_eq!(rows[&(2, 1)], Outcome::Skipped);
        assert_eq!(rows[&(3, 1)], Outcome::Success, "on_failure runs under both strategies");
        assert_eq!(rows[&(3, 2)], Outcome::Skipped);
        let second = if keep_going { Outcome::Success } else { Outcome::Skipped };
        assert_eq!(rows[&(2, 2)], second);
    }
}

#[test]
fn w7_a_node_gets_at_most_its_slots_and_the_rest_wait() {
    let mut world = World::new();
    world.register_with_slots("small", 1);
    let first = world.submit("all", vec![echo(), echo()]);
    let second = world.submit("all", vec![echo()]);
    assert_eq!(world.offered().len(), 1);
    assert_eq!(world.count(second, 0, Outcome::Pending), 1);
    world.succeed_all_offered();
    assert_eq!(world.offered()[0].1.job, first, "the older job goes on first");
    world.finish_all();
    assert_eq!(world.status(second), JobStatus::Completed);
}

#[test]
fn j4_offline_nodes_are_skipped_by_name_and_the_job_goes_on() {
    let mut world = World::with_nodes(2);
    for (from, to) in [(NodeStatus::Ready, NodeStatus::Warning), (NodeStatus::Warning, NodeStatus::Unhealthy)] {
        world.mark(1, world.session(1), from, to).unwrap();
    }
    let job = world.submit("all", vec![echo(), echo()]);
    world.finish_all();
    assert_eq!(world.status(job), JobStatus::Completed);
    let rows = world.rows_of(job);
    assert_eq!((rows[&(0, 1)], rows[&(0, 2)]), (Outcome::Skipped, Outcome::Success));
    assert_eq!(world.job(job).expected.len(), 2, "never dropped in silence");
}

#[test]
fn a_job_that_reached_nobody_has_not_completed() {
    let mut world = World::with_nodes(2);
    world.leave(1);
    world.leave(2);
    let job = world.submit("all", vec![echo()]);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert!(world.reason(job).starts_with("no node was reachable; "), "{}", world.reason(job));
}

#[test]
fn a_phase_that_reached_nobody_has_not_been_done() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![echo(), echo()]);
    let lease = world.offered()[0];
    world.drain(1);
    world.succeed(lease);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.reason(job), "no node was left or reachable for step 1; 1 node was offline and skipped");
}

#[test]
fn a_job_without_a_node_left_has_not_completed() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    let job = world.submit("all", vec![leaf("test", "record"), echo()]);
    let leases = world.offered();
    world.begin_all();
    world.mark_dead(1);
    world.register("node-1", b"journal-1", 2, b"back", false).unwrap();
    world.report(leases[0], Outcome::Success).unwrap();
    world.fail(leases[1]);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.reason(job), "no node was left or reachable for step 1");
}

#[test]
fn a_job_that_succeeded_nowhere_has_not_completed() {
    let mut world = World::with_nodes(2);
    world.next_strategy_continue();
    world.leave(1);
    let job = world.submit("all", vec![echo()]);
    world.fail(world.offered()[0]);
    assert_eq!(world.status(job), JobStatus::Failed, "one failed, the other was offline: no node is left");
}

/// A worker like `node-1`, but for one backend.
fn register_lacking(world: &mut World, id: &str, backend: &str, boot: u64) {
    let mut facts = (*world.state.nodes.values().next().unwrap().facts).clone();
    facts.backends.remove(backend);
    let (id, journal_id, nonce) = (id.parse().unwrap(), id.as_bytes().to_vec(), boot.to_be_bytes().to_vec());
    let command = crate::RegisterNode {
        id,
        facts,
        journal_id,
        boot,
        nonce,
        known_session_lives: false,
        agent: false,
        outstanding: Vec::new(),
        unstarted: Vec::new(),
        secret: None,
    };
    world.apply(vec![Command::RegisterNode(command)]).replies.remove(0).unwrap();
}

#[test]
fn a_node_that_does_not_run_the_backend_fails_the_step_with_the_reason() {
    let mut world = World::with_nodes(1);
    world.next_strategy_continue();
    register_lacking(&mut world, "bare", "test", 1);
    let job = world.submit("all", vec![leaf("test", "succeed")]);
    world.finish_all();
    let row = world.results_of(job).into_iter().find(|row| row.node.0 == 2).unwrap();
    assert_eq!((row.outcome, row.attempt.0), (Outcome::Failed, 0));
    assert!(row.reason.unwrap().text(job).contains("does not run test succeed; start it with --enable-backend test"));
}

#[test]
fn w8_a_once_step_is_retried_only_after_a_definite_failure() {
    for (outcome, retried) in [(Outcome::Failed, true), (Outcome::TimedOut, false), (Outcome::Unknown, false)] {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![retrying("test", "record", 3)]);
        assert_eq!(world.effect_of(job), grid_types::decl::EffectClass::Once);
        world.report(world.offered()[0], outcome).unwrap();
        world.advance_ms(60_000);
        assert_eq!(!world.offered().is_empty(), retried, "{outcome}");
    }
}

#[test]
fn a_timed_out_idempotent_step_is_retried() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![retrying("test", "sleep", 1)]);
    world.report(world.offered()[0], Outcome::TimedOut).unwrap();
    world.advance_ms(60_000);
    world.report(world.offered()[0], Outcome::TimedOut).unwrap();
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::TimedOut);
}

#[test]
fn a_retry_whose_node_went_offline_keeps_its_failure() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![retrying("test", "fail", 3)]);
    world.fail(world.offered()[0]);
    world.leave(1);
    world.advance_ms(60_000);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Failed);
}

#[test]
fn l8_an_ended_job_leaves_only_its_stub_and_says_forget() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![echo()]);
    let lease = world.offered()[0];
    let command = world.result_command(lease, world.session(1), Outcome::Success);
    let applied = world.apply(vec![command]);
    assert!(applied.effects.contains(&Effect::Forget { job, epoch: lease.1.job_epoch, nodes: vec![lease.0] }));
    assert!(world.state.jobs.is_empty());
    assert_eq!(world.state.stubs[&job].status, JobStatus::Completed);
}

#[test]
fn a_new_leader_finds_every_unsettled_lease() {
    let mut world = World::with_nodes(3);
    world.submit("all", vec![echo()]);
    world.succeed(world.offered()[0]);
    let before = world.offered();
    world.begin_term(world.head().term + 1).unwrap();
    assert_eq!(world.offered(), before);
    world.finish_all();
}

#[test]
fn j8_terminal_is_final_within_a_job_epoch() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![echo()]);
    let leases = world.offered();
    world.fail(leases[0]);
    world.succeed(leases[1]);
    assert_eq!(world.status(job), JobStatus::Failed);
    let (before, rows) = (world.state.hash(), world.rows_of(job));
    for lease in leases {
        for outcome in [Outcome::Success, Outcome::Failed, Outcome::Unknown] {
            world.report(lease, outcome).unwrap();
        }
        world.confirm_revoked(lease).unwrap();
        world.expire(lease);
    }
    assert!(world.cancel(job).is_err());
    world.advance_ms(48 * 3_600_000);
    assert_eq!(world.rows_of(job), rows);
    assert_eq!(world.status(job), JobStatus::Failed);
    world.rewind_clock();
    assert_eq!(world.state.hash(), before);
}

#[test]
fn l7_equal_logs_give_equal_hashes_and_any_difference_of_history_shows() {
    let run = |message: Outcome| {
        let mut world = World::with_nodes(2);
        world.submit("all", vec![echo()]);
        let leases = world.offered();
        world.report(leases[0], message).unwrap();
        world.succeed(leases[1]);
        world.state.hash()
    };
    assert_eq!(run(Outcome::Failed), run(Outcome::Failed));
    // Both jobs end failed and leave the same stub: only the rolling hash of history tells them apart.
    assert_ne!(run(Outcome::Failed), run(Outcome::TimedOut));
}

#[test]
fn a_clean_up_in_a_pipeline_is_retried_though_its_own_failure_tripped_the_job() {
    let mut world = World::with_nodes(1);
    let restore = when(Condition::OnFailure, retrying("test", "fail", 1));
    let job = world.submit("all", vec![pipeline(vec![echo(), restore])]);
    world.fail(world.offered()[0]);
    world.fail(world.offered()[0]);
    assert_eq!(world.status(job), JobStatus::Running, "the clean-up asked for a retry");
    world.advance_ms(2_000);
    world.succeed(world.offered()[0]);
    assert_eq!(world.rows_of(job)[&(1, 1)], Outcome::Success);
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn a_job_that_reached_nobody_has_failed_for_its_conditions_too() {
    let mut world = World::with_nodes(1);
    world.drain(1);
    let gated = |condition| vec![echo(), when(condition, confirmed(leaf("test", "succeed")))];
    let unasked = world.submit("all", gated(Condition::OnSuccess));
    assert_eq!(world.status(unasked), JobStatus::Failed, "nobody is asked to confirm a success that cannot be");
    let cleans = world.submit("all", gated(Condition::OnFailure));
    world.register("node-1", b"journal-1", 2, b"back", false).unwrap();
    world.confirm(cleans, None).unwrap();
    assert_eq!(world.offered().len(), 1, "its clean-up runs");
    world.finish_all();
    assert_eq!(world.status(cleans), JobStatus::Failed);
}

#[test]
fn j1_a_retry_that_cannot_be_is_counted_before_any_offer_of_the_same_entry() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![retrying("test", "fail", 1)]);
    for lease in world.offered() {
        world.fail(lease);
    }
    world.drain(2);
    let effects = world.advance_ms(60_000);
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::Offer(_))),
        "node-2 has failed for good: {effects:?}"
    );
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn j4_an_offline_node_is_skipped_or_waited_for_whatever_it_runs() {
    let mut world = World::with_nodes(1);
    register_lacking(&mut world, "bare", "test", 1);
    world.drain(2);
    let lacked = || vec![pipeline(vec![echo(), leaf("test", "succeed")])];
    let skips = world.submit("all", lacked());
    world.finish_all();
    assert_eq!(world.status(skips), JobStatus::Completed, "{}", world.reason(skips));
    assert_eq!(world.count(skips, 1, Outcome::Skipped), 1, "offline, not failed");
    world.next_job(|spec| spec.offline = grid_types::job::Offline::Wait);
    let waits = world.submit("node:bare", vec![leaf("test", "succeed")]);
    assert_eq!(world.status(waits), JobStatus::Running, "it may come back with the backend");
    register_lacking(&mut world, "bare", "nothing", 2);
    world.finish_all();
    assert_eq!(world.status(waits), JobStatus::Completed);
}
