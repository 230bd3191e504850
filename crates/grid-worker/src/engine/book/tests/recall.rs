//! E2: what is reported to a restored controller about the jobs of its backup, and the mark behind which nothing is known (W2).

use super::{Bench, lease, offer_of};
use crate::engine::book::{Book, MAX_SETTLED, TOMBSTONE_MS};
use crate::engine::record::{Record, Status};
use grid_proto::v1;
use grid_types::decl::EffectClass::{Idempotent, Once};
use grid_types::{JobEpoch, JobId, LeaderEpoch, LeaseKey, SessionId};

fn asked(bench: &mut Bench, jobs: &[u64]) -> v1::JournalReport {
    bench.hear(v1::ToWorker { ask_journal: jobs.to_vec(), ..Default::default() });
    bench.say().journal.expect("an answer")
}

fn settled(bench: &mut Bench, job: u64, step: u32) {
    bench.offer(lease(job, step), Idempotent);
    bench.end(lease(job, step), Status::Success);
    bench.answer(lease(job, step), v1::AnswerKind::Committed);
}

#[test]
fn e2_everything_that_is_known_of_an_asked_job_is_named() {
    let mut bench = Bench::new(8);
    settled(&mut bench, 1, 0);
    bench.offer(lease(1, 1), Once);
    bench.sync();
    assert_eq!(bench.started.last(), Some(&lease(1, 1)));
    settled(&mut bench, 2, 0);
    bench.forget(2);
    bench.revoke(lease(3, 0));
    bench.sync();
    bench.answer(lease(3, 0), v1::AnswerKind::Committed);
    let report = asked(&mut bench, &[1, 2, 3, 4]);
    let of = |job: usize| {
        let leases = report.jobs[job].leases.iter().map(|named| (named.lease.unwrap().step, named.ended()));
        (report.jobs[job].forgotten_epoch, leases.collect::<Vec<_>>())
    };
    assert_eq!(of(0), (0, vec![(1, v1::LeaseStatus::Unspecified), (0, v1::LeaseStatus::Success)]));
    assert_eq!(of(1), (0, vec![(0, v1::LeaseStatus::Success)]), "forgotten a moment ago, and still known");
    assert_eq!(of(2), (0, vec![]), "it was revoked before it started: nothing of it ran");
    assert_eq!(of(3), (0, vec![]));
    assert_eq!((report.is_last, report.newest, report.dropped_to), (true, 3, 0));
    assert_eq!(bench.say().journal, None, "once");
}

#[test]
fn e2_a_once_lease_that_was_not_granted_is_not_named() {
    for is_asking in [false, true] {
        let mut bench = Bench::new(1);
        bench.grants = false;
        bench.offer(lease(1, 0), Once);
        bench.offer(lease(2, 0), Idempotent);
        if is_asking {
            bench.sync();
            assert_eq!(bench.asking(), [lease(1, 0)]);
        }
        let report = asked(&mut bench, &[1, 2]);
        assert_eq!(report.jobs[0].leases, [], "it would be adopted, and granted while its job is held");
        assert_eq!(report.jobs[1].leases.len(), 1, "it starts without asking");
    }
}

#[test]
fn w2_what_was_dropped_for_good_leaves_a_mark_that_outlasts_restarts_and_compaction() {
    let mut bench = Bench::new(8);
    for job in 1..=3 {
        settled(&mut bench, job, 0);
        bench.forget(job);
    }
    bench.book.expire(bench.now.mono_ms);
    bench.book.expire(bench.now.mono_ms + TOMBSTONE_MS);
    let mut bench = bench.restart();
    bench.begin();
    assert_eq!(asked(&mut bench, &[3]).dropped_to, 3);
    bench.journal = bench.book.snapshot().collect();
    let mut bench = bench.restart();
    bench.begin();
    let report = asked(&mut bench, &[3]);
    assert_eq!((report.dropped_to, report.newest), (3, 3));
}

#[test]
fn w2_settled_leases_beyond_the_bound_raise_the_mark() {
    let mut book = Book::new(1);
    for job in 1..=u64::try_from(MAX_SETTLED).unwrap() {
        book.replay(Record::Settled { lease: lease(job, 0), at_ms: 1 });
    }
    let mut bench = Bench::new(1);
    bench.book = book;
    bench.begin();
    assert_eq!(asked(&mut bench, &[1]).dropped_to, 0);
    let newest = u64::try_from(MAX_SETTLED).unwrap() + 1;
    settled(&mut bench, newest, 0);
    assert_eq!(asked(&mut bench, &[1]).dropped_to, 1);
    assert!(bench.journal.contains(&Record::Dropped { up_to: JobId(1) }));
}

#[test]
fn e2_an_offer_that_was_decided_after_a_restore_runs_although_its_job_was_forgotten() {
    let mut bench = Bench::new(8);
    settled(&mut bench, 1, 0);
    bench.forget(1);
    let restored = v1::Offer { restored: true, ..offer_of(lease(1, 1), Idempotent) };
    bench.hear(v1::ToWorker { offers: vec![restored], ..Default::default() });
    assert_eq!(bench.started.last(), Some(&lease(1, 1)));
    bench.offer(lease(1, 2), Idempotent);
    assert!(!bench.started.contains(&lease(1, 2)), "without the leader's decision it may have run");
}

/// How the journal answers about one job: up to which epoch leases may have run without being named, and the named ones.
fn answer_about(bench: &mut Bench, job: u64) -> (u32, Vec<(u32, v1::LeaseStatus)>) {
    let report = asked(bench, &[job]);
    let named = report.jobs[0].leases.iter().map(|named| (named.lease.unwrap().step, named.ended()));
    (report.jobs[0].forgotten_epoch, named.collect())
}

#[test]
fn w2_a_forgotten_job_is_answered_for_with_its_outcomes_for_a_day() {
    let mut bench = Bench::new(8);
    bench.offer(lease(1, 0), Once);
    bench.sync();
    bench.end(lease(1, 0), Status::Success);
    bench.sync();
    bench.answer(lease(1, 0), v1::AnswerKind::Committed);
    bench.offer(lease(1, 1), Idempotent);
    bench.end(lease(1, 1), Status::Failed);
    // The final answer was lost, and the job has ended.
    bench.forget(1);
    let known = (0, vec![(0, v1::LeaseStatus::Success), (1, v1::LeaseStatus::Failed)]);
    assert_eq!(answer_about(&mut bench, 1), known);
    assert_eq!(bench.book.outstanding_count(), 0);
    let mut bench = bench.restart();
    bench.begin();
    assert_eq!(answer_about(&mut bench, 1), known, "after a restart");
    bench.journal = bench.book.snapshot().collect();
    let mut bench = bench.restart();
    bench.begin();
    assert_eq!(answer_about(&mut bench, 1), known, "after a compaction");
    bench.book.expire(bench.now.mono_ms);
    bench.wait(TOMBSTONE_MS - 1);
    bench.book.expire(bench.now.mono_ms);
    assert_eq!(answer_about(&mut bench, 1), known, "just before the day is over");
    bench.wait(1);
    bench.book.expire(bench.now.mono_ms);
    let report = asked(&mut bench, &[1]);
    assert_eq!((report.dropped_to, report.jobs[0].leases.len()), (1, 0));
}

#[test]
fn w2_a_forgotten_lease_that_is_offered_or_revoked_again_is_reported_as_it_ended() {
    let mut bench = Bench::new(8);
    settled(&mut bench, 1, 0);
    settled(&mut bench, 2, 0);
    bench.forget(1);
    bench.forget(2);
    bench.offer(lease(1, 0), Idempotent);
    bench.revoke(lease(2, 0));
    bench.sync();
    let said = bench.say();
    assert_eq!(said.results[0].status(), v1::LeaseStatus::Success);
    assert_eq!(said.revokes_done[0].ended(), v1::LeaseStatus::Success);
    assert_eq!(bench.started, [lease(1, 0), lease(2, 0)], "each of them once");
    bench.answer(lease(1, 0), v1::AnswerKind::SupersededJob);
    let mut bench = bench.restart();
    bench.begin();
    assert_eq!(answer_about(&mut bench, 1), (0, vec![(0, v1::LeaseStatus::Success)]));
}

#[test]
fn w5_a_forgotten_job_is_not_named_again_to_a_new_session() {
    let mut bench = Bench::new(8);
    settled(&mut bench, 1, 0);
    settled(&mut bench, 2, 0);
    bench.forget(1);
    assert!(bench.book.begin_session(SessionId(8), LeaderEpoch::from_wire(2)));
    assert_eq!(bench.say().outstanding.unwrap().settled_jobs, [2]);
}

#[test]
fn w2_beyond_the_bound_forgotten_leases_go_before_others_and_their_job_says_so() {
    let mut bench = Bench::new(1);
    settled(&mut bench, 1, 0);
    settled(&mut bench, 2, 0);
    settled(&mut bench, 2, 1);
    bench.forget(2);
    for job in 3..u64::try_from(MAX_SETTLED).unwrap() {
        bench.book.replay(Record::Settled { lease: lease(job, 0), at_ms: 1 });
    }
    let both = vec![(0, v1::LeaseStatus::Success), (1, v1::LeaseStatus::Success)];
    assert_eq!(answer_about(&mut bench, 2), (0, both), "as many as may be");
    settled(&mut bench, 60_000, 0);
    for is_compacted in [false, true] {
        if is_compacted {
            bench.journal = bench.book.snapshot().collect();
            bench = bench.restart();
            bench.begin();
        }
        assert_eq!(answer_about(&mut bench, 1), (0, vec![(0, v1::LeaseStatus::Success)]), "it may still be running");
        assert_eq!(answer_about(&mut bench, 2), (1, vec![(1, v1::LeaseStatus::Success)]), "step 0 may have run");
        assert_eq!(asked(&mut bench, &[2]).dropped_to, 0, "nothing of other jobs was dropped");
    }
}

#[test]
fn w2_leases_that_an_older_version_dropped_may_have_run() {
    let mut bench = Bench::new(8);
    settled(&mut bench, 1, 0);
    bench.journal.push(Record::Forgotten { job: JobId(1), epoch: JobEpoch(1), at_ms: 1, leases_kept: false });
    let mut bench = bench.restart();
    bench.begin();
    settled(&mut bench, 2, 0);
    let resumed = LeaseKey { job_epoch: JobEpoch(2), ..lease(1, 1) };
    bench.offer(resumed, Idempotent);
    bench.end(resumed, Status::Success);
    bench.forget_up_to(1, 2);
    for is_compacted in [false, true] {
        if is_compacted {
            bench.journal = bench.book.snapshot().collect();
            bench = bench.restart();
            bench.begin();
        }
        let answer = answer_about(&mut bench, 1);
        assert_eq!(answer, (1, vec![(1, v1::LeaseStatus::Success)]), "all of its second epoch is known");
    }
}

#[test]
fn the_error_of_a_forgotten_lease_is_kept_in_part() {
    let mut bench = Bench::new(8);
    bench.offer(lease(1, 0), Idempotent);
    let ended = crate::engine::record::Ended { error: "ä".repeat(1_000), ..super::ended(Status::Failed) };
    bench.book.ended(lease(1, 0), ended, Vec::new(), bench.now);
    bench.forget(1);
    assert_eq!(asked(&mut bench, &[1]).jobs[0].leases[0].error, "ä".repeat(128));
}
