//! E2: what a restored controller is told about the jobs of its backup, and the mark behind which nothing is known (W2).

use super::{Bench, lease, offer_of};
use crate::book::{Book, MAX_SETTLED, TOMBSTONE_MS};
use crate::journal::{Record, Status};
use grid_proto::v1;
use grid_types::JobId;
use grid_types::decl::EffectClass::{Idempotent, Once};

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
    assert_eq!(of(1), (1, vec![]));
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
