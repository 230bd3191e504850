//! Offers, revokes and forgets: what runs, what does not, and in which order.

use super::{Bench, SESSION, ended, lease, offer_of};
use crate::engine::book::{Received, TOMBSTONE_MS};
use crate::engine::record::{Record, Status};
use grid_proto::v1;
use grid_types::decl::EffectClass::{Idempotent, Once};
use grid_types::{JobEpoch, LeaderEpoch, LeaseKey, SessionId};

#[test]
fn w2_an_offer_of_another_session_is_ignored() {
    let mut bench = Bench::new(8);
    let offers = vec![v1::Offer { session: SESSION - 1, ..offer_of(lease(1, 0), Idempotent) }];
    bench.hear(v1::ToWorker { offers, ..Default::default() });
    assert_eq!((bench.started.len(), bench.book.outstanding_count()), (0, 0));
}

#[test]
fn w2_a_deposed_leader_is_not_obeyed_even_after_a_restart() {
    let mut bench = Bench::new(8);
    bench.epoch = 5;
    bench.hear(v1::ToWorker::default());
    assert!(bench.journal.contains(&Record::Epoch(LeaderEpoch::from_wire(5))));
    let mut bench = bench.restart();
    assert!(!bench.book.begin_session(SessionId(SESSION), LeaderEpoch::from_wire(4)));
    bench.begin();
    bench.epoch = 4;
    let offers = vec![offer_of(lease(1, 0), Idempotent)];
    assert!(matches!(bench.hear(v1::ToWorker { offers, ..Default::default() }), Received::Reconnect { .. }));
    assert_eq!(bench.started, []);
}

#[test]
fn w2_a_known_lease_is_answered_and_never_started_again() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Idempotent);
    assert_eq!(bench.say().accepted.len(), 1);
    bench.offer(key, Idempotent);
    assert_eq!(bench.say().accepted.len(), 1, "running: the leader is told that it is outstanding");
    bench.end(key, Status::Success);
    assert_eq!(bench.results().len(), 1);
    bench.offer(key, Idempotent);
    assert_eq!(bench.results(), [(key, v1::LeaseStatus::Success)], "finished: reported from the book");
    bench.answer(key, v1::AnswerKind::Committed);
    assert_eq!(bench.book.outstanding_count(), 0);
    bench.offer(key, Idempotent);
    assert_eq!(bench.results(), [(key, v1::LeaseStatus::Success)], "settled: reported once more");
    assert_eq!(bench.started, [key]);
}

#[test]
fn w2_a_revoke_of_a_lease_never_seen_is_journalled_and_the_lease_never_runs() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.revoke(key);
    assert!(bench.journal.contains(&Record::Revoked { lease: key }));
    assert_eq!(bench.revokes_done(), [], "not before it is on disk");
    bench.sync();
    assert_eq!(bench.revokes_done(), [(key, v1::LeaseStatus::Unspecified)]);
    bench.offer(key, Idempotent);
    assert_eq!(bench.revokes_done(), [(key, v1::LeaseStatus::Unspecified)]);
    let mut bench = bench.restart();
    bench.begin();
    bench.offer(key, Idempotent);
    assert_eq!(bench.started, []);
}

#[test]
fn w2_an_offer_merged_with_its_own_revoke_does_not_run() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    let offers = vec![offer_of(key, Idempotent)];
    bench.hear(v1::ToWorker { offers, revokes: vec![key.into()], ..Default::default() });
    bench.sync();
    assert_eq!(bench.started, []);
    assert_eq!(bench.revokes_done(), [(key, v1::LeaseStatus::Unspecified)]);
}

#[test]
fn w2_a_revoke_stops_its_lease_and_no_other_step_of_the_epoch() {
    let mut bench = Bench::new(8);
    bench.revoke(lease(1, 0));
    bench.offer(lease(1, 1), Idempotent);
    assert_eq!(bench.started, [lease(1, 1)]);
}

#[test]
fn w2_a_lease_of_an_older_job_epoch_counts_as_revoked() {
    let mut bench = Bench::new(8);
    let newer = LeaseKey { job_epoch: JobEpoch(2), ..lease(1, 0) };
    bench.offer(newer, Idempotent);
    bench.offer(lease(1, 1), Idempotent);
    bench.sync();
    assert_eq!(bench.started, [newer]);
    assert_eq!(bench.revokes_done(), [(lease(1, 1), v1::LeaseStatus::Unspecified)]);
}

#[test]
fn w2_settled_leases_stay_until_forget_and_a_day() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Once);
    bench.sync();
    bench.end(key, Status::Success);
    bench.sync();
    bench.answer(key, v1::AnswerKind::Committed);
    bench.wait(10 * TOMBSTONE_MS);
    bench.book.expire(bench.now.mono_ms);
    let mut bench = bench.restart();
    bench.begin();
    bench.offer(key, Once);
    assert_eq!(bench.results(), [(key, v1::LeaseStatus::Success)], "never forgotten");
    bench.answer(key, v1::AnswerKind::Committed);
    bench.forget(1);
    bench.book.expire(bench.now.mono_ms);
    bench.wait(TOMBSTONE_MS - 1);
    bench.book.expire(bench.now.mono_ms);
    let mut bench = bench.restart();
    bench.begin();
    bench.offer(key, Once);
    bench.sync();
    assert_eq!(bench.results(), [(key, v1::LeaseStatus::Success)], "forgotten, but not long ago");
    bench.offer(lease(1, 1), Once);
    bench.sync();
    assert_eq!(bench.results(), [(lease(1, 1), v1::LeaseStatus::Unknown)], "nothing is known of this one");
    assert_eq!(bench.started, []);
    let resumed = LeaseKey { job_epoch: JobEpoch(2), ..key };
    bench.offer(resumed, Idempotent);
    assert_eq!(bench.started, [resumed], "a resumed job runs under its new epoch");
    bench.book.expire(bench.now.mono_ms);
    bench.wait(TOMBSTONE_MS - 1);
    bench.book.expire(bench.now.mono_ms);
    assert_eq!(bench.book.forgotten.job_count(), 1, "a whole day again after a restart");
    bench.wait(1);
    bench.book.expire(bench.now.mono_ms);
    assert_eq!(bench.book.forgotten.job_count(), 0);
}

#[test]
fn w6_a_wall_clock_that_jumps_forgets_nothing() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Once);
    bench.sync();
    bench.end(key, Status::Success);
    bench.sync();
    bench.answer(key, v1::AnswerKind::Committed);
    bench.forget(1);
    for jump_ms in [365 * TOMBSTONE_MS, 0] {
        bench.now.wall_ms = jump_ms;
        bench.book.expire(bench.now.mono_ms);
        bench.offer(key, Once);
        bench.sync();
        assert_eq!(bench.results(), [(key, v1::LeaseStatus::Success)], "still known");
        bench.answer(key, v1::AnswerKind::SupersededSettled);
    }
    assert_eq!(bench.started, [key], "once");
}

#[test]
fn w7_leases_of_one_job_run_one_after_the_other() {
    let mut bench = Bench::new(8);
    bench.offer(lease(1, 0), Idempotent);
    bench.offer(lease(1, 1), Idempotent);
    bench.offer(lease(2, 0), Idempotent);
    assert_eq!(bench.started, [lease(1, 0), lease(2, 0)]);
    assert_eq!((bench.book.outstanding_count(), bench.book.active_count()), (3, 2));
    bench.end(lease(1, 0), Status::Failed);
    assert_eq!(bench.started, [lease(1, 0), lease(2, 0), lease(1, 1)]);
}

#[test]
fn w7_no_more_than_slots_run_and_the_queue_is_bounded() {
    let mut bench = Bench::new(2);
    for job in 1..=20 {
        bench.offer(lease(job, 0), Idempotent);
    }
    assert_eq!(bench.started, [lease(1, 0), lease(2, 0)]);
    assert_eq!(bench.book.outstanding_count(), 2 + 4, "the rest is left to the leader, which offers again");
    bench.end(lease(1, 0), Status::Success);
    assert_eq!(bench.started.last(), Some(&lease(3, 0)));
}

#[test]
fn w9_a_running_lease_is_stopped_and_confirmed_only_when_it_is_over() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Idempotent);
    bench.revoke(key);
    bench.sync();
    assert_eq!(bench.stopped, [key]);
    assert_eq!(bench.revokes_done(), []);
    assert!(bench.book.holds(&key));
    bench.end(key, Status::Cancelled);
    bench.sync();
    assert_eq!(bench.revokes_done(), [(key, v1::LeaseStatus::Cancelled)]);
    bench.answer(key, v1::AnswerKind::Committed);
    assert!(!bench.book.holds(&key));
}

#[test]
fn w9_a_revoke_tells_how_the_lease_had_ended_before() {
    let mut bench = Bench::new(8);
    let (before, meanwhile) = (lease(1, 0), lease(2, 0));
    bench.offer(before, Idempotent);
    bench.end(before, Status::Failed);
    bench.results();
    bench.revoke(before);
    bench.offer(meanwhile, Idempotent);
    bench.revoke(meanwhile);
    bench.end(meanwhile, Status::Success);
    bench.sync();
    let done = bench.revokes_done();
    assert_eq!(done, [(before, v1::LeaseStatus::Failed), (meanwhile, v1::LeaseStatus::Success)]);
}

#[test]
fn w5_a_revoke_that_crossed_the_final_answer_is_confirmed() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Idempotent);
    bench.end(key, Status::Success);
    bench.results();
    bench.answer(key, v1::AnswerKind::Committed);
    bench.revoke(key);
    assert_eq!(bench.revokes_done(), [], "an idempotent result may not be on disk yet");
    bench.sync();
    assert_eq!(bench.revokes_done(), [(key, v1::LeaseStatus::Success)]);
    bench.answer(key, v1::AnswerKind::SupersededSettled);
    assert_eq!(bench.book.outstanding_count(), 0);
    bench.offer(key, Idempotent);
    assert_eq!(bench.started, [key], "and it still never runs again");
}

#[test]
fn w9_a_queued_or_starting_lease_is_revoked_without_having_run() {
    let mut bench = Bench::new(1);
    let (starting, queued, next) = (lease(1, 0), lease(2, 0), lease(3, 0));
    bench.offer(starting, Once);
    bench.offer(queued, Idempotent);
    bench.offer(next, Idempotent);
    bench.revoke(queued);
    bench.revoke(starting);
    bench.sync();
    assert_eq!(bench.started, [next], "its slot is free");
    let unspecified = v1::LeaseStatus::Unspecified;
    assert_eq!(bench.revokes_done(), [(starting, unspecified), (queued, unspecified)]);
}

#[test]
fn w9_a_revoke_of_what_ran_when_the_worker_died_says_that_it_had_started() {
    let mut bench = Bench::new(1);
    let key = lease(1, 0);
    bench.offer(key, Idempotent);
    bench.sync();
    assert_eq!(bench.started, [key]);
    let mut bench = bench.restart();
    bench.begin();
    assert!(!bench.book.holds(&key), "W3: it may be offered again");
    bench.revoke(key);
    bench.sync();
    let done = bench.say().revokes_done;
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].ended(), done[0].started_at_ms > 0), (v1::LeaseStatus::Cancelled, true), "{done:?}");
}

#[test]
fn told_to_stop_nothing_new_is_taken_and_everything_ends_with_a_reason() {
    let mut bench = Bench::new(2);
    let (once, again, queued) = (lease(1, 0), lease(2, 0), lease(3, 0));
    bench.offer(once, Once);
    bench.sync();
    bench.offer(again, Idempotent);
    bench.offer(queued, Idempotent);
    bench.book.stop_all(bench.now);
    bench.settle();
    assert_eq!(bench.stopped, [once, again]);
    bench.offer(lease(4, 0), Idempotent);
    assert!(!bench.book.holds(&lease(4, 0)));
    for key in [once, again] {
        bench.book.ended(key, ended(Status::Cancelled), Vec::new(), bench.now);
    }
    bench.sync();
    let results = bench.results();
    assert_eq!(results[0], (once, v1::LeaseStatus::Unknown), "it may have done half of its work");
    assert_eq!(results[1..], [(again, v1::LeaseStatus::Failed), (queued, v1::LeaseStatus::Failed)]);
    assert_eq!(bench.started, [once, again]);
}
